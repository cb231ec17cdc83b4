/* SPDX-License-Identifier: MIT */
/*
 * Fork.
 *
 * No lock is taken before fork (but the purge thread's, which is waited for a moment at most): a thread that holds
 * libc's stdio lock may be waiting for one of ours, and fork waits for stdio. So the child finds our memory as it was
 * at one instant (each thread stopped somewhere, none having seen what another did later) and repairs it: a structure
 * whose lock was held is rebuilt from what is written before it, and the heaps of the threads that
 * are gone are retired; the latter before the child's first slow path, which most children never
 * take. When fork was called in a signal handler that interrupted this very thread
 * inside a slow path, the thread's own heap is forsaken: it starts anew, and the interrupted call, if the
 * handler returns to it, goes on with the old one. That is safe only if there was no other thread: then
 * only that call can hold a lock, and it will release it when it goes on, so nothing is rebuilt unless the
 * child asks for memory before that. If the call was on malloc's fast path, which marks nothing, a child that does
 * both may be served a block twice. (With threads POSIX leaves a child no more than async-signal-safe
 * calls; it may not return into malloc.)
 */
#ifndef HAK_ABI_FORK_H
#define HAK_ABI_FORK_H

#include <stdbool.h>

#include "base/compiler.h"

/* What libc calls around fork; in the parent background_release. */
void fork_prepare(void);
void fork_child(void);

/* In a child: sets right what threads, or a call amid which a handler forked, left half done. False: this is a handler
   amid that. */
bool fork_repair(void);
extern HAK_HIDDEN bool hak_fork_repair_due;

HAK_INLINE bool fork_repair_is_due(void) {
	/* Acquire: all that the repair did. */
	return HAK_UNLIKELY(__atomic_load_n(&hak_fork_repair_due, __ATOMIC_ACQUIRE));
}

/* Whoever takes a lock without a heap, or makes a thread, asks first; lifecycle_heap does it by itself. */
HAK_INLINE void fork_repair_if_due(void) {
	if (fork_repair_is_due())
		fork_repair();
}

#endif
