/* SPDX-License-Identifier: MIT */
#include "os/lock.h"

#include "os/os.h"

enum { SPINS = 100 }; /* critical sections are shorter than a trip through the kernel */

void lock_acquire_slow(struct lock *l) {
	for (int i = 0; i < SPINS; i++) {
		os_pause();
		if (atomic_load_explicit(&l->word, memory_order_relaxed) == 0 && lock_try(l))
			return;
	}
	/* Acquire as in lock_try. Taking it as 2 may cost one needless wake, never a lost one. */
	while (atomic_exchange_explicit(&l->word, 2, memory_order_acquire) != 0)
		os_wait(&l->word, 2);
}

void lock_release_slow(struct lock *l) {
	os_wake(&l->word);
}
