/* SPDX-License-Identifier: MIT */
/* What can be seen of a process from outside. */
#ifndef HAK_BENCH_PROGRAM_PROBE_H
#define HAK_BENCH_PROGRAM_PROBE_H

#include <stddef.h>
#include <sys/types.h>

/* Runs a program of one thread to its end, tracing it; `argv` and `envp` end with NULL, argv[0] is
   a path. Returns the number of its system calls after the exec, or 0 if tracing is not allowed. */
size_t program_count_calls(const char *const *argv, char *const *envp);

/* Returns when the process has not run for a while. */
void program_wait_until_idle(pid_t pid);

/* Page faults of the process so far that needed no input or output. */
unsigned long long program_faults(pid_t pid);

#endif
