/* SPDX-License-Identifier: MIT */
#include "front/policy.h"

#include "base/bits.h"
#include "base/settings.h"
#include "slab/size_class.h"

enum {
	INITIAL_BYTES = 4096,
	MAX_BYTES = 512 * 1024,
	MAX_GROWN = 2 * 1024 * 1024,
	MIN_BLOCKS = 16,
	INITIAL_BLOCKS = 64,
	MAX_BLOCKS = 1024,
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

unsigned policy_growth(unsigned sc, unsigned capacity, size_t grown) {
	size_t more = min_size((size_t)capacity * 2, policy_max_capacity(sc)) - capacity;
	size_t bytes = grown < MAX_GROWN ? MAX_GROWN - grown : 0;
	return (unsigned)min_size(more, bytes / hak_size_classes[sc].size);
}

unsigned policy_carve(unsigned sc, unsigned capacity) {
	size_t n = CARVE_BYTES / hak_size_classes[sc].size;
	return (unsigned)max_size(min_size(n, capacity), 1);
}
