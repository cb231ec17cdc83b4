/* SPDX-License-Identifier: MIT */
/* What the fork programs share. */
#ifndef TESTS_FORKS_H
#define TESTS_FORKS_H

#include <sys/types.h>

/* What a child does to prove that it is whole: it checks and frees blocks of the parent's other
   threads, allocates all sizes, and ends by _exit. A child that hangs is ended by an alarm. */
__attribute__((noreturn)) void fork_prove_child(void);

/* As fork_prove_child, with threads of its own. */
__attribute__((noreturn)) void fork_prove_child_threads(void);

/* Waits for a child, which must exit with status 0. Async-signal-safe. */
void fork_expect_success(pid_t child);

/* Forks a child that proves itself, and waits for it. Async-signal-safe. */
void fork_prove_once(void);

/* `count` threads that allocate, fill, hand over and free blocks until the process ends. */
void fork_start_load(int count);

/* One round of such work, in the calling thread. */
void fork_load_once(void);

#endif
