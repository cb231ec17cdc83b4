/* SPDX-License-Identifier: MIT */
/* Heaps that serve a class from sparse slabs of another. */
#include "front/holes.h"

#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "common.h"
#include "fixture.h"
#include "front/bins.h"
#include "front/heap_slabs.h"
#include "listen.h"
#include "slab/mosaic.h"
#include "slab/pool.h"
#include "space/pagemap.h"
#include "space/purge.h"

enum {
	OLD = 7, NEW = 18, /* 112 and 320 bytes */
	SLABS = 64,
	BLOCKS = SLABS * (65536 / 112),
	KEEP = 10, /* every tenth block survives */
};

static struct bin bins[SC_COUNT], other_bins[SC_COUNT];
static struct heap *heap, *other;
static uintptr_t blocks[BLOCKS], more[BLOCKS];
static struct heap_counters before;

static void fill(uintptr_t block, unsigned sc, unsigned i)
{
	memset((void *)block, (int)(i % 251 + 1), hak_size_classes[sc].size);
}

static bool is_filled(uintptr_t block, unsigned sc, unsigned i)
{
	return bytes_are((void *)block, hak_size_classes[sc].size, (unsigned char)(i % 251 + 1));
}

/* Leaves the heap with SLABS slabs of class OLD of which every tenth block is out. */
static int start_sparse(void **state)
{
	heap = heap_acquire(bins, false);
	other = heap_acquire(other_bins, false);
	if (heap == NULL || other == NULL || hak_space.live != 0)
		return -1;
	for (unsigned i = 0; i < BLOCKS; i++)
		blocks[i] = fixture_take(heap, OLD);
	for (unsigned i = 0; i < BLOCKS; i++)
		if (i % KEEP != 0)
			fixture_send_home(heap, blocks[i]);
		else
			fill(blocks[i], OLD, i);
	before = heap->count;
	return 0;
}

static unsigned mosaics(void)
{
	unsigned n = 0;

	for (struct list_node *at = heap->classes[0].all.first; at != NULL; at = at->next)
		n++;
	return n;
}

static void send_survivors_home(void)
{
	for (unsigned i = 0; i < BLOCKS; i += KEEP)
		fixture_send_home(heap, blocks[i]);
}

/* The other heap's thread frees each `step`-th of the blocks. */
static void free_by_other(const uintptr_t *from, unsigned n, unsigned step)
{
	for (unsigned i = 0; i < n; i += step)
		fixture_free_remotely(other, from[i]);
	outbox_flush(&other->outbox);
}

static int end(void **state)
{
	heap_retire(other);
	heap_retire(heap); /* last: the next test's first, which large classes begin in mosaics of */
	return hak_space.live == 0 && pool_count(0) == 0 && pool_count(OLD) == 0 ? 0 : -1;
}

static unsigned take_many(unsigned sc, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		more[i] = fixture_take(heap, sc);
		assert_true(slab_has_block(fixture_slab_of(more[i]), more[i]));
		fill(more[i], sc, i + 7);
	}
	return n;
}

static void check_all(unsigned sc, unsigned n)
{
	for (unsigned i = 0; i < BLOCKS; i += KEEP)
		assert_true(is_filled(blocks[i], OLD, i));
	for (unsigned i = 0; i < n; i++)
		assert_true(is_filled(more[i], sc, i + 7));
}

static void other_class_served_from_sparse_slabs(void **state)
{
	size_t live = hak_space.live;
	unsigned n = take_many(NEW, SLABS * 100); /* of about 175 that fit */

	assert_true(heap->count.refill_hole > before.refill_hole);
	assert_int_equal(heap->count.refill_fresh, before.refill_fresh);
	assert_int_equal(hak_space.live, live);
	check_all(NEW, n);
	assert_int_equal(pagemap_tag(more[0]), heap->tag | TAG_MOSAIC);
	for (unsigned i = 0; i < n; i++)
		fixture_send_home(heap, more[i]);
	send_survivors_home();
	heap_flush(heap);
	assert_int_equal(hak_space.live, 0);
}

static void swap(void **a, void **b)
{
	void *entry = *a;

	*a = *b;
	*b = entry;
}

enum { FEW = 64, AS_TAKEN = 0, SHUFFLED = 1, TURNED = 2, WITH_GAPS = 3 };

static bool is_gap(unsigned i)
{
	return i / FEW % 4 == WITH_GAPS && i % 3 == 0;
}

/* Neighbours go home together, whichever way round they lie in the bin, and nobody else. */
static void blocks_of_mosaics_come_home_in_any_order(void **state)
{
	unsigned n = take_many(NEW, SLABS * 50 / FEW * FEW), sent = 0;
	uint64_t seed = 5;

	for (unsigned from = 0; from < n; from += FEW) {
		void *entries[FEW];
		unsigned count = 0, order = from / FEW % 4;

		for (unsigned i = from; i < from + FEW; i++)
			if (!is_gap(i))
				entries[count++] = (void *)more[i];
		for (unsigned i = 0; i < count && order == SHUFFLED; i++)
			swap(&entries[i], &entries[i + next_random(&seed) % (count - i)]);
		for (unsigned i = 0; i < count / 2 && order == TURNED; i++)
			swap(&entries[i], &entries[count - 1 - i]);
		for (unsigned i = 0; i < count; i++)
			block_set_link((uintptr_t)entries[i], hak_secret.mark);
		heap_send_home(heap, NEW, entries, entries + count);
		for (unsigned i = from; i < from + FEW; i++) {
			const struct slab *s = fixture_slab_of(more[i]);
			assert_int_equal(mosaic_held_at(slab_mosaic(s), more[i] - s->base), is_gap(i) ? NEW : 0);
			assert_true(!is_gap(i) || is_filled(more[i], NEW, i + 7));
		}
		sent += count;
	}
	assert_int_equal(heap->count.home - before.home, sent);
	for (unsigned i = 0; i < n; i++)
		if (is_gap(i))
			fixture_send_home(heap, more[i]);
	for (unsigned i = 0; i < BLOCKS; i += KEEP)
		assert_true(is_filled(blocks[i], OLD, i));
	send_survivors_home();
	heap_flush(heap);
	assert_int_equal(hak_space.live, 0);
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return (x > y) - (x < y);
}

/* The last block of one and the first of the next are neighbours, too. */
static void neighbours_in_different_mosaics_go_home_to_their_own(void **state)
{
	enum { SC = 16, EACH = 256 }; /* a class whose blocks lie at both ends of a granule */
	unsigned n = take_many(SC, SLABS * 150), pairs = 0;

	qsort(more, n, sizeof(*more), by_address);
	for (unsigned i = 0; i + 1 < n; i++) {
		const struct slab *low = fixture_slab_of(more[i]), *high = fixture_slab_of(more[i + 1]);
		void *entries[2] = {(void *)more[i], (void *)more[i + 1]};

		if (more[i + 1] != more[i] + EACH || low == high || slab_mosaic(low) == NULL || slab_mosaic(high) == NULL)
			continue;
		if (pairs++ % 2 == 1)
			swap(&entries[0], &entries[1]);
		unsigned used_low = low->used, used_high = high->used;
		block_set_link(more[i], hak_secret.mark);
		block_set_link(more[i + 1], hak_secret.mark);
		heap_send_home(heap, SC, entries, entries + 2);
		assert_int_equal(low->used, used_low - 1);
		assert_int_equal(high->used, used_high - 1);
		assert_int_equal(mosaic_freed_at(slab_mosaic(low), more[i] - low->base), SC);
		assert_int_equal(mosaic_freed_at(slab_mosaic(high), more[i + 1] - high->base), SC);
		more[i] = more[i + 1] = 0;
	}
	assert_true(pairs >= 2);
	for (unsigned i = 0; i < n; i++)
		if (more[i] != 0)
			fixture_send_home(heap, more[i]);
	send_survivors_home();
	heap_flush(heap);
	assert_int_equal(hak_space.live, 0);
}

/* As one that was written to after its free, and freed again, is in the bin twice. */
static void neighbour_that_is_home_does_not_go_again(void **state)
{
	unsigned n = take_many(NEW, SLABS * 100), i = 0;

	qsort(more, n, sizeof(*more), by_address);
	while (more[i + 1] != more[i] + 320 || fixture_slab_of(more[i]) != fixture_slab_of(more[i + 1]))
		assert_true(++i + 1 < n);
	const struct slab *s = fixture_slab_of(more[i]);
	void *entries[2] = {(void *)more[i], (void *)more[i + 1]};
	unsigned used = s->used;

	assert_non_null(slab_mosaic(s));
	fixture_send_home(heap, more[i + 1]);
	block_set_link(more[i], hak_secret.mark);
	block_set_link(more[i + 1], hak_secret.mark);
	listen_begin();
	heap_send_home(heap, NEW, entries, entries + 2);
	assert_said("write after free to 0x%lx (320-byte block)", more[i + 1]);
	assert_int_equal(s->used, used - 2);
	for (unsigned k = 0; k < n; k++)
		if (k != i && k != i + 1)
			fixture_send_home(heap, more[k]);
	send_survivors_home();
	heap_flush(heap);
	assert_int_equal(hak_space.live, 0);
}

static void blocks_of_mosaics_freed_remotely_come_home(void **state)
{
	unsigned n = take_many(NEW, SLABS * 50);

	free_by_other(more, n, 1);
	free_by_other(blocks, BLOCKS, KEEP);
	heap_flush(heap);
	assert_int_equal(hak_space.live, 0);
}

/* What lies on the remote list when a slab is opened is not lost: all home, all given back. */
static void blocks_left_on_remote_list_become_holes(void **state)
{
	unsigned n;

	free_by_other(blocks, BLOCKS, 2 * KEEP);
	heap_drain_inbox(heap); /* leaves them: the own lists are not empty */
	n = take_many(NEW, SLABS * 50);
	assert_true(heap->count.refill_hole > before.refill_hole);
	for (unsigned i = 0; i < n; i++)
		fixture_send_home(heap, more[i]);
	for (unsigned i = KEEP; i < BLOCKS; i += 2 * KEEP)
		fixture_send_home(heap, blocks[i]);
	for (void *p; (p = bin_pop(&bins[NEW])) != NULL;)
		fixture_send_home(heap, (uintptr_t)p);
	assert_true(mosaics() <= 4); /* these stay, empty */
	heap_flush(heap);
	assert_null(heap->classes[0].all.first);
}

static void holes_serve_again_and_again(void **state)
{
	size_t live = hak_space.live;
	unsigned sizes[] = {NEW, 20, 9, 25, 12};

	for (unsigned round = 0; round < 5; round++) {
		unsigned n = take_many(sizes[round], SLABS * 40);
		check_all(sizes[round], n);
		for (unsigned i = 0; i < n; i++)
			fixture_send_home(heap, more[i]);
	}
	assert_true(hak_space.live <= live);
	send_survivors_home();
}

static void mosaics_of_dead_thread_are_adopted(void **state)
{
	unsigned n = take_many(NEW, SLABS * 20);

	heap_retire(heap);
	assert_true(pool_count(0) > 0);
	check_all(NEW, n);
	heap = heap_acquire(bins, false);
	free_by_other(more, n, 1);
	/* A heap of some size that runs out of a class takes them over. */
	heap->slabs += SLABS;
	n = take_many(NEW, SLABS * 20);
	heap->slabs -= SLABS;
	assert_true(heap->count.refill_hole > before.refill_hole);
	check_all(NEW, n);
	free_by_other(more, n, 1);
	free_by_other(blocks, BLOCKS, KEEP);
}

/* Else each thread would take new memory up to the size from which on it looks for holes. */
static void mosaics_of_many_dead_threads_are_adopted_by_small_heaps(void **state)
{
	enum { MANY = 32 };
	unsigned n = take_many(NEW, SLABS * 120);

	heap_retire(heap);
	assert_true(pool_count(0) > MANY);
	heap = heap_acquire(bins, false);
	before = heap->count;
	free_by_other(more, n, 1);
	for (n = 0; heap->count.refill_fresh == before.refill_fresh; n++)
		more[n] = fixture_take(heap, NEW);
	assert_true(heap->count.refill_hole > before.refill_hole);
	assert_int_equal(pool_count(0), MANY - 1);
	free_by_other(more, n, 1);
	free_by_other(blocks, BLOCKS, KEEP);
}

/* Threads in a row that each use another size would leave as much of each. */
static void slabs_of_many_dead_threads_are_opened_by_small_heaps(void **state)
{
	enum { MANY = 32 };
	struct heap *first = heap, *small = other;
	unsigned n;

	heap_retire(first);
	assert_int_equal(pool_count(OLD), SLABS);
	assert_ptr_equal(heap_acquire(bins, false), first);
	heap = small;
	other = first;
	before = heap->count;
	for (n = 0; heap->count.refill_fresh == before.refill_fresh; n++) {
		more[n] = fixture_take(heap, NEW);
		fill(more[n], NEW, n + 7);
	}
	assert_true(heap->count.refill_hole > before.refill_hole);
	assert_int_equal(pool_count(OLD), MANY - 1);
	check_all(NEW, n);
	free_by_other(more, n, 1);
	free_by_other(blocks, BLOCKS, KEEP);
	heap = first;
	other = small;
}

/* They would serve nobody, not their own class either, that nobody seeks there. */
static void slabs_without_room_are_not_opened(void **state)
{
	unsigned sc = sc_of(1024); /* the holes have 1008 bytes */
	uintptr_t block;

	assert_null(holes_refill(heap, sc));
	assert_int_equal(mosaics(), 0);
	/* For a while none is looked into again. */
	for (unsigned i = 0; i < 31; i++)
		assert_null(holes_refill(heap, NEW));
	assert_int_equal(mosaics(), 0);
	block = (uintptr_t)holes_refill(heap, NEW);
	assert_true(block != 0);
	assert_int_equal(mosaics(), 1);
	fixture_send_home(heap, block);
	send_survivors_home();
}

static int start_empty(void **state)
{
	heap = heap_acquire(bins, false);
	other = heap_acquire(other_bins, false);
	return heap != NULL && other != NULL ? 0 : -1;
}

static unsigned class_for(size_t size)
{
	unsigned sc = 1;

	while (hak_size_classes[sc].size < size)
		sc++;
	return sc;
}

static void large_classes_begin_side_by_side(void **state)
{
	static const size_t sizes[] = {3000, 5000, 13000, 9000, 20000};
	uintptr_t at[5];

	for (unsigned i = 0; i < 5; i++) {
		unsigned sc = class_for(sizes[i]);
		at[i] = fixture_take(heap, sc);
		assert_int_equal(slab_class_at(fixture_slab_of(at[i]), at[i]), sc);
		assert_int_equal(at[i] % (hak_size_classes[sc].size & -hak_size_classes[sc].size), 0);
		fill(at[i], sc, i);
		assert_null(heap->classes[sc].all.first);
	}
	assert_int_equal(mosaics(), 1);
	for (unsigned i = 0; i < 5; i++)
		assert_true(is_filled(at[i], class_for(sizes[i]), i));
	/* What one class leaves serves another. */
	heap_put_in_mosaic(heap, fixture_slab_of(at[2]), at[2]);
	assert_true(fixture_take(heap, class_for(11000)) == at[2]);
	for (unsigned i = 0; i < 5; i++)
		heap_put_in_mosaic(heap, fixture_slab_of(at[i]), at[i]);
	assert_int_equal(mosaics(), 1);
}

static void class_in_demand_gets_slabs(void **state)
{
	unsigned sc = class_for(9000), taken = 0;

	while (heap->classes[sc].all.first == NULL && taken < 1000) {
		uintptr_t block = fixture_take(heap, sc);
		taken++;
		if (heap->classes[sc].all.first == NULL)
			heap_put_in_mosaic(heap, fixture_slab_of(block), block);
		else
			fixture_send_home(heap, block);
	}
	assert_in_range(taken, 4, 100);
}

static void large_classes_of_other_heaps_begin_with_slabs(void **state)
{
	assert_true(heap->is_first);
	assert_false(other->is_first);
	assert_null(holes_start(other, class_for(9000)));
	assert_null(other->classes[0].all.first);
}

/* Left by a dead thread with a live block, a mosaic serves the large classes of the next. */
static void begun_mosaic_of_dead_thread_is_adopted(void **state)
{
	unsigned sc = class_for(5000);
	uintptr_t kept = fixture_take(heap, sc);

	heap_retire(heap);
	heap = heap_acquire(bins, false);
	uintptr_t block = fixture_take(heap, class_for(13000));
	assert_ptr_equal(fixture_slab_of(block), fixture_slab_of(kept));
	heap_put_in_mosaic(heap, fixture_slab_of(block), block);
	heap_put_in_mosaic(heap, fixture_slab_of(kept), kept);
}

static bool refills_from_holes(unsigned sc)
{
	uintptr_t block = (uintptr_t)holes_refill(heap, sc);

	if (block == 0)
		return false;
	heap_put_in_mosaic(heap, fixture_slab_of(block), block);
	bin_flush(heap, sc);
	return true;
}

static void make_dirty(void)
{
	struct span span;

	assert_true(span_alloc(1, SPAN_DENSE, 0, &span));
	span_free(&span, GRANULE);
	assert_int_equal(hak_space.dirty, 1);
}

/* It saves none then. */
static void small_blocks_leave_empty_mosaic_alone_while_memory_is_dirty(void **state)
{
	unsigned large = class_for(9000);
	uintptr_t block;

	purge_all(0);
	heap->slabs += SLABS; /* no small one */
	block = fixture_take(heap, large);
	heap_put_in_mosaic(heap, fixture_slab_of(block), block);
	assert_int_equal(mosaics(), 1);
	assert_true(refills_from_holes(NEW));

	make_dirty();
	assert_false(refills_from_holes(NEW));
	assert_ptr_equal(fixture_take(heap, large), block);
	assert_true(refills_from_holes(NEW)); /* it is not empty now */
	assert_int_equal(mosaics(), 1);
	heap_put_in_mosaic(heap, fixture_slab_of(block), block);
	heap->slabs -= SLABS;
}

static void small_heap_and_large_classes_left_alone(void **state)
{
	heap->slabs -= SLABS;
	assert_null(holes_refill(heap, NEW));
	heap->slabs += SLABS;
	assert_null(holes_refill(heap, 44)); /* 4 KiB */
	assert_null(holes_refill(heap, 1));
	heap->locked = true;
	assert_null(holes_refill(heap, NEW));
	heap->locked = false;
	assert_null(heap->classes[0].all.first);
	send_survivors_home();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(other_class_served_from_sparse_slabs, start_sparse, end),
		cmocka_unit_test_setup_teardown(blocks_of_mosaics_come_home_in_any_order, start_sparse, end),
		cmocka_unit_test_setup_teardown(neighbours_in_different_mosaics_go_home_to_their_own, start_sparse, end),
		cmocka_unit_test_setup_teardown(neighbour_that_is_home_does_not_go_again, start_sparse, end),
		cmocka_unit_test_setup_teardown(blocks_of_mosaics_freed_remotely_come_home, start_sparse,
			end),
		cmocka_unit_test_setup_teardown(blocks_left_on_remote_list_become_holes, start_sparse, end),
		cmocka_unit_test_setup_teardown(holes_serve_again_and_again, start_sparse, end),
		cmocka_unit_test_setup_teardown(mosaics_of_dead_thread_are_adopted, start_sparse, end),
		cmocka_unit_test_setup_teardown(mosaics_of_many_dead_threads_are_adopted_by_small_heaps, start_sparse, end),
		cmocka_unit_test_setup_teardown(slabs_of_many_dead_threads_are_opened_by_small_heaps, start_sparse, end),
		cmocka_unit_test_setup_teardown(slabs_without_room_are_not_opened, start_sparse, end),
		cmocka_unit_test_setup_teardown(small_heap_and_large_classes_left_alone, start_sparse, end),
		cmocka_unit_test_setup_teardown(large_classes_begin_side_by_side, start_empty, end),
		cmocka_unit_test_setup_teardown(small_blocks_leave_empty_mosaic_alone_while_memory_is_dirty,
			start_empty, end),
		cmocka_unit_test_setup_teardown(class_in_demand_gets_slabs, start_empty, end),
		cmocka_unit_test_setup_teardown(large_classes_of_other_heaps_begin_with_slabs, start_empty,
			end),
		cmocka_unit_test_setup_teardown(begun_mosaic_of_dead_thread_is_adopted, start_empty, end),
	};

	return UNIT_RUN(tests);
}
