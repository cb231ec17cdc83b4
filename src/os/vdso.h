/* SPDX-License-Identifier: MIT */
/* Functions that the kernel gives a process to call without a system call. Linux only. */
#ifndef HAK_OS_VDSO_H
#define HAK_OS_VDSO_H

#include "base/compiler.h"

/* Address of a function of the vDSO; NULL: there is no such function, or no vDSO. Leaves errno alone. */
void *vdso_find(const char *name);

#endif
