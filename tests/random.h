/* SPDX-License-Identifier: MIT */
/* Numbers for tests, reproducible: xorshift. Any thread with a state of its own. */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>

/* *seed != 0 is the whole state. */
static inline uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

#endif
