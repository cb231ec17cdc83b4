/* SPDX-License-Identifier: MIT */
/*
 * Included before everything else where the library is built for tests of its protocols: at each atomic
 * operation the thread may yield first, so that every step of a protocol is interrupted sooner or
 * later. A macro is not expanded within itself: what the names stand for behind the comma are the
 * compiler's own functions.
 */
#ifndef TESTS_YIELDS_H
#define TESTS_YIELDS_H

#include <sched.h>
#include <stdint.h>

static inline void yield_sometimes(void)
{
	enum { SELDOM = 128 };
	static __thread uint32_t state;

	if (state == 0)
		state = (uint32_t)(uintptr_t)&state | 1;
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	if (state % SELDOM == 0)
		sched_yield();
}

#define AFTER_YIELD(call) (yield_sometimes(), call)

/* gcc */
#define __atomic_load(...) AFTER_YIELD(__atomic_load(__VA_ARGS__))
#define __atomic_load_n(...) AFTER_YIELD(__atomic_load_n(__VA_ARGS__))
#define __atomic_store(...) AFTER_YIELD(__atomic_store(__VA_ARGS__))
#define __atomic_store_n(...) AFTER_YIELD(__atomic_store_n(__VA_ARGS__))
#define __atomic_exchange(...) AFTER_YIELD(__atomic_exchange(__VA_ARGS__))
#define __atomic_compare_exchange(...) AFTER_YIELD(__atomic_compare_exchange(__VA_ARGS__))
#define __atomic_fetch_add(...) AFTER_YIELD(__atomic_fetch_add(__VA_ARGS__))
#define __atomic_fetch_sub(...) AFTER_YIELD(__atomic_fetch_sub(__VA_ARGS__))
#define __atomic_fetch_and(...) AFTER_YIELD(__atomic_fetch_and(__VA_ARGS__))
#define __atomic_fetch_or(...) AFTER_YIELD(__atomic_fetch_or(__VA_ARGS__))

/* clang */
#define __c11_atomic_load(...) AFTER_YIELD(__c11_atomic_load(__VA_ARGS__))
#define __c11_atomic_store(...) AFTER_YIELD(__c11_atomic_store(__VA_ARGS__))
#define __c11_atomic_exchange(...) AFTER_YIELD(__c11_atomic_exchange(__VA_ARGS__))
#define __c11_atomic_compare_exchange_weak(...) \
	AFTER_YIELD(__c11_atomic_compare_exchange_weak(__VA_ARGS__))
#define __c11_atomic_compare_exchange_strong(...) \
	AFTER_YIELD(__c11_atomic_compare_exchange_strong(__VA_ARGS__))
#define __c11_atomic_fetch_add(...) AFTER_YIELD(__c11_atomic_fetch_add(__VA_ARGS__))
#define __c11_atomic_fetch_sub(...) AFTER_YIELD(__c11_atomic_fetch_sub(__VA_ARGS__))
#define __c11_atomic_fetch_and(...) AFTER_YIELD(__c11_atomic_fetch_and(__VA_ARGS__))
#define __c11_atomic_fetch_or(...) AFTER_YIELD(__c11_atomic_fetch_or(__VA_ARGS__))

#endif
