/* SPDX-License-Identifier: MIT */
/*
 * Is there but one thread? Then what threads share needs no atomic instruction, which would wait until
 * all that the program wrote before has reached its cache: a fifth of a large block's malloc and free.
 *
 * "Yes" holds until the asking thread makes another one, so it is asked each time, and never kept. Making a
 * thread orders what was written before. A signal handler that comes in between is taken for a call of its
 * own: it leaves locks as it found them.
 */
#ifndef HAK_OS_ALONE_H
#define HAK_OS_ALONE_H

#include <stdatomic.h>

#include "base/compiler.h"

/* Where "yes" (not 0) or "no" stands: libc's own word, "no" if it has none, unless we may make a thread that libc does not
   know of; and that word all the same. */
extern HAK_HIDDEN const char *hak_alone, *hak_libc_alone;

/* Finds both. Before the first lock is taken, and before os_expect_thread. */
void os_ask_libc(void);

/* Says "no" from now on. While there is one thread: it may make one by os_thread_start later, or a signal handler amid one
   of its calls. */
void os_expect_thread(void);

/* As libc knows it. */
HAK_INLINE bool libc_is_alone(void) {
	return *hak_libc_alone != 0;
}

HAK_INLINE bool process_is_alone(void) {
	/* Relaxed: when it may be "yes", nobody else writes. */
	return __atomic_load_n(__atomic_load_n(&hak_alone, __ATOMIC_RELAXED), __ATOMIC_RELAXED) != 0;
}

/* Changes `*word` from `from` to `to`. False: it is not `from`. */
HAK_INLINE bool change_if(_Atomic uint32_t *word, uint32_t from, uint32_t to, memory_order order) {
	if (process_is_alone()) {
		if (atomic_load_explicit(word, memory_order_relaxed) != from)
			return false;
		atomic_store_explicit(word, to, memory_order_relaxed);
		/* For handlers that fork: a lock is held before what it guards is half changed. */
		atomic_signal_fence(memory_order_seq_cst);
		return true;
	}
	return atomic_compare_exchange_strong_explicit(word, &from, to, order, memory_order_relaxed);
}

/* Relaxed: a counter. */
HAK_INLINE void count_shared(size_t *counter, size_t more) {
#if defined(__x86_64__)
	/* One instruction: no handler that counts, too, comes in between. */
	if (process_is_alone()) {
		__asm__("addq %1, %0" : "+m"(*counter) : "er"(more) : "cc");
		return;
	}
#endif
	__atomic_fetch_add(counter, more, __ATOMIC_RELAXED);
}

#endif
