/* SPDX-License-Identifier: MIT */
/* Bit and size arithmetic. Pure functions. */
#ifndef HAK_BASE_BITS_H
#define HAK_BASE_BITS_H

#include "base/compiler.h"

HAK_INLINE bool is_pow2(size_t x) {
	return x != 0 && (x & (x - 1)) == 0;
}

/* `align` is a power of two; wraps to 0 when `x` is within `align` of SIZE_MAX. */
HAK_INLINE uintptr_t align_up(uintptr_t x, size_t align) {
	return (x + align - 1) & ~((uintptr_t)align - 1);
}

HAK_INLINE uintptr_t align_down(uintptr_t x, size_t align) {
	return x & ~((uintptr_t)align - 1);
}

/* floor(log2(x)), x > 0. */
HAK_INLINE unsigned ilog2(size_t x) {
	return 63u - (unsigned)__builtin_clzll(x);
}

HAK_INLINE size_t next_pow2(size_t x) {
	return x <= 1 ? 1 : (size_t)1 << (ilog2(x - 1) + 1);
}

HAK_INLINE size_t min_size(size_t a, size_t b) {
	return a < b ? a : b;
}

HAK_INLINE size_t max_size(size_t a, size_t b) {
	return a > b ? a : b;
}

/* Below 2^63, where it is one instruction. */
HAK_INLINE double size_to_real(size_t x) {
	return (double)(int64_t)x;
}

HAK_INLINE size_t real_to_size(double x) {
	return (size_t)(int64_t)x;
}

/* The lowest `n` bits set, 1 <= n <= 32. */
HAK_INLINE uint32_t low_mask32(unsigned n) {
	return (uint32_t)(0xffffffffu >> (32 - n));
}

/* Number of ones. __builtin_popcount would be a call of libgcc, whose code lies far from ours. */
HAK_INLINE unsigned count_ones32(uint32_t x) {
	x -= x >> 1 & 0x55555555;
	x = (x & 0x33333333) + (x >> 2 & 0x33333333);
	return ((x + (x >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

/* Number of ones below the lowest zero. */
HAK_INLINE unsigned trailing_ones32(uint32_t mask) {
	return mask == UINT32_MAX ? 32 : (unsigned)__builtin_ctz(~mask);
}

/* Position of the lowest run of `n` ones in `mask`, or -1. Each step ANDs the mask with itself
   shifted, which leaves a one exactly where a run of the doubled length starts. */
HAK_INLINE int find_run32(uint32_t mask, unsigned n) {
	unsigned have = 1;
	while (have < n && mask != 0) {
		unsigned step = have < n - have ? have : n - have;
		mask &= mask >> step;
		have += step;
	}
	return mask != 0 ? __builtin_ctz(mask) : -1;
}

/* Length of the longest run of ones. */
HAK_INLINE unsigned longest_run32(uint32_t mask) {
	unsigned n = 0;
	for (; mask != 0; n++)
		mask &= mask >> 1;
	return n;
}

#endif
