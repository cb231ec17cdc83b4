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
		assert_true(policy_max_capacity(sc) <= 256);
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
		assert_int_equal(policy_adapt(sc, 100, 100000), 100);
	}
	hak_settings.cache_blocks = 0;
}

static void adapt_without_overflow_keeps_capacity(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++)
		assert_int_equal(policy_adapt(sc, policy_initial_capacity(sc), 0),
			policy_initial_capacity(sc));
}

static void adapt_with_overflow_grows_to_maximum(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		unsigned capacity = policy_initial_capacity(sc), most = policy_max_capacity(sc);
		for (int i = 0; i < 8; i++) {
			unsigned next = policy_adapt(sc, capacity, capacity);
			assert_true(next > capacity || capacity == most);
			capacity = next;
		}
		assert_int_equal(capacity, most);
	}
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
		cmocka_unit_test(adapt_without_overflow_keeps_capacity),
		cmocka_unit_test(adapt_with_overflow_grows_to_maximum),
		cmocka_unit_test(carve_any_class_at_most_page_and_bin),
	};

	return UNIT_RUN(tests);
}
