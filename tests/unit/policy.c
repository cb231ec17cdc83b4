/* SPDX-License-Identifier: MIT */
#include "front/policy.h"

#include "base/settings.h"
#include "common.h"
#include "slab/size_class.h"

static void capacity_any_class_within_bounds(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		assert_true(policy_initial_capacity(sc) >= 8);
		assert_true(policy_max_capacity(sc) >= policy_initial_capacity(sc));
		assert_true(policy_max_capacity(sc) <= 1024);
		assert_true(sc == 1 || policy_max_capacity(sc) <= policy_max_capacity(sc - 1));
	}
	assert_true(policy_initial_capacity(1) < policy_max_capacity(1));
}

static void capacity_fixed_by_setting_stays(void **state)
{
	hak_settings.cache_blocks = 100;
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		assert_int_equal(policy_initial_capacity(sc), 100);
		assert_int_equal(policy_max_capacity(sc), 100);
		assert_int_equal(policy_growth(sc, 100, 0), 0);
	}
	hak_settings.cache_blocks = 0;
}

static void growth_repeated_reaches_maximum(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		unsigned capacity = policy_initial_capacity(sc), most = policy_max_capacity(sc);
		for (int i = 0; i < 8; i++) {
			unsigned more = policy_growth(sc, capacity, 0);
			assert_true(more > 0 || capacity == most);
			capacity += more;
		}
		assert_int_equal(capacity, most);
	}
}

static void growth_all_classes_bounded_in_bytes(void **state)
{
	unsigned capacity[SC_COUNT], more;
	size_t grown = 0, before;

	for (unsigned sc = 1; sc < SC_COUNT; sc++)
		capacity[sc] = policy_initial_capacity(sc);
	do {
		before = grown;
		for (unsigned sc = 1; sc < SC_COUNT; sc++) {
			more = policy_growth(sc, capacity[sc], grown);
			capacity[sc] += more;
			grown += (size_t)more * hak_size_classes[sc].size;
		}
	} while (grown != before);
	assert_in_range(grown, 1, 2 * HAK_MIB);
	assert_int_equal(policy_growth(1, 8, 100 * HAK_MIB), 0);
}

static void carve_any_class_at_most_page_and_bin(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++)
		for (unsigned capacity = 8; capacity <= 256; capacity *= 2) {
			unsigned n = policy_carve(sc, capacity);
			assert_in_range(n, 1, capacity);
			assert_true(n == 1 || n * hak_size_classes[sc].size <= 4096);
		}
	assert_true(policy_carve(1, 64) > 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(capacity_any_class_within_bounds),
		cmocka_unit_test(capacity_fixed_by_setting_stays),
		cmocka_unit_test(growth_repeated_reaches_maximum),
		cmocka_unit_test(growth_all_classes_bounded_in_bytes),
		cmocka_unit_test(carve_any_class_at_most_page_and_bin),
	};

	return UNIT_RUN(tests);
}
