/* SPDX-License-Identifier: MIT */
#include "front/policy.h"

#include <string.h>

#include "base/settings.h"
#include "common.h"
#include "slab/size_class.h"
#include "space/superslab.h"

static void capacity_any_class_within_bounds(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		assert_true(policy_initial_capacity(sc) >= 8);
		assert_true(policy_max_capacity(sc) >= policy_initial_capacity(sc));
		assert_true(policy_max_capacity(sc) <= 8192);
		assert_true(policy_max_capacity(sc) * hak_size_classes[sc].size <= 1 << 20);
		assert_true(sc == 1 || policy_max_capacity(sc) <= policy_max_capacity(sc - 1));
	}
	assert_true(policy_initial_capacity(1) < policy_max_capacity(1));
}

/* Few arrays, since what the last one held is not used again; and a short one first. */
static void array_of_grown_bin_comes_twice_at_most(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		unsigned most = policy_max_capacity(sc), length = policy_initial_capacity(sc), arrays = 0;
		for (unsigned capacity = length; capacity < most;) {
			capacity = capacity * 2 < most ? capacity * 2 : most;
			if (capacity <= length)
				continue;
			length = policy_array_length(sc, capacity);
			assert_true(length >= capacity && length <= most);
			assert_true(arrays != 0 || length <= 256);
			arrays++;
		}
		assert_int_equal(length, most);
		assert_true(arrays <= 2);
	}
}

static void capacity_fixed_by_setting_stays(void **state)
{
	struct policy p;

	policy_init(&p);
	hak_settings.cache_blocks = 100;
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		assert_int_equal(policy_initial_capacity(sc), 100);
		assert_int_equal(policy_max_capacity(sc), 100);
		assert_int_equal(policy_growth(&p, sc, 100), 0);
		assert_int_equal(policy_growth(&p, sc, 101), 0); /* made before the setting was read */
	}
	hak_settings.cache_blocks = 0;
}

static struct policy fresh(enum policy_profile profile)
{
	struct policy p;

	hak_settings.policy = profile;
	policy_init(&p);
	return p;
}

static void growth_repeated_reaches_maximum(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		struct policy p = fresh(POLICY_TINYPLUS_ALL);
		unsigned capacity = policy_initial_capacity(sc), most = policy_max_capacity(sc);
		for (int i = 0; i < 8; i++) {
			unsigned more = policy_growth(&p, sc, capacity);
			assert_true(more > 0 || capacity == most);
			capacity += more;
		}
		assert_int_equal(capacity, most);
	}
}

enum { OWN = 256 << 10 };

/* Bytes by which all bins have grown when none grows any longer. */
static size_t grow_all(struct policy *p, unsigned *capacity)
{
	size_t grown = 0, before;

	for (unsigned sc = 1; sc < SC_COUNT; sc++)
		capacity[sc] = policy_initial_capacity(sc);
	do {
		before = grown;
		for (unsigned sc = 1; sc < SC_COUNT; sc++) {
			unsigned more = policy_growth(p, sc, capacity[sc]);
			capacity[sc] += more;
			grown += (size_t)more * hak_size_classes[sc].size;
		}
	} while (grown != before);
	return grown;
}

static void growth_all_classes_bounded_in_bytes(void **state)
{
	for (int profile = POLICY_AUTO; profile <= POLICY_TINYPLUS_ALL; profile++) {
		struct policy p = fresh((enum policy_profile)profile);
		unsigned capacity[SC_COUNT];
		assert_in_range(grow_all(&p, capacity), 1, 4 * HAK_MIB + POLICY_BANDS * OWN);
	}
}

/* What they keep while they wait adds up. */
static void growth_of_many_threads_has_a_bound_for_all(void **state)
{
	enum { THREADS = 512, PART = 64 * HAK_MIB / THREADS };
	struct policy p = fresh(POLICY_AUTO);
	unsigned capacity[SC_COUNT];
	size_t before = hak_space.threads;

	hak_space.threads = THREADS;
	size_t grown = grow_all(&p, capacity);
	hak_space.threads = before;
	assert_in_range(grown, 1, (1 + POLICY_BANDS) * PART);
}

static void band_of_class_by_size(void **state)
{
	static const unsigned last[] = {0, 16, 32, 64, 128, 256, 512, 1024};

	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		unsigned band = policy_band(sc), size = hak_size_classes[sc].size;
		if (band == 0)
			assert_true(size > 1024);
		else
			assert_true(size <= last[band] && size > last[band - 1]);
	}
}

static void growth_fixed_profiles_only_their_bands(void **state)
{
	static const struct {
		enum policy_profile profile;
		unsigned bands;
	} cases[] = {{POLICY_LEGACY, 0}, {POLICY_C5_7_ONLY, 0xe0}, {POLICY_TINYPLUS_ALL, 0xfe}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct policy p = fresh(cases[i].profile);
		for (unsigned sc = 1; sc < SC_COUNT; sc++) {
			unsigned band = policy_band(sc);
			bool promoted = (cases[i].bands >> band & 1) != 0, grows = promoted || band == 0;
			if (policy_max_capacity(sc) > 16)
				assert_int_equal(policy_growth(&p, sc, 16) != 0, grows);
			assert_int_equal(policy_warm_slabs(&p, sc), 1);
			memset(p.grown, 0, sizeof p.grown);
		}
		for (unsigned round = 0; round < 20; round++) {
			for (unsigned n = 0; n < POLICY_EVENTS; n++)
				policy_note_miss(&p, 3);
			policy_rescore(&p, 1);
		}
		assert_int_equal(p.promoted, cases[i].bands);
		assert_int_equal(policy_warm_slabs(&p, 3), (cases[i].bands >> 3 & 1) != 0 ? 2 : 1);
		assert_int_equal(policy_warm_slabs(&p, 30), 1);
	}
}

/* Misses of bands, as if the program used sizes in that proportion, for some scorings. */
static unsigned use(struct policy *p, const unsigned share[POLICY_BANDS], unsigned scorings)
{
	static const unsigned class_of_band[POLICY_BANDS] = {40, 1, 2, 4, 6, 10, 20, 30};
	unsigned shrunk = 0, b = 0, left = share[0];

	while (scorings > 0) {
		for (; left == 0; left = share[b])
			b = (b + 1) % POLICY_BANDS;
		left--;
		if (policy_note_miss(p, class_of_band[b])) {
			shrunk |= policy_rescore(p, 1);
			scorings--;
		}
	}
	return shrunk;
}

static void auto_promotes_the_largest_and_two_with_most_misses(void **state)
{
	static const unsigned share[POLICY_BANDS] = {9, 5, 1, 8, 1, 1, 1, 0};
	struct policy p = fresh(POLICY_AUTO);

	assert_int_equal(p.promoted, 1 << 7);
	use(&p, share, 1);
	assert_int_equal(p.promoted, 1 << 7 | 1 << 3 | 1 << 1);
}

static void auto_locks_count_four_times(void **state)
{
	static const unsigned share[POLICY_BANDS] = {0, 4, 4, 4, 0, 0, 4, 0};
	struct policy p = fresh(POLICY_AUTO);

	for (unsigned i = 0; i < POLICY_EVENTS / 16; i++) {
		policy_note_lock(&p, 1);
		policy_note_lock(&p, 20);
	}
	use(&p, share, 1);
	assert_int_equal(p.promoted, 1 << 7 | 1 << 6 | 1 << 1);
}

static void auto_little_better_replaces_nothing(void **state)
{
	static const unsigned before[POLICY_BANDS] = {0, 10, 10, 5, 0, 0, 0, 0};
	static const unsigned little[POLICY_BANDS] = {0, 10, 10, 11, 0, 0, 0, 0};
	static const unsigned much[POLICY_BANDS] = {0, 10, 8, 20, 0, 0, 0, 0};
	struct policy p = fresh(POLICY_AUTO);

	use(&p, before, 4);
	assert_int_equal(p.promoted, 1 << 7 | 1 << 2 | 1 << 1);
	use(&p, little, 20);
	assert_int_equal(p.promoted, 1 << 7 | 1 << 2 | 1 << 1);
	use(&p, much, 8);
	assert_int_equal(p.promoted, 1 << 7 | 1 << 3 | 1 << 1);
}

/* What a program used no longer makes room for what it uses now. */
static void band_out_of_use_shrinks(void **state)
{
	static const unsigned first[POLICY_BANDS] = {0, 0, 0, 1, 0, 0, 0, 0};
	static const unsigned then[POLICY_BANDS] = {0, 0, 0, 0, 0, 1, 0, 0};
	struct policy p = fresh(POLICY_AUTO);

	assert_true(policy_growth(&p, 4, 64) > 0);
	assert_int_equal(use(&p, first, 10), 0);
	assert_true(p.grown[3] > 0);
	assert_int_equal(use(&p, then, 3), 0);
	assert_int_equal(use(&p, then, 10), 1 << 3);
	assert_int_equal(p.grown[3], 0);
}

static void band_before_needier_one_shrinks(void **state)
{
	static const unsigned share[POLICY_BANDS] = {0, 0, 0, 1, 0, 20, 0, 0};
	struct policy p = fresh(POLICY_TINYPLUS_ALL);

	p.grown[3] = 4 * HAK_MIB;
	p.grown[5] = OWN;
	assert_int_equal(use(&p, share, 10), 0);
	assert_int_equal(policy_growth(&p, 10, 64), 0);
	assert_int_equal(use(&p, share, 1), 1 << 3);
	assert_true(policy_growth(&p, 10, 64) > 0);
}

/* A bin that is large enough misses seldom: that it does is no reason to take its bytes. */
static void band_keeps_its_own_bytes(void **state)
{
	static const unsigned share[POLICY_BANDS] = {0, 0, 0, 1, 0, 20, 0, 5};
	struct policy p = fresh(POLICY_TINYPLUS_ALL);

	p.grown[7] = 4 * HAK_MIB;
	assert_true(policy_growth(&p, 4, 64) > 0);
	p.grown[5] = p.grown[3] = OWN;
	assert_int_equal(policy_growth(&p, 4, 64), 0);
	assert_int_equal(policy_growth(&p, 10, 64), 0);
	assert_int_equal(use(&p, share, 1), 0);
	assert_int_equal(p.grown[3], OWN);
	p.grown[3]++;
	assert_int_equal(policy_growth(&p, 10, 64), 0);
	assert_int_equal(use(&p, share, 1), 1 << 3);
}

static void carve_any_class_at_most_page_and_bin(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++)
		for (unsigned capacity = 8; capacity <= 256; capacity *= 2) {
			unsigned n = policy_carve(sc, capacity, 0);
			assert_in_range(n, 1, capacity);
			assert_true(n == 1 || n * hak_size_classes[sc].size <= 4096);
			size_t size = hak_size_classes[sc].size;
			unsigned most = (unsigned)min_size(max_size(n, policy_initial_capacity(sc) / 2), capacity);
			assert_int_equal(policy_carve(sc, capacity, 64 * 1024 * 1024), most);
			assert_int_equal(policy_carve(sc, capacity, 4096 + size), min_size(max_size(n, 4096 / size + 1), most));
		}
	assert_true(policy_carve(1, 64, 0) > 1);
}

static void carve_one_by_one_where_set(void **state)
{
	for (uint32_t mode = 0; mode <= 2; mode++) {
		hak_settings.bind_c7 = mode;
		for (unsigned sc = 1; sc < SC_COUNT; sc++)
			for (int is_resident = 0; is_resident < 2 && policy_band(sc) != 0; is_resident++)
				assert_int_equal(policy_carve(sc, 64, is_resident ? 65536 : 0) == 1, policy_band(sc) == 7 && mode < 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(capacity_any_class_within_bounds),
		cmocka_unit_test(array_of_grown_bin_comes_twice_at_most),
		cmocka_unit_test(capacity_fixed_by_setting_stays),
		cmocka_unit_test(growth_repeated_reaches_maximum),
		cmocka_unit_test(growth_all_classes_bounded_in_bytes),
		cmocka_unit_test(growth_of_many_threads_has_a_bound_for_all),
		cmocka_unit_test(carve_any_class_at_most_page_and_bin),
		cmocka_unit_test(carve_one_by_one_where_set),
		cmocka_unit_test(band_of_class_by_size),
		cmocka_unit_test(growth_fixed_profiles_only_their_bands),
		cmocka_unit_test(auto_promotes_the_largest_and_two_with_most_misses),
		cmocka_unit_test(auto_locks_count_four_times),
		cmocka_unit_test(auto_little_better_replaces_nothing),
		cmocka_unit_test(band_out_of_use_shrinks),
		cmocka_unit_test(band_before_needier_one_shrinks),
		cmocka_unit_test(band_keeps_its_own_bytes),
	};

	return UNIT_RUN(tests);
}
