/* SPDX-License-Identifier: MIT */
/* What a heap does before it touches new memory. A small one: slabs of a class that the program has no blocks of serve
   others. A larger one: blocks in bins of classes that are not used go home. */
#include "front/heap_slabs.h"

#include "base/settings.h"
#include "common.h"
#include "fixture.h"
#include "front/bins.h"
#include "slab/remote.h"
#include "space/purge.h"

enum {
	SC = 32, PER_SLAB = 64, /* 1 KiB blocks */
	NEXT = 30,              /* of the class that wants memory */
	MOST = 64,              /* slabs of a heap that looks */
	TIMES = 32,             /* classes are recalled */
	LEAST = 48,             /* blocks that must have been carved */
};

static struct bin bins[SC_COUNT], other_bins[SC_COUNT];
static struct heap *heap, *other;
static uintptr_t blocks[MOST * PER_SLAB];

static int start(void **state)
{
	purge_all(0);
	heap = heap_acquire(bins, false);
	other = heap_acquire(other_bins, false);
	if (heap != NULL)
		heap->recalls = 0; /* it may be one that has learnt */
	return heap != NULL && other != NULL && hak_space.live == 0 && !purge_pending() ? 0 : -1;
}

static void set_usual(void)
{
	hak_settings.empty_reuse = hak_settings.use_superslab = true;
	hak_settings.purge_delay_ms = 1000;
	hak_settings.secure = 0;
}

static int end(void **state)
{
	heap_retire(heap);
	heap_retire(other);
	set_usual();
	return hak_space.live == 0 ? 0 : -1;
}

static void take(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		blocks[i] = fixture_take(heap, SC);
}

static void give(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		fixture_free(heap, SC, blocks[i]);
}

static unsigned slabs_of(unsigned sc)
{
	unsigned n = 0;

	for (struct list_node *at = heap->classes[sc].all.first; at != NULL; at = at->next)
		n++;
	return n;
}

/* A block of another class, which has no slab, is asked for. Was memory of this one used, which has `slabs` left then? */
static bool next_uses(uintptr_t base, unsigned slabs)
{
	uintptr_t block = fixture_take(heap, NEXT);
	bool uses = fixture_slab_of(block)->base == base;

	assert_int_equal(slabs_of(SC), slabs);
	fixture_send_home(heap, block);
	heap_flush(heap);
	purge_all(0);
	return uses;
}

static void class_that_waits_serves_another(void **state)
{
	take(PER_SLAB);
	uintptr_t base = fixture_slab_of(blocks[0])->base;
	give(0, PER_SLAB);
	assert_true(bin_count(heap, SC) > 0);
	assert_true(next_uses(base, 0));
	assert_int_equal(bin_count(heap, SC), 0);
}

static void class_that_waits_gives_all_slabs(void **state)
{
	take(2 * PER_SLAB);
	uintptr_t base = fixture_slab_of(blocks[0])->base, second = fixture_slab_of(blocks[PER_SLAB])->base;
	/* In turn, so that the bin has blocks of both in the end. */
	for (unsigned i = 0; i < PER_SLAB; i++) {
		give(i, i + 1);
		give(PER_SLAB + i, PER_SLAB + i + 1);
	}
	assert_int_equal(slabs_of(SC), 2);
	uintptr_t block = fixture_take(heap, NEXT), used = fixture_slab_of(block)->base;
	assert_true(used == base || used == second);
	assert_int_equal(slabs_of(SC), 0);
	fixture_send_home(heap, block);
}

static void class_with_a_live_block_keeps_its_slab(void **state)
{
	take(PER_SLAB);
	uintptr_t base = fixture_slab_of(blocks[0])->base;
	give(1, PER_SLAB);
	unsigned cached = bin_count(heap, SC);
	uintptr_t block = fixture_take(heap, NEXT);
	assert_ptr_not_equal((void *)fixture_slab_of(block)->base, (void *)base);
	assert_int_equal(slabs_of(SC), 1);
	assert_int_equal(bin_count(heap, SC), cached);
	fixture_send_home(heap, block);
	give(0, 1);
}

static void blocks_that_others_freed_wait_too(void **state)
{
	take(PER_SLAB);
	uintptr_t base = fixture_slab_of(blocks[0])->base;
	for (unsigned i = 0; i < 10; i++)
		fixture_free_remotely(other, blocks[i]);
	outbox_flush(&other->outbox);
	take(1); /* the others stay a list */
	assert_int_equal(heap->classes[SC].listed, 9);
	give(0, 1);
	give(10, PER_SLAB);
	assert_true(next_uses(base, 0));
}

static void class_hardly_begun_keeps_its_slab(void **state)
{
	for (unsigned n = LEAST - 4; n <= LEAST; n += 4) {
		take(n);
		uintptr_t base = fixture_slab_of(blocks[0])->base;
		assert_int_equal(fixture_slab_of(blocks[0])->carved, n);
		give(0, n);
		assert_int_equal(next_uses(base, n < LEAST), n >= LEAST);
	}
}

static void dirty_memory_comes_first(void **state)
{
	take(PER_SLAB);
	uintptr_t block = fixture_take(heap, NEXT);
	give(0, PER_SLAB);
	fixture_send_home(heap, block);
	bin_flush(heap, NEXT);
	heap_for_each_slab(heap, heap_delete_if_empty);
	take(PER_SLAB);
	assert_true(purge_pending());
	uintptr_t base = fixture_slab_of(blocks[0])->base;
	give(0, PER_SLAB);
	assert_false(next_uses(base, 1));
}

static void larger_heap_does_not_look(void **state)
{
	static uintptr_t more[(MOST - 1) * PER_SLAB];

	take(PER_SLAB);
	uintptr_t base = fixture_slab_of(blocks[0])->base;
	give(0, PER_SLAB);
	heap->recalls = TIMES;
	unsigned sc = SC + 1, n = 0;
	for (; heap->slabs < MOST; n++)
		more[n] = fixture_take(heap, sc);
	heap->recalls = 0;
	assert_false(next_uses(base, 1));
	for (unsigned i = 0; i < n; i++)
		fixture_send_home(heap, more[i]);
}

static void classes_that_come_back_often_are_left_alone(void **state)
{
	for (unsigned i = 0; i <= TIMES; i++) {
		take(PER_SLAB);
		uintptr_t base = fixture_slab_of(blocks[0])->base;
		give(0, PER_SLAB);
		assert_int_equal(next_uses(base, i == TIMES), i < TIMES);
	}
}

/* Where what is given up would go to the system, be made accessible again, or stay in its class. */
static void class_keeps_its_slab_where_that_gains_nothing(void **state)
{
	for (unsigned i = 0; i < 5; i++) {
		take(PER_SLAB);
		uintptr_t base = fixture_slab_of(blocks[0])->base;
		give(0, PER_SLAB);
		hak_settings.empty_reuse = i != 0;
		hak_settings.purge_delay_ms = i == 1 ? 0 : 1000;
		hak_settings.secure = i == 2;
		hak_settings.use_superslab = i != 3;
		uintptr_t block = fixture_take(heap, NEXT);
		set_usual();
		assert_int_equal(fixture_slab_of(block)->base == base, i == 4);
		assert_int_equal(slabs_of(SC), i != 4);
		fixture_send_home(heap, block);
		heap_flush(heap);
		purge_all(0);
	}
}

static void take_fresh_slabs(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct slab *s = heap_fresh_slab(heap, SC);

		assert_non_null(s);
		heap_delete_slab(heap, s);
	}
}

static void blocks_of_unused_classes_go_home_in_a_larger_heap(void **state)
{
	enum { UNUSED = 12, USED = 14, LARGER = 32, ROUND = SC_COUNT - 1 };
	uintptr_t unused = fixture_take(heap, UNUSED), used[2] = {fixture_take(heap, USED), fixture_take(heap, USED)};

	fixture_free(heap, UNUSED, unused);
	take_fresh_slabs(3 * ROUND);
	assert_true(bin_count(heap, UNUSED) != 0);
	heap->slabs += LARGER;
	take_fresh_slabs(ROUND);
	fixture_free(heap, USED, used[0]);
	take_fresh_slabs(ROUND);
	assert_int_equal(bin_count(heap, UNUSED), 0);
	assert_true(bin_count(heap, USED) != 0);
	fixture_free(heap, USED, used[1]);
	take_fresh_slabs(ROUND);
	assert_true(bin_count(heap, USED) != 0);
	take_fresh_slabs(ROUND);
	assert_int_equal(bin_count(heap, USED), 0);
	heap->slabs -= LARGER;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(blocks_of_unused_classes_go_home_in_a_larger_heap, start, end),
		cmocka_unit_test_setup_teardown(class_that_waits_serves_another, start, end),
		cmocka_unit_test_setup_teardown(class_that_waits_gives_all_slabs, start, end),
		cmocka_unit_test_setup_teardown(class_with_a_live_block_keeps_its_slab, start, end),
		cmocka_unit_test_setup_teardown(blocks_that_others_freed_wait_too, start, end),
		cmocka_unit_test_setup_teardown(class_hardly_begun_keeps_its_slab, start, end),
		cmocka_unit_test_setup_teardown(dirty_memory_comes_first, start, end),
		cmocka_unit_test_setup_teardown(larger_heap_does_not_look, start, end),
		cmocka_unit_test_setup_teardown(classes_that_come_back_often_are_left_alone, start, end),
		cmocka_unit_test_setup_teardown(class_keeps_its_slab_where_that_gains_nothing, start, end),
	};

	return UNIT_RUN(tests);
}
