/* SPDX-License-Identifier: MIT */
#include "slab/mosaic.h"

#include <string.h>

#include "base/bits.h"
#include "common.h"
#include "fixture.h"

enum { SC = 7, ROUNDS = 20000, MOST = MOSAIC_UNITS / 2 }; /* 112-byte blocks */

static struct slab *slab;

/* A slab of which every `keep`-th block is out, opened. */
static void open_with_survivors(unsigned keep)
{
	unsigned capacity = hak_size_classes[SC].capacity;

	slab = fixture_slab(SC, NULL, capacity);
	for (unsigned i = 0; i < capacity; i++)
		if (i % keep != 0)
			slab_push(slab, fixture_block(slab, i), fixture_block(slab, i), 1);
	assert_true(mosaic_open(slab, slab->sc));
}

static void put_survivors(unsigned keep)
{
	for (unsigned i = 0; i < hak_size_classes[SC].capacity; i += keep)
		mosaic_put(slab, fixture_block(slab, i), 1);
	assert_int_equal(slab->used, 0);
	assert_int_equal(slab->free_count, MOSAIC_UNITS);
	slab_delete(slab);
}

/* 0: there is no hole for it. */
static uintptr_t take_one(unsigned sc)
{
	void *block;

	return mosaic_take(slab, sc, 1, &block + 1) == 1 ? (uintptr_t)block : 0;
}

/* Of all blocks that are not in holes. */
static size_t bytes_out(void)
{
	size_t bytes = 0;

	for (uintptr_t off = 0; off < GRANULE; off += 16)
		bytes += hak_size_classes[mosaic_class_at(slab_mosaic(slab), off)].size;
	return bytes;
}

/* Who has it may have found that all blocks were home. */
static void slab_in_others_hands_is_not_opened(void **state)
{
	static struct inbox inbox;
	unsigned capacity = hak_size_classes[SC].capacity;

	slab = fixture_slab(SC, &inbox, capacity);
	fixture_post(slab, 0, capacity - 1);
	assert_ptr_equal(inbox_take(&inbox, false), slab);
	assert_false(mosaic_open(slab, slab->sc));
	remote_unqueue(slab);
	assert_true(mosaic_open(slab, slab->sc));
	assert_int_equal(slab->used, 1);
	mosaic_put(slab, fixture_block(slab, capacity - 1), 1);
	slab_delete(slab);
}

/* Holes of 1008 bytes; of what fills them, some was freed by others and left. */
static void slab_without_room_for_a_class_is_not_opened(void **state)
{
	static struct inbox inbox;
	unsigned capacity = hak_size_classes[SC].capacity, survivors = (capacity + 9) / 10;

	slab = fixture_slab(SC, &inbox, capacity);
	for (unsigned i = 0; i < capacity; i++)
		if (i % 10 == 5)
			fixture_post(slab, i, 1);
		else if (i % 10 != 0)
			slab_push(slab, fixture_block(slab, i), fixture_block(slab, i), 1);
	assert_ptr_equal(inbox_take(&inbox, false), slab);
	remote_unqueue(slab);
	assert_false(mosaic_open(slab, sc_of(1024)));
	assert_null(slab_mosaic(slab));
	assert_true(slab_adds_up(slab));
	assert_int_equal(slab->used, survivors);
	assert_int_equal(slab->left_remote, 0);
	assert_int_equal(fixture_count(slab, slab->free), capacity - survivors);
	assert_true(mosaic_open(slab, sc_of(512)));
	assert_int_equal(slab->used, survivors);
	assert_true(take_one(sc_of(512)) != 0);
	assert_int_equal(take_one(sc_of(1024)), 0);
	mosaic_close(slab);
	slab->used = 0;
	slab_delete(slab);
}

static void open_slab_knows_its_blocks(void **state)
{
	unsigned capacity = hak_size_classes[SC].capacity, survivors = (capacity + 9) / 10;

	open_with_survivors(10);
	assert_int_equal(slab->used, survivors);
	assert_int_equal(slab->free_count, MOSAIC_UNITS - survivors * 7);
	assert_false(slab_has_uncarved(slab));
	for (unsigned i = 0; i < capacity; i++) {
		uintptr_t block = fixture_block(slab, i);
		assert_int_equal(slab_has_block(slab, block), i % 10 == 0);
		assert_int_equal(slab_class_at(slab, block), i % 10 == 0 ? SC : 0);
		assert_true(mosaic_block_at(slab_mosaic(slab), block + 111 - slab->base)
			== (i % 10 == 0 ? block - slab->base : GRANULE));
		assert_false(slab_has_block(slab, block + 16));
		assert_false(slab_has_block(slab, block + 1));
	}
	assert_int_equal(bytes_out(), survivors * 112);
	put_survivors(10);
}

/* Until another block lies there. */
static void block_in_a_hole_is_known_to_be_freed(void **state)
{
	uintptr_t block, taken;

	open_with_survivors(10);
	const struct mosaic *m = slab_mosaic(slab);
	block = fixture_block(slab, 11);
	assert_int_equal(mosaic_freed_at(m, block - slab->base), SC);
	assert_int_equal(mosaic_freed_at(m, block + 16 - slab->base), 0);
	assert_int_equal(mosaic_freed_at(m, fixture_block(slab, 10) - slab->base), 0);
	while ((taken = take_one(SC + 2)) != 0) {
		for (uintptr_t at = taken; at < taken + hak_size_classes[SC + 2].size; at += 16)
			assert_int_equal(mosaic_freed_at(m, at - slab->base), 0);
		assert_int_equal(slab_class_at(slab, taken), SC + 2);
		mosaic_put(slab, taken, 1);
		assert_int_equal(mosaic_freed_at(m, taken - slab->base), SC + 2);
		assert_int_equal(slab_class_at(slab, taken), 0);
		assert_int_not_equal(take_one(SC + 2), 0);
	}
	for (unsigned i = 0; i < hak_size_classes[SC].capacity; i += 10)
		assert_int_equal(slab_class_at(slab, fixture_block(slab, i)), SC);
	for (uintptr_t off = 0; off < GRANULE; off += 16)
		if (mosaic_class_at(m, off) != 0)
			mosaic_put(slab, slab->base + off, 1);
	assert_int_equal(slab->used, 0);
	slab_delete(slab);
}

/* Classes of an odd number of units: two blocks meet within a byte of the map. */
static void mark_of_next_block_stays(void **state)
{
	uintptr_t block[3];

	open_with_survivors(1000);
	for (unsigned i = 0; i < 3; i++) {
		block[i] = take_one(SC);
		assert_int_not_equal(block[i], 0);
	}
	for (unsigned i = 0; i + 1 < 3; i++) {
		assert_int_equal(block[i + 1], block[i] + 112);
		mosaic_mark_freed(slab, block[i + 1]);
		mosaic_put(slab, block[i], 1);
		slab_mosaic(slab)->next = 0;
		assert_int_equal(take_one(SC), block[i]);
		assert_int_equal(mosaic_freed_at(slab_mosaic(slab), block[i + 1] - slab->base), SC);
		assert_int_equal(mosaic_held_at(slab_mosaic(slab), block[i + 1] - slab->base), SC);
	}
	for (unsigned i = 0; i < 3; i++)
		mosaic_put(slab, block[i], 1);
	put_survivors(1000);
}

static void blocks_side_by_side_are_put_at_once(void **state)
{
	enum { MANY = 40, FIRST = 3, PUT = 30 }; /* over several words of the map */
	void *array[MANY];

	open_with_survivors(1000);
	assert_int_equal(mosaic_take(slab, SC, MANY, array + MANY), MANY);
	uintptr_t lowest = (uintptr_t)array[MANY - 1], first = lowest + FIRST * 112;
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal((uintptr_t)array[MANY - 1 - i], lowest + i * 112);
	mosaic_put(slab, first, PUT);
	assert_int_equal(slab->used, 1 + MANY - PUT);
	assert_int_equal(slab->free_count, MOSAIC_UNITS - 7 * (1 + MANY - PUT));
	assert_int_equal(bytes_out(), 112 * (1 + MANY - PUT));
	for (unsigned i = 0; i < MANY; i++) {
		bool is_out = i < FIRST || i >= FIRST + PUT;
		uintptr_t off = lowest + i * 112 - slab->base;
		assert_int_equal(mosaic_class_at(slab_mosaic(slab), off), is_out ? SC : 0);
		assert_int_equal(mosaic_freed_at(slab_mosaic(slab), off), is_out ? 0 : SC);
	}
	/* The hole is whole, and joins those beside it. */
	mosaic_put(slab, lowest, FIRST);
	mosaic_put(slab, first + PUT * 112, MANY - FIRST - PUT);
	slab_mosaic(slab)->next = 0;
	assert_int_equal(mosaic_take(slab, SC, MANY, array + MANY), MANY);
	assert_int_equal((uintptr_t)array[MANY - 1], lowest);
	mosaic_put(slab, lowest, MANY);
	put_survivors(1000);
}

static void slab_not_all_carved_opens_to_its_end(void **state)
{
	void *blocks[100];
	unsigned n;

	slab = fixture_slab(SC, NULL, 10);
	assert_true(mosaic_open(slab, slab->sc));
	assert_int_equal(slab->free_count, MOSAIC_UNITS - 70);
	n = mosaic_take(slab, 40, 100, blocks + 100);
	assert_int_equal(n, (GRANULE - 2048) / 2048);
	for (unsigned i = 100 - n; i < 100; i++)
		mosaic_put(slab, (uintptr_t)blocks[i], 1);
	for (unsigned i = 0; i < 10; i++)
		mosaic_put(slab, fixture_block(slab, i), 1);
	assert_int_equal(slab->free_count, MOSAIC_UNITS);
	slab_delete(slab);
}

static void taken_blocks_lie_in_holes(void **state)
{
	void *blocks[14] = {0};
	unsigned n, total = 0;

	open_with_survivors(10);
	while ((n = mosaic_take(slab, 18, 13, blocks + 14)) != 0) { /* 320 bytes: three fit a hole of 1008 */
		assert_in_range(n, 1, 13);
		for (unsigned i = 14 - n; i < 14; i++)
			assert_true(block_link((uintptr_t)blocks[i]) == hak_secret.mark && slab_class_at(slab, (uintptr_t)blocks[i]) == 18);
		total += n;
	}
	assert_null(blocks[0]);
	assert_in_range(total, 3 * 58 - 60, 3 * 59 + 3);
	assert_true(slab_mosaic(slab)->largest < 20);
	for (unsigned i = 0; i < hak_size_classes[SC].capacity; i += 10)
		assert_int_equal(slab_class_at(slab, fixture_block(slab, i)), SC);
	for (uintptr_t at = slab->base; at < slab->base + GRANULE; at += 16)
		if (slab_class_at(slab, at) == 18)
			mosaic_put(slab, at, 1);
	put_survivors(10);
}

/* A hole may be long enough and yet have no room, for where the block must begin. */
static void class_without_room_not_tried_until_a_block_comes_home(void **state)
{
	unsigned sc = sc_of(512);
	uintptr_t block;

	open_with_survivors(5);
	assert_true(mosaic_may_fit(slab_mosaic(slab), sc));
	block = take_one(7);
	while (take_one(sc) != 0)
		continue;
	assert_false(mosaic_may_fit(slab_mosaic(slab), sc));
	assert_true(mosaic_may_fit(slab_mosaic(slab), 2));
	mosaic_put(slab, block, 1);
	assert_int_equal(mosaic_may_fit(slab_mosaic(slab), sc),
		slab_mosaic(slab)->largest >= mosaic_units(sc));
	assert_true(mosaic_may_fit(slab_mosaic(slab), 7));
}

static void neighbouring_holes_join(void **state)
{
	uintptr_t block;

	open_with_survivors(4);
	assert_int_equal(take_one(23), 0); /* 480 bytes: more than a hole has */
	assert_in_range(slab_mosaic(slab)->largest, 21, 31);
	mosaic_put(slab, fixture_block(slab, 4), 1);
	assert_int_equal(slab_mosaic(slab)->largest, 3 * 7 + 7 + 3 * 7);
	block = take_one(23);
	assert_int_not_equal(block, 0);
	assert_int_equal(take_one(23), 0);
	mosaic_put(slab, block, 1);
	for (unsigned i = 0; i < hak_size_classes[SC].capacity; i += 4)
		if (i != 4)
			mosaic_put(slab, fixture_block(slab, i), 1);
	assert_int_equal(slab_mosaic(slab)->largest, MOSAIC_UNITS);
	slab_delete(slab);
}

/* Where pages are resident: also if the hole begins before the block that made it long enough. */
static void large_block_serves_again_where_it_was(void **state)
{
	unsigned sc = sc_of(16000);
	uintptr_t small, first, second;

	slab = fixture_slab(SC, NULL, 0);
	assert_true(mosaic_open(slab, slab->sc));
	small = take_one(SC); /* leaves a gap before an aligned block */
	first = take_one(sc);
	second = take_one(sc);
	assert_true(small != 0 && first != 0 && second != 0);
	assert_true(first > slab->base + 64 * 16);
	mosaic_put(slab, first, 1);
	assert_int_equal(take_one(sc), first);
	mosaic_put(slab, first, 1);
	mosaic_put(slab, second, 1);
	mosaic_put(slab, small, 1);
	assert_int_equal(slab->used, 0);
	slab_delete(slab);
}

/* Two blocks of 24 KiB leave 16 over, which others may use then. */
static void opened_slab_has_no_idle_end(void **state)
{
	slab = fixture_slab(sc_of(24 * 1024), NULL, 0);
	assert_int_equal(hak_space.idle, slab->fresh_is_zero ? 16 * 1024 : 0);
	assert_int_equal(hak_space.idle + hak_space.slack, 16 * 1024);
	assert_true(mosaic_open(slab, slab->sc));
	assert_int_equal(hak_space.idle + hak_space.slack, 0);
	slab_delete(slab);
	assert_int_equal(hak_space.idle, 0);
}

/* What may be resident behind the blocks is no end any longer either. */
static void opened_slab_has_no_slack(void **state)
{
	struct slab *other;

	slab = fixture_slab(sc_of(24 * 1024), NULL, 0);
	other = fixture_slab(sc_of(24 * 1024), NULL, 0);
	slab->fresh_is_zero = other->fresh_is_zero = false; /* as if they had been used */
	slab_delete(slab);
	slab_delete(other);
	slab = fixture_slab(sc_of(24 * 1024), NULL, 0);
	other = fixture_slab(sc_of(24 * 1024), NULL, 0);
	assert_int_equal(hak_space.slack, 2 * 16 * 1024);
	assert_true(mosaic_open(slab, slab->sc));
	assert_int_equal(hak_space.slack, 16 * 1024);
	slab_delete(slab);
	assert_int_equal(hak_space.slack, 16 * 1024);
	slab_delete(other);
	assert_int_equal(hak_space.idle + hak_space.slack, 0);
}

static unsigned blocks_held(void)
{
	unsigned held = 0;

	for (uintptr_t off = 0; off < GRANULE; off += 16)
		held += mosaic_held_at(slab_mosaic(slab), off) != 0;
	return held;
}

/* One of the blocks is on its way home. */
static void sealed_mosaic_gives_nothing_and_counts_its_blocks(void **state)
{
	unsigned used;

	open_with_survivors(10);
	used = slab->used;
	mosaic_mark_freed(slab, fixture_block(slab, 10));
	assert_int_equal(blocks_held(), used);
	for (int i = 0; i < 2; i++) {
		mosaic_seal(slab);
		assert_int_equal(slab->used, used);
		assert_int_equal(blocks_held(), used);
	}
	assert_int_equal(slab->free_count, 0);
	assert_int_equal(take_one(3), 0);
	slab->used = 0;
	slab_delete(slab);
}

/* What lies behind it on the list is lost, what is not on it is not. */
static void list_written_to_opens_no_hole_in_a_block(void **state)
{
	unsigned capacity = hak_size_classes[SC].capacity;

	for (unsigned i = 0; i < 3; i++) {
		slab = fixture_slab(SC, NULL, capacity);
		for (unsigned k = 0; k < 10; k++)
			slab_push(slab, fixture_block(slab, k), fixture_block(slab, k), 1);
		uintptr_t wrong[] = {fixture_block(slab, 9), fixture_block(slab, 20) + 16, 42};
		block_set_link(fixture_block(slab, 5), link_encode(wrong[i]));
		assert_true(mosaic_open(slab, slab->sc));
		for (unsigned k = 0; k < capacity; k++)
			assert_int_equal(slab_class_at(slab, fixture_block(slab, k)), k >= 5 && k < 10 ? 0 : SC);
		for (unsigned k = 10; k < capacity; k++)
			assert_int_equal(mosaic_held_at(slab_mosaic(slab), fixture_block(slab, k) - slab->base), SC);
		slab_delete(slab);
	}
}

/* ---- against a model ---- */

static struct { uintptr_t at; unsigned sc; } held[MOST];
static unsigned holding;

static void fill(unsigned i)
{
	memset((void *)held[i].at, (int)(i % 251 + 1), hak_size_classes[held[i].sc].size);
}

static void check_and_drop(unsigned i)
{
	uint32_t size = hak_size_classes[held[i].sc].size;

	assert_int_equal(slab_class_at(slab, held[i].at), held[i].sc);
	assert_true(mosaic_block_at(slab_mosaic(slab), held[i].at + size - 1 - slab->base)
		== held[i].at - slab->base);
	assert_true(bytes_are((void *)held[i].at, size, (unsigned char)(i % 251 + 1)));
	mosaic_put(slab, held[i].at, 1);
	held[i] = held[--holding];
	if (i < holding)
		fill(i);
}

static bool has_room(unsigned sc)
{
	unsigned units = mosaic_units(sc), align = units & -units, free_units = 0;

	for (unsigned unit = 0; unit < MOSAIC_UNITS; unit++) {
		bool used = slab_mosaic(slab)->used[unit / 64] >> unit % 64 & 1;

		free_units = used || (free_units == 0 && unit % align != 0) ? 0 : free_units + 1;
		if (free_units == units)
			return true;
	}
	return false;
}

static void take_some(uint64_t *seed)
{
	unsigned sc = 2 + (unsigned)(next_random(seed) % 39), n;
	unsigned wanted = 1 + (unsigned)(next_random(seed) % 8);
	uint32_t size = hak_size_classes[sc].size;
	void *blocks[8];

	n = mosaic_take(slab, sc, wanted, blocks + 8);
	if (n < wanted)
		assert_false(has_room(sc));
	for (unsigned i = 8 - n; i < 8; i++) {
		uintptr_t at = (uintptr_t)blocks[i];
		assert_true((at & ((size & -size) - 1)) == 0 && at >= slab->base);
		assert_true(at + size <= slab->base + GRANULE);
		held[holding].at = at;
		held[holding].sc = sc;
		fill(holding++);
	}
}

static void blocks_random_use_apart(void **state)
{
	uint64_t seed = 77;
	size_t units;

	open_with_survivors(1000); /* the first block only */
	for (unsigned i = 0; i < ROUNDS; i++) {
		bool room = holding + 8 <= MOST;
		if (room && (holding == 0 || next_random(&seed) % 100 < 52))
			take_some(&seed);
		else
			check_and_drop((unsigned)(next_random(&seed) % holding));
	}
	units = 7;
	for (unsigned i = 0; i < holding; i++)
		units += hak_size_classes[held[i].sc].size / 16;
	assert_int_equal(slab->free_count, MOSAIC_UNITS - units);
	assert_int_equal(bytes_out(), 16 * units);
	while (holding > 0)
		check_and_drop(holding - 1);
	put_survivors(1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slab_in_others_hands_is_not_opened),
		cmocka_unit_test(slab_without_room_for_a_class_is_not_opened),
		cmocka_unit_test(open_slab_knows_its_blocks),
		cmocka_unit_test(block_in_a_hole_is_known_to_be_freed),
		cmocka_unit_test(mark_of_next_block_stays),
		cmocka_unit_test(blocks_side_by_side_are_put_at_once),
		cmocka_unit_test(slab_not_all_carved_opens_to_its_end),
		cmocka_unit_test(taken_blocks_lie_in_holes),
		cmocka_unit_test(class_without_room_not_tried_until_a_block_comes_home),
		cmocka_unit_test(neighbouring_holes_join),
		cmocka_unit_test(large_block_serves_again_where_it_was),
		cmocka_unit_test(opened_slab_has_no_idle_end),
		cmocka_unit_test(opened_slab_has_no_slack),
		cmocka_unit_test(sealed_mosaic_gives_nothing_and_counts_its_blocks),
		cmocka_unit_test(list_written_to_opens_no_hole_in_a_block),
		cmocka_unit_test(blocks_random_use_apart),
	};

	return UNIT_RUN(tests);
}
