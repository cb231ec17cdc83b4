/* SPDX-License-Identifier: MIT */
/* The registers of a thread that ptrace stopped at a system call, one file per architecture. */
#ifndef TESTS_REGS_H
#define TESTS_REGS_H

#include <sys/types.h>

/* The number of the system call that the thread is about to make. */
long regs_get_call(pid_t thread);

/* Has that call not be made. */
void regs_skip_call(pid_t thread);

/* What the call, now over, gives. */
void regs_set_result(pid_t thread, long result);

#endif
