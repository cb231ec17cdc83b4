/* SPDX-License-Identifier: MIT */
/* Reproducible random numbers (xorshift64*), one stream per thread. */
#ifndef TESTS_STRESS_RANDOM_H
#define TESTS_STRESS_RANDOM_H

#include <stdint.h>

struct random {
	uint64_t state;
};

/* Spreads the seed's bits (splitmix64), so that neighbouring seeds have nothing in common. */
static inline void random_seed(struct random *random, uint64_t seed)
{
	seed += 0x9e3779b97f4a7c15;
	seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9;
	seed = (seed ^ seed >> 27) * 0x94d049bb133111eb;
	random->state = (seed ^ seed >> 31) | 1;
}

static inline uint64_t random_next(struct random *random)
{
	random->state ^= random->state >> 12;
	random->state ^= random->state << 25;
	random->state ^= random->state >> 27;
	return random->state * 0x2545f4914f6cdd1d;
}

/* 0 to `limit` - 1; `limit` is small against 2^64. */
static inline uint64_t random_below(struct random *random, uint64_t limit)
{
	return (random_next(random) >> 8) % limit; /* the upper bits are the better ones */
}

#endif
