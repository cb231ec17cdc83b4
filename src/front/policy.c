/* SPDX-License-Identifier: MIT */
#include "front/policy.h"

#include "base/bits.h"
#include "base/settings.h"
#include "slab/size_class.h"

enum {
	INITIAL_BYTES = 4096,
	MAX_BYTES = 128 * 1024,
	MIN_BLOCKS = 8,
	INITIAL_BLOCKS = 64,
	MAX_BLOCKS = 256,
	CARVE_BYTES = 4096, /* touch one page at a time */
};

static unsigned clamp_blocks(size_t bytes, unsigned sc, unsigned max) {
	size_t n = bytes / hak_size_classes[sc].size;
	return (unsigned)min_size(max_size(n, MIN_BLOCKS), max);
}

unsigned policy_initial_capacity(unsigned sc) {
	if (hak_settings.cache_blocks != 0)
		return hak_settings.cache_blocks;
	return clamp_blocks(INITIAL_BYTES, sc, INITIAL_BLOCKS);
}

unsigned policy_max_capacity(unsigned sc) {
	if (hak_settings.cache_blocks != 0)
		return hak_settings.cache_blocks;
	return clamp_blocks(MAX_BYTES, sc, MAX_BLOCKS);
}

unsigned policy_adapt(unsigned sc, unsigned capacity, unsigned overflows) {
	/* A bin that ran over and then empty again is too small for the program's rhythm. */
	if (overflows < capacity / 2)
		return capacity;
	return (unsigned)min_size((size_t)capacity * 2, policy_max_capacity(sc));
}

unsigned policy_carve(unsigned sc, unsigned capacity) {
	size_t n = CARVE_BYTES / hak_size_classes[sc].size;
	return (unsigned)max_size(min_size(n, capacity), 1);
}
