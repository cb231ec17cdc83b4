/* SPDX-License-Identifier: MIT */
/* What the shared library stands before: the definitions that the process would use without it, libc's as a rule. */
#ifndef HAK_ABI_NEXT_H
#define HAK_ABI_NEXT_H

#include <stdatomic.h>

#include "base/compiler.h"

/* Looked up once; NULL: there is none. */
HAK_HIDDEN void *next_definition(_Atomic(void *) *cached, const char *name);

#endif
