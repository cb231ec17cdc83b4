/* SPDX-License-Identifier: MIT */
/*
 * Lifecycle: the process's first block, a thread's first and last.
 *
 *   thread:  inert (zeroed TLS) -> attached when it first asks for memory -> torn down at its exit
 *
 * A torn-down thread never gets a heap again: TLS destructors, key destructors and libc's own
 * clean-up still allocate and free then, and are served by the late heap. The thread in which
 * this begins, if that is the main thread, is never torn down: it may allocate in atexit handlers and
 * destructors up to the end.
 */
#ifndef HAK_ABI_LIFECYCLE_H
#define HAK_ABI_LIFECYCLE_H

#include "front/heap.h"
#include "front/locked_heap.h"

/* The calling thread's heap, attaching it if need be; NULL if it is torn down or out of memory. */
struct heap *lifecycle_heap(void);

/* The heap for threads without one; NULL: out of memory. */
struct locked_heap *lifecycle_late_heap(void);

/* The calling thread ends: gives its heap up. */
void lifecycle_thread_exit(void);

/* Makes sure the process is set up. lifecycle_heap does it by itself. */
void lifecycle_init(void);

/* The priority of constructors and destructors: before all that a program can ask for, and after. */
enum { INIT_FIRST = 100 };

/* The calling thread, which has a heap, leaves it as it is, and attaches anew at its next slow path. */
void lifecycle_forsake_heap(void);

/* Guards the making of what the process has one of. */
struct lock *lifecycle_lock(void);

#endif
