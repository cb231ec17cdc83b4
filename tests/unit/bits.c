/* SPDX-License-Identifier: MIT */
#include "base/bits.h"

#include "common.h"

enum { ROUNDS = 20000 };

/* All densities, so that long runs occur. */
static uint32_t random_mask(uint64_t *seed)
{
	uint32_t a = (uint32_t)next_random(seed), b = (uint32_t)next_random(seed);

	switch (next_random(seed) % 4) {
	case 0: return a;
	case 1: return a & b;
	case 2: return a | b;
	default: return a | b | (uint32_t)next_random(seed) | (uint32_t)next_random(seed);
	}
}

static int slow_find_run(uint32_t mask, unsigned n)
{
	for (unsigned at = 0; at + n <= 32; at++) {
		unsigned ones = 0;
		while (ones < n && (mask >> (at + ones) & 1) != 0)
			ones++;
		if (ones == n)
			return (int)at;
	}
	return -1;
}

static void find_run32_any_mask_lowest(void **state)
{
	uint64_t seed = 1;

	for (unsigned n = 1; n <= 32; n++) {
		assert_int_equal(find_run32(0, n), -1);
		assert_int_equal(find_run32(UINT32_MAX, n), 0);
		assert_int_equal(find_run32(0x80000000, n), n == 1 ? 31 : -1);
	}
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t mask = random_mask(&seed);
		unsigned n = 1 + (unsigned)(next_random(&seed) % 32);
		assert_int_equal(find_run32(mask, n), slow_find_run(mask, n));
	}
}

static void count_ones32_any_mask_exact(void **state)
{
	uint64_t seed = 6;

	assert_int_equal(count_ones32(0), 0);
	assert_int_equal(count_ones32(UINT32_MAX), 32);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t mask = random_mask(&seed);
		assert_int_equal(count_ones32(mask), __builtin_popcount(mask));
	}
}

static void trailing_ones32_any_mask_exact(void **state)
{
	uint64_t seed = 4;

	assert_int_equal(trailing_ones32(0), 0);
	assert_int_equal(trailing_ones32(UINT32_MAX), 32);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t mask = random_mask(&seed);
		unsigned n = trailing_ones32(mask);
		assert_true(n == 0 || slow_find_run(mask, n) == 0);
		assert_true(n == 32 || (mask >> n & 1) == 0);
	}
}

static void longest_run32_any_mask_exact(void **state)
{
	uint64_t seed = 2;

	assert_int_equal(longest_run32(0), 0);
	assert_int_equal(longest_run32(UINT32_MAX), 32);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t mask = random_mask(&seed);
		unsigned n = longest_run32(mask);
		assert_true(n == 0 || slow_find_run(mask, n) >= 0);
		assert_true(n == 32 || slow_find_run(mask, n + 1) < 0);
	}
}

static void low_mask32_any_count_that_many_ones(void **state)
{
	for (unsigned n = 1; n <= 32; n++)
		for (unsigned bit = 0; bit < 32; bit++)
			assert_int_equal(low_mask32(n) >> bit & 1, bit < n);
}

static void align_any_address_nearest_multiple(void **state)
{
	for (size_t align = 1; align <= 512; align *= 2)
		for (uintptr_t x = 0; x < 2048; x++) {
			assert_true(align_down(x, align) == x / align * align);
			assert_true(align_up(x, align) == (x + align - 1) / align * align);
		}
	assert_true(align_up(SIZE_MAX, 16) == 0);
	assert_true(align_up(SIZE_MAX - 15, 16) == SIZE_MAX - 15);
}

static void power_of_two_any_size_exact(void **state)
{
	size_t power = 1;

	assert_false(is_pow2(0));
	assert_int_equal(next_pow2(0), 1);
	for (size_t x = 1; x < 70000; x++) {
		if (x > power)
			power *= 2;
		assert_int_equal(next_pow2(x), power);
		assert_int_equal(is_pow2(x), x == power);
	}
	for (unsigned bit = 1; bit < 63; bit++) {
		size_t x = (size_t)1 << bit;
		assert_true(next_pow2(x) == x && next_pow2(x + 1) == 2 * x);
		assert_true(ilog2(x) == bit && ilog2(2 * x - 1) == bit);
		assert_true(is_pow2(x) && !is_pow2(x + (x >> 1)));
	}
}

static void min_max_any_order_right(void **state)
{
	assert_int_equal(min_size(1, 2), 1);
	assert_int_equal(min_size(2, 1), 1);
	assert_int_equal(max_size(1, 2), 2);
	assert_int_equal(max_size(2, 1), 2);
	assert_true(max_size(SIZE_MAX, 0) == SIZE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(find_run32_any_mask_lowest),
		cmocka_unit_test(count_ones32_any_mask_exact),
		cmocka_unit_test(trailing_ones32_any_mask_exact),
		cmocka_unit_test(longest_run32_any_mask_exact),
		cmocka_unit_test(low_mask32_any_count_that_many_ones),
		cmocka_unit_test(align_any_address_nearest_multiple),
		cmocka_unit_test(power_of_two_any_size_exact),
		cmocka_unit_test(min_max_any_order_right),
	};

	return UNIT_RUN(tests);
}
