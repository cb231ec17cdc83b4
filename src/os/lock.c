/* SPDX-License-Identifier: MIT */
#include "os/lock.h"

#include "os/os.h"

enum {
	SPINS = 500,  /* pauses: a trip through the kernel, and another processor's out of its sleep, take longer, */
	LONGEST = 16, /* and those who wait had better not all look at the word all the time */
};

bool lock_acquire_slow(struct lock *l, bool may_wait) {
	for (int i = 0, n = 1; i < SPINS; i += n, n = n < LONGEST ? 2 * n : n) {
		for (int k = 0; k < n; k++)
			os_pause();
		if (atomic_load_explicit(&l->word, memory_order_relaxed) == 0 && lock_try(l))
			return true;
	}
	if (!may_wait)
		return false;
	/* Acquire as in lock_try. Taking it as 2 may cost one needless wake, never a lost one. */
	while (atomic_exchange_explicit(&l->word, 2, memory_order_acquire) != 0)
		os_wait(&l->word, 2);
	return true;
}

void lock_acquire(struct lock *l) {
	if (HAK_UNLIKELY(!lock_try(l)))
		lock_acquire_slow(l, true);
}

void lock_release(struct lock *l) {
	/* Release: what we wrote is seen by the next holder. Nobody waits where nobody else is. */
	if (process_is_alone())
		atomic_store_explicit(&l->word, 0, memory_order_release);
	else if (HAK_UNLIKELY(atomic_exchange_explicit(&l->word, 0, memory_order_release) == 2))
		os_wake(&l->word);
}
