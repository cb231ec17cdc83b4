/* SPDX-License-Identifier: MIT */
/* The addresses need not be mapped: the page map never looks at them. */
#include "space/pagemap.h"

#include "common.h"

#include <pthread.h>
#include <stdatomic.h>

#include "os/os.h"

#define WINDOW ((uintptr_t)1 << 32)

static void *const desc = (void *)0x1230;

static bool is_nobodys(uintptr_t addr)
{
	return pagemap_tag(addr) == TAG_NONE && pagemap_lookup(addr).tag == TAG_NONE;
}

static bool holds(uintptr_t addr, uint32_t tag, void *expected)
{
	struct pagemap_entry e = pagemap_lookup(addr);

	return pagemap_tag(addr) == tag && e.tag == tag && e.desc == expected;
}

static void lookup_unmapped_address_nobodys(void **state)
{
	uint64_t seed = 5;

	assert_true(is_nobodys(0));
	assert_true(is_nobodys((uintptr_t)&seed));
	assert_true(is_nobodys((uintptr_t)desc));
	for (int bit = 0; bit < 64; bit++)
		assert_true(is_nobodys((uintptr_t)1 << bit) && is_nobodys(~((uintptr_t)1 << bit)));
	for (int i = 0; i < 10000; i++)
		assert_true(is_nobodys(next_random(&seed)));
}

static void set_covered_range_found_everywhere(void **state)
{
	uintptr_t start = 3 * WINDOW + 8 * GRANULE;

	assert_true(pagemap_cover(start, 4));
	assert_true(is_nobodys(start));
	pagemap_set(start, 4, 77 << TAG_OWNER_SHIFT | 16, desc);
	for (size_t offset = 0; offset < 4 * GRANULE; offset += 4093)
		assert_true(holds(start + offset, 77 << TAG_OWNER_SHIFT | 16, desc));
	assert_true(is_nobodys(start - 1));
	assert_true(is_nobodys(start + 4 * GRANULE));
}

static void set_across_windows_found_on_both_sides(void **state)
{
	uintptr_t start = 5 * WINDOW - 3 * GRANULE;

	assert_true(pagemap_cover(start, 6));
	pagemap_set(start, 6, TAG_LARGE, desc);
	for (unsigned i = 0; i < 6; i++) {
		assert_true(holds(start + i * GRANULE, TAG_LARGE, desc));
		assert_true(holds(start + i * GRANULE + GRANULE - 1, TAG_LARGE, desc));
	}
	assert_true(is_nobodys(start - 1));
	assert_true(is_nobodys(start + 6 * GRANULE));
	pagemap_set_tag(start, 6, TAG_NONE);
	for (unsigned i = 0; i < 6; i++)
		assert_true(is_nobodys(start + i * GRANULE));
}

static void set_across_edges_of_near_window_found_on_both_sides(void **state)
{
	assert_true(pagemap_cover(3 * WINDOW, 1)); /* places it, if no test before did */
	uintptr_t edges[] = { hak_near_window.base, hak_near_window.base + WINDOW };

	assert_true(hak_near_window.base % GRANULE == 0);
	for (unsigned e = 0; e < 2; e++) {
		uintptr_t start = edges[e] - 2 * GRANULE;

		assert_true(pagemap_cover(start, 4));
		pagemap_set(start, 4, 32, desc);
		for (unsigned i = 0; i < 4; i++) {
			bool near = pagemap_near_index(start + i * GRANULE) < LEAF_GRANULES;

			assert_int_equal(near, (i >= 2) == (e == 0));
			assert_true(holds(start + i * GRANULE, 32, desc));
		}
		assert_true(is_nobodys(start - 1) && is_nobodys(start + 4 * GRANULE));
	}
}

static void set_tag_alone_keeps_descriptor(void **state)
{
	uintptr_t addr = 7 * WINDOW;

	assert_true(pagemap_cover(addr, 2));
	pagemap_set(addr, 2, 16, desc);
	pagemap_set_tag(addr, 1, 1 << TAG_OWNER_SHIFT | 16);
	assert_true(holds(addr, 1 << TAG_OWNER_SHIFT | 16, desc));
	assert_true(holds(addr + GRANULE, 16, desc));
}

/* The fast path takes addresses modulo 2^48, the slow path does not. */
static void lookup_noncanonical_address_nobodys(void **state)
{
	uintptr_t addr = 9 * WINDOW;

	assert_true(pagemap_cover(addr, 1));
	pagemap_set(addr, 1, 16, desc);
	for (int bit = 48; bit < 64; bit++) {
		uintptr_t wild = addr | (uintptr_t)1 << bit;
		assert_int_equal(pagemap_tag(wild), 16);
		assert_int_equal(pagemap_lookup(wild).tag, TAG_NONE);
	}
}

static void cover_several_windows_all_usable(void **state)
{
	uintptr_t start = 16 * WINDOW - GRANULE, end = 18 * WINDOW + GRANULE;
	size_t granules = (end - start) / GRANULE;

	assert_true(pagemap_cover(start, granules));
	pagemap_set(start, granules, 32, desc);
	for (uintptr_t at = start; at < end; at += GRANULE)
		assert_true(pagemap_tag(at) == 32);
	assert_true(is_nobodys(start - 1) && is_nobodys(end));
}

static void cover_highest_address_usable(void **state)
{
	uintptr_t addr = ((uintptr_t)1 << 48) - GRANULE;

	assert_true(pagemap_cover(addr, 1));
	pagemap_set(addr, 1, 48, desc);
	assert_true(holds(addr + GRANULE - 1, 48, desc));
	assert_true(is_nobodys(addr - 1));
}

static void cover_by_threads(unsigned index)
{
	for (uintptr_t w = 32; w < 40; w++) {
		uintptr_t addr = w * WINDOW + index * GRANULE;
		CHECK(pagemap_cover(addr, 1));
		pagemap_set(addr, 1, (index + 1) << TAG_OWNER_SHIFT, desc);
	}
}

static void cover_by_several_threads_one_leaf(void **state)
{
	run_threads(4, cover_by_threads);
	for (uintptr_t w = 32; w < 40; w++)
		for (unsigned i = 0; i < 4; i++)
			assert_true(holds(w * WINDOW + i * GRANULE, (i + 1) << TAG_OWNER_SHIFT, desc));
}

static atomic_bool over;
static _Atomic unsigned looks; /* ended */

/* Until a look that began after this has ended, and any part of the next. */
static void let_look(void)
{
	unsigned first = atomic_load(&looks);

	while (atomic_load(&looks) - first < 2 && !atomic_load(&over))
		os_pause();
	for (unsigned i = first % 16; i > 0; i--)
		os_pause();
}

/* A large block comes and goes, though not twice while somebody looks. */
static void *give_up_again_and_again(void *arg)
{
	uintptr_t addr = *(uintptr_t *)arg;

	while (!atomic_load(&over)) {
		pagemap_set(addr, 1, TAG_LARGE, desc);
		pagemap_set_tag(addr, 1, TAG_NONE);
		pagemap_set(addr, 1, TAG_LARGE_GONE, (void *)4096);
		let_look();
	}
	return NULL;
}

static unsigned look_often(uintptr_t addr)
{
	unsigned wrong = 0;

	for (int i = 0; i < 1000; i++) {
		struct pagemap_entry e = pagemap_lookup_steady(addr);
		wrong += e.tag == TAG_LARGE && e.desc != desc;
		atomic_fetch_add(&looks, 1);
	}
	return wrong;
}

static void steady_lookup_amid_changes_fits(void **state)
{
	enum { MS = 1000 };
	uintptr_t addr = 11 * WINDOW;
	pthread_t thread;
	unsigned wrong = 0;

	assert_true(pagemap_cover(addr, 1));
	assert_int_equal(pthread_create(&thread, NULL, give_up_again_and_again, &addr), 0);
	for (uint64_t start = os_now_ms(); os_now_ms() - start < MS;)
		wrong += look_often(addr);
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lookup_unmapped_address_nobodys),
		cmocka_unit_test(set_covered_range_found_everywhere),
		cmocka_unit_test(set_across_windows_found_on_both_sides),
		cmocka_unit_test(set_across_edges_of_near_window_found_on_both_sides),
		cmocka_unit_test(set_tag_alone_keeps_descriptor),
		cmocka_unit_test(lookup_noncanonical_address_nobodys),
		cmocka_unit_test(cover_several_windows_all_usable),
		cmocka_unit_test(cover_highest_address_usable),
		cmocka_unit_test(cover_by_several_threads_one_leaf),
		cmocka_unit_test(steady_lookup_amid_changes_fits),
	};

	return UNIT_RUN(tests);
}
