/* SPDX-License-Identifier: MIT */
/* A process has one nursery and never gets it back, so the order of the cases matters. */
#include "front/nursery.h"

#include <string.h>

#include "common.h"
#include "space/pagemap.h"
#include "space/superslab.h"

static uintptr_t base;

static bool is_at(uintptr_t addr, enum nursery_state expected, uintptr_t block, unsigned sc)
{
	uintptr_t found = 0;
	unsigned found_sc = 0;

	return nursery_find(addr, &found, &found_sc) == expected && found == block && found_sc == sc;
}

static void nursery_unused_costs_nothing(void **state)
{
	assert_int_equal(nursery_used(), 0);
	assert_null(nursery_alloc(SC_COUNT - 1));
	assert_null(nursery_alloc(sc_of(4097)));
	assert_int_equal(hak_space.live, 0);
}

static void blocks_of_any_class_lie_side_by_side(void **state)
{
	static const size_t sizes[] = {16, 100, 1024, 16, 4096, 33};
	uintptr_t at = 0;

	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		unsigned sc = sc_of(sizes[i]);
		size_t size = hak_size_classes[sc].size;
		unsigned char *p = nursery_alloc(sc);
		assert_non_null(p);
		if (i == 0)
			base = at = (uintptr_t)p;
		assert_true((uintptr_t)p == at);
		assert_int_equal(at % 16, 0);
		assert_true(bytes_are(p, size, 0));
		for (size_t offset = 0; offset < size; offset++)
			assert_true(is_at(at + offset, offset == 0 ? NURSERY_LIVE : NURSERY_INSIDE, at, sc));
		at += size;
	}
	assert_int_equal(nursery_used(), at - base);
	assert_int_equal(hak_space.live, 1);
	assert_int_equal(pagemap_tag(base), TAG_NURSERY);
}

static void block_freed_once_is_freed(void **state)
{
	unsigned sc = sc_of(200);
	uintptr_t block = (uintptr_t)nursery_alloc(sc);

	assert_true(nursery_free(block));
	assert_true(is_at(block, NURSERY_FREED, block, sc));
	assert_true(is_at(block + 16, NURSERY_INSIDE, block, sc));
	assert_false(nursery_free(block));
}

/* Of a class of which one is live at a time. */
static void block_freed_is_handed_out_again_for_a_while(void **state)
{
	unsigned sc = sc_of(400), again = 0;
	unsigned char *block = nursery_alloc(sc), *other = nursery_alloc(sc), *next;

	for (;;) {
		memset(block, 0xa5, hak_size_classes[sc].size);
		assert_true(nursery_free((uintptr_t)block));
		next = nursery_alloc(sc);
		if (next != block)
			break;
		again++;
		assert_true(is_at((uintptr_t)block, NURSERY_LIVE, (uintptr_t)block, sc));
		for (size_t i = 0; i < hak_size_classes[sc].size; i++)
			assert_int_equal(block[i], 0);
	}
	assert_in_range(again, 8, 255);
	assert_true(is_at((uintptr_t)block, NURSERY_FREED, (uintptr_t)block, sc));
	assert_true(is_at((uintptr_t)other, NURSERY_LIVE, (uintptr_t)other, sc));
	assert_ptr_not_equal(next, other);
}

static void block_of_another_class_is_not_handed_out(void **state)
{
	unsigned sc = sc_of(300), other = sc_of(350);
	uintptr_t block = (uintptr_t)nursery_alloc(sc);

	assert_true(nursery_free(block));
	assert_true((uintptr_t)nursery_alloc(other) != block);
	assert_true((uintptr_t)nursery_alloc(sc) == block);
}

/* A class that needs many blocks, or frees them again and again, has use for a slab. */
static void class_served_a_while_is_refused(void **state)
{
	unsigned sc = sc_of(48), other = sc_of(16), n = 0;

	while (nursery_alloc(sc) != NULL)
		n++;
	assert_in_range(n, 2, 100);
	assert_non_null(nursery_alloc(other));
	assert_null(nursery_alloc(sc));
}

static void address_behind_last_block_unused(void **state)
{
	uintptr_t block;
	unsigned sc;

	assert_int_equal(nursery_find(base + nursery_used(), &block, &sc), NURSERY_UNUSED);
	assert_int_equal(nursery_find(base + GRANULE - 1, &block, &sc), NURSERY_UNUSED);
}

static uintptr_t contested;
static unsigned wins[4];

static void free_contested(unsigned index)
{
	wins[index] = nursery_free(contested);
}

static void block_freed_by_several_threads_one_wins(void **state)
{
	for (int i = 0; i < 20; i++) {
		contested = (uintptr_t)nursery_alloc(1);
		run_threads(4, free_contested);
		assert_int_equal(wins[0] + wins[1] + wins[2] + wins[3], 1);
	}
}

static void nursery_used_up_gives_no_more(void **state)
{
	unsigned blocks = 0;

	while (nursery_alloc(sc_of(4096)) != NULL)
		assert_true(++blocks < 16);
	while (nursery_alloc(1) != NULL)
		assert_true(++blocks < 4096);
	assert_true(blocks > 7);
	assert_true(nursery_used() <= GRANULE);
	assert_null(nursery_alloc(1));
	assert_int_equal(hak_space.live, 1);
	assert_true(is_at(base, NURSERY_LIVE, base, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nursery_unused_costs_nothing),
		cmocka_unit_test(blocks_of_any_class_lie_side_by_side),
		cmocka_unit_test(block_freed_once_is_freed),
		cmocka_unit_test(block_freed_is_handed_out_again_for_a_while),
		cmocka_unit_test(block_of_another_class_is_not_handed_out),
		cmocka_unit_test(class_served_a_while_is_refused),
		cmocka_unit_test(address_behind_last_block_unused),
		cmocka_unit_test(block_freed_by_several_threads_one_wins),
		cmocka_unit_test(nursery_used_up_gives_no_more),
	};

	return UNIT_RUN(tests);
}
