/* SPDX-License-Identifier: MIT */
/*
 * A mutex on one futex word: 0 free, 1 held, 2 held and somebody sleeps.
 *
 * Not recursive. Holders run a bounded stretch of our own code and system calls that do not block,
 * never user code. (A first-class heap's may be held for longer where there is no memory: purge_release_empty.)
 */
#ifndef HAK_OS_LOCK_H
#define HAK_OS_LOCK_H

#include <stdatomic.h>

#include "os/alone.h"

struct lock {
	_Atomic uint32_t word;
};

/* After lock_try has failed. False: it is held for longer than is usual, and `may_wait` is false, as in a signal
   handler, which may have interrupted the thread that holds it. */
bool lock_acquire_slow(struct lock *l, bool may_wait);

HAK_INLINE bool lock_try(struct lock *l) {
	/* Acquire: what the last holder wrote is seen. */
	return change_if(&l->word, 0, 1, memory_order_acquire);
}

void lock_acquire(struct lock *l);
void lock_release(struct lock *l);

/* By whomever. Around fork, where nothing else goes on. */
HAK_INLINE bool lock_is_held(const struct lock *l) {
	return atomic_load_explicit(&l->word, memory_order_relaxed) != 0;
}

/* Only in a child of fork, where no other thread exists. */
HAK_INLINE void lock_reset(struct lock *l) {
	atomic_store_explicit(&l->word, 0, memory_order_relaxed);
}

#endif
