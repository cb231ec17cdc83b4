/* SPDX-License-Identifier: MIT */
/* What heaps do while threads contend for the space lock: empty slabs stay, serve any class, and come and go several at
   a time. */
#include "front/spares.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/settings.h"
#include "common.h"
#include "fixture.h"
#include "front/heap_slabs.h"
#include "front/misuse.h"
#include "listen.h"
#include "observe/check.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/purge.h"

enum {
	SC = 32, PER_SLAB = 64, /* 1 KiB blocks */
	NEXT = 30,              /* another class */
	KEPT = 2,               /* slabs that a class keeps in any case: the one it turned to last, and another */
	SLABS = 8,
	MADE = 4,               /* slabs at once */
	ALL = 64,               /* granules that all spares together may have */
	MANY_THREADS = 1000,
	ABOUT = 2 * (GRANULE / TOUCHED_UNIT) - 1, /* as far is the sum of all off for a heap */
};

static struct bin bins[SC_COUNT], other_bins[SC_COUNT];
static struct heap *heap;
static uintptr_t blocks[SLABS * PER_SLAB];

static void set_contended(bool is)
{
	__atomic_store_n(&hak_space_contended, is, __ATOMIC_RELAXED);
}

static int start(void **state)
{
	purge_all(0);
	heap = heap_acquire(bins, false);
	heap->recalls = 32; /* which is another way to use what is there */
	heap->spares.most = 0;
	heap->keeps_empty = false;
	heap->kept_ms = 0; /* no look of an earlier test counts */
	set_contended(true);
	return heap != NULL && hak_space.live == 0 ? 0 : -1;
}

static void set_usual(void)
{
	hak_settings.empty_reuse = hak_settings.use_superslab = true;
	hak_settings.purge_delay_ms = 1000;
	hak_settings.secure = 0;
	hak_settings.limit = 0;
	hak_settings.background = false;
}

static int end(void **state)
{
	set_contended(false);
	set_usual();
	heap_retire(heap);
	heap_relieve_idle(UINT64_MAX);
	return hak_space.live == 0 && hak_space.spare == 0 ? 0 : -1;
}

static void take(unsigned slabs)
{
	for (unsigned i = 0; i < slabs * PER_SLAB; i++)
		blocks[i] = fixture_take(heap, SC);
}

static void give(unsigned slabs)
{
	for (unsigned i = 0; i < slabs * PER_SLAB; i++)
		fixture_send_home(heap, blocks[i]);
}

/* Else it may be looked, under the lock, whether anything is old. */
static void do_not_look(void)
{
	heap->looked = os_cycles();
}

/* So many slabs get empty that as many are not kept in any case. */
static void come_and_go(unsigned spares)
{
	set_contended(false);
	take(spares + KEPT);
	set_contended(true);
	give(spares + KEPT);
	do_not_look();
}

/* Granules become dirty. */
static void make_dirty(unsigned granules)
{
	struct span spans[2 * SPAN_BATCH];

	for (unsigned i = 0; i < granules; i++)
		assert_true(span_alloc(1, SPAN_DENSE, 0, &spans[i]));
	for (unsigned i = 0; i < granules; i++)
		span_free(&spans[i], GRANULE);
	assert_int_equal(hak_space.dirty, granules);
	do_not_look();
}

static void empty_slabs_stay(void **state)
{
	come_and_go(4);
	assert_int_equal(heap->slabs, 4 + KEPT);
	assert_int_equal(heap->spares.count, 4);
	assert_int_equal(heap->spares.units, 4 * (GRANULE / TOUCHED_UNIT));
	assert_int_equal(check_heap(), 0);
}

static void empty_slabs_go_while_nobody_waits(void **state)
{
	set_contended(false);
	take(SLABS);
	give(SLABS);
	assert_int_equal(heap->slabs, KEPT);
	assert_int_equal(heap->spares.count, 0);
}

static void spare_serves_another_class_without_the_lock(void **state)
{
	come_and_go(1);
	uintptr_t base = heap->spares.slab[0]->base;
	size_t locks = hak_space.locks;
	uintptr_t block = fixture_take(heap, NEXT);
	const struct slab *s = fixture_slab_of(block);
	assert_int_equal(s->base, base);
	assert_int_equal(s->sc, NEXT);
	assert_int_equal(fixture_owner(s), heap->tag);
	assert_false(s->fresh_is_zero);
	assert_int_equal(hak_space.locks, locks);
	assert_int_equal(heap->spares.count, 0);
	assert_int_equal(heap->slabs, 1 + KEPT);
	assert_int_equal(check_heap(), 0);
	/* All of it was in use before, and so is free to be carved at once. */
	assert_int_equal(touched_bytes(s->touched), GRANULE);
	fixture_send_home(heap, block);
}

static void spare_serves_its_own_class(void **state)
{
	come_and_go(2);
	size_t locks = hak_space.locks;
	take(2 + KEPT);
	assert_int_equal(heap->spares.count, 0);
	assert_int_equal(heap->spares.units, 0);
	assert_int_equal(hak_space.locks, locks);
	assert_int_equal(check_heap(), 0);
	give(2 + KEPT);
	assert_int_equal(heap->spares.count, 2);
}

static void spare_weighs_what_it_touched(void **state)
{
	set_contended(false); /* one slab at a time */
	uintptr_t block = fixture_take(heap, NEXT); /* and the rest of a page, in the bin */

	take(1);
	set_contended(true);
	give(1);
	fixture_send_home(heap, block);
	heap_retire(heap);
	heap = heap_acquire(bins, false);
	assert_int_equal(heap->spares.count, 2);
	assert_int_equal(heap->spares.units, 1 + GRANULE / TOUCHED_UNIT);
	assert_int_equal(hak_space.spare, heap->spares.units);
	assert_int_equal(heap->spares.slab[0]->sc, NEXT);
	spares_forget(&heap->spares, heap->spares.slab[0]);
	assert_int_equal(heap->spares.units, GRANULE / TOUCHED_UNIT);
	spares_forget(&heap->spares, heap->spares.slab[0]);
	assert_int_equal(heap->spares.units, 0);
}

/* Who frees a block again that a spare has forgotten is told so. */
static void block_of_a_spare_freed_again_is_named(void **state)
{
	come_and_go(1);
	const struct slab *s = heap->spares.slab[0];
	uintptr_t block = s->base + 2 * s->block_size;
	assert_int_equal(s->carved, 0);
	assert_int_equal(s->used, 0);
	assert_false(slab_has_block(s, block));
	listen_begin();
	assert_false(misuse_suspect(OP_FREE, s, block));
	assert_said("double free of %p (1024-byte block)", (void *)block);
	listen_begin();
	assert_false(misuse_suspect(OP_FREE, s, block + 16));
	assert_said("free of invalid pointer %p", (void *)(block + 16));
}

static void several_are_made_while_much_is_dirty(void **state)
{
	make_dirty(2 * SPAN_BATCH);
	size_t locks = hak_space.locks, live = hak_space.live;
	uintptr_t block = fixture_take(heap, SC);
	assert_int_equal(hak_space.locks, locks + 1);
	assert_int_equal(hak_space.live, live + MADE);
	assert_int_equal(heap->slabs, MADE);
	assert_int_equal(heap->spares.count, MADE - 1);
	uintptr_t other = fixture_take(heap, NEXT);
	assert_int_equal(hak_space.locks, locks + 1);
	assert_int_equal(heap->spares.count, MADE - 2);
	assert_int_equal(check_heap(), 0);
	fixture_send_home(heap, block);
	fixture_send_home(heap, other);
}

/* What nobody has touched costs nothing. */
static void several_are_made_while_none_is_dirty(void **state)
{
	uintptr_t block = fixture_take(heap, SC);
	assert_int_equal(heap->slabs, MADE);
	assert_int_equal(heap->spares.count, MADE - 1);
	assert_int_equal(heap->spares.units, 0);
	fixture_send_home(heap, block);
}

static void one_is_made_while_few_are_dirty(void **state)
{
	make_dirty(SPAN_BATCH);
	uintptr_t block = fixture_take(heap, SC);
	assert_int_equal(heap->slabs, 1);
	fixture_send_home(heap, block);
}

/* Of 24 KiB there are two in a slab. */
static void classes_that_leave_pages_unused_take_no_part(void **state)
{
	const unsigned large = sc_of(24 * 1024);
	uintptr_t block[2 * (KEPT + 2)];

	assert_false(slab_is_whole(large));
	make_dirty(2 * SPAN_BATCH);
	block[0] = fixture_take(heap, large);
	assert_int_equal(heap->slabs, 1);
	fixture_send_home(heap, block[0]);
	heap_flush(heap);
	come_and_go(1);
	size_t live = hak_space.live;
	for (unsigned i = 0; i < 2 * (KEPT + 2); i++)
		block[i] = fixture_take(heap, large);
	assert_int_equal(heap->spares.count, 1);
	assert_int_equal(hak_space.live, live + KEPT + 2);
	for (unsigned i = 0; i < 2 * (KEPT + 2); i++)
		fixture_send_home(heap, block[i]);
	assert_int_equal(heap->spares.count, 1);
	assert_int_equal(hak_space.live, live + KEPT);
	assert_int_equal(check_heap(), 0);
}

/* More than a heap may have: the older half goes, under the lock once. */
static void spares_have_a_limit(void **state)
{
	const unsigned most = 4;

	hak_space.threads += ALL / most - 1;
	come_and_go(most);
	assert_int_equal(heap->spares.count, most);
	size_t locks = hak_space.locks;
	const struct slab *newest = heap->spares.slab[most - 1];
	heap_flush(heap);
	assert_int_equal(hak_space.locks, locks + 1);
	come_and_go(most + 1);
	assert_int_equal(heap->spares.count, most / 2 + 1);
	assert_int_equal(heap->slabs, most / 2 + 1 + KEPT);
	assert_non_null(newest);
	assert_int_equal(check_heap(), 0);
	hak_space.threads -= ALL / most - 1;
}

/* Sleeping threads may have kept what all may. */
static void spares_of_others_leave_no_room(void **state)
{
	hak_space.spare += ALL * (GRANULE / TOUCHED_UNIT);
	come_and_go(4);
	assert_in_range(heap->spares.count, 0, 1); /* a part of what lives */
	hak_space.spare -= ALL * (GRANULE / TOUCHED_UNIT);
}

static void many_threads_have_none(void **state)
{
	hak_space.threads += MANY_THREADS;
	make_dirty(2 * SPAN_BATCH);
	come_and_go(4);
	assert_int_equal(heap->spares.count, 0);
	assert_int_equal(heap->slabs, KEPT);
	uintptr_t block = fixture_take(heap, NEXT);
	assert_int_equal(heap->slabs, KEPT + 1);
	fixture_send_home(heap, block);
	hak_space.threads -= MANY_THREADS;
}

static void settings_forbid_spares(void **state)
{
	for (unsigned i = 0; i < 6; i++) {
		hak_settings.limit = i == 5 ? SIZE_MAX : 0;
		hak_settings.empty_reuse = i != 0;
		hak_settings.purge_delay_ms = i == 1 ? 0 : 1000;
		hak_settings.background = i == 2;
		hak_settings.use_superslab = i != 3;
		hak_settings.secure = i == 4;
		come_and_go(2);
		assert_int_equal(heap->spares.count, 0);
		set_usual();
		heap_flush(heap);
	}
}

/* Its threads are many, and its slabs go all at once. */
static void locked_heap_has_none(void **state)
{
	struct heap *thread_heap = heap;
	heap = heap_acquire(other_bins, true);
	come_and_go(2);
	assert_int_equal(heap->spares.count, 0);
	heap_destroy_slabs(heap);
	heap = thread_heap;
}

static void what_is_spare_counts_as_free(void **state)
{
	come_and_go(4);
	assert_true(heap->spares.count > 1);
	assert_int_equal(heap->spares.units, heap->spares.count * (GRANULE / TOUCHED_UNIT));
	assert_in_range(hak_space.spare + ABOUT, heap->spares.units, heap->spares.units + ABOUT);
	heap_flush(heap);
	assert_int_equal(heap->spares.count, 0);
	assert_int_equal(heap->slabs, 0);
	assert_int_equal(hak_space.spare, 0);
}

static void spares_go_with_age(void **state)
{
	hak_settings.purge_delay_ms = 20;
	come_and_go(4);
	heap->looked = 0;
	heap_tick(heap);
	assert_int_equal(heap->slabs, 4 + KEPT);
	sleep_ms(30);
	heap->looked = 0;
	heap_tick(heap);
	assert_int_equal(heap->slabs, 0);
	assert_int_equal(heap->spares.count, 0);
}

/* The thread ends, and the next has what it left. */
static void next_thread_has_the_spares(void **state)
{
	struct heap *before = heap;
	take(SLABS);
	give(SLABS);
	heap_retire(heap);
	assert_int_equal(hak_space.live, SLABS);
	assert_int_equal(check_heap(), 0);
	heap = heap_acquire(bins, false);
	assert_ptr_equal(heap, before);
	assert_int_equal(heap->spares.count, SLABS);
	for (unsigned i = 0; i < SLABS; i++)
		assert_true(list_is_linked(&heap->spares.slab[i]->ready));
	do_not_look();
	size_t locks = hak_space.locks;
	take(SLABS);
	assert_int_equal(hak_space.locks, locks);
	assert_int_equal(heap->spares.count, 0);
	assert_int_equal(check_heap(), 0);
	give(SLABS);
}

static void live_blocks_do_not_stay(void **state)
{
	set_contended(false); /* one slab at a time */
	take(2);
	set_contended(true);
	uintptr_t block = blocks[0];
	for (unsigned i = 1; i < 2 * PER_SLAB; i++)
		fixture_send_home(heap, blocks[i]);
	struct slab *s = fixture_slab_of(block);
	heap_retire(heap);
	assert_null(atomic_load(&s->owner));
	assert_int_equal(check_heap(), 0);
	heap = heap_acquire(other_bins, false);
	assert_int_equal(heap->spares.count, 1);
	remote_post_list(s, block, block, 1); /* which was the last: the slab is deleted */
	heap_flush(heap);
	assert_int_equal(hak_space.live, 0);
}

/* The first heap cuts the first large blocks from one. */
static void mosaics_do_not_stay(void **state)
{
	bool was_first = heap->is_first;

	heap->is_first = true;
	set_contended(false); /* one slab at a time */
	uintptr_t block = fixture_take(heap, sc_of(4096));
	set_contended(true);
	heap->is_first = was_first;
	assert_non_null(slab_mosaic(fixture_slab_of(block)));
	fixture_send_home(heap, block);
	assert_int_equal(heap->slabs, 1);
	heap_retire(heap);
	assert_int_equal(hak_space.live, 0);
	heap = heap_acquire(bins, false);
}

static void nothing_stays_where_nobody_waits(void **state)
{
	come_and_go(4);
	set_contended(false);
	heap_retire(heap);
	assert_int_equal(hak_space.live, 0);
	assert_int_equal(hak_space.spare, 0);
	heap = heap_acquire(bins, false);
}

static void what_threads_left_has_a_limit(void **state)
{
	struct heap *heaps[32];
	struct bin (*all)[SC_COUNT] = test_calloc(32, sizeof(*all));

	for (unsigned i = 0; i < 32; i++) {
		heaps[i] = heap_acquire(all[i], false);
		for (unsigned k = 0; k < SLABS * PER_SLAB; k++)
			blocks[k] = fixture_take(heaps[i], SC);
		for (unsigned k = 0; k < SLABS * PER_SLAB; k++)
			fixture_send_home(heaps[i], blocks[k]);
	}
	for (unsigned i = 0; i < 32; i++)
		heap_retire(heaps[i]);
	assert_in_range(hak_space.live, ALL / 2, ALL + ALL / 4); /* of 256 */
	heap_relieve_idle(UINT64_MAX);
	assert_int_equal(hak_space.live, 0);
	assert_int_equal(check_heap(), 0);
	test_free(all);
}

/* By a thread that comes by. */
static void spares_without_a_thread_go_with_age(void **state)
{
	struct heap *other = heap_acquire(other_bins, false);

	hak_settings.purge_delay_ms = 400;
	sleep_ms(450); /* since it was last looked */
	come_and_go(4);
	heap_retire(heap);
	size_t live = hak_space.live;
	assert_true(live > 0);
	other->looked = 0;
	heap_tick(other);
	assert_int_equal(hak_space.live, live);
	sleep_ms(450);
	other->looked = 0;
	heap_tick(other);
	assert_int_equal(hak_space.live, 0);
	assert_int_equal(check_heap(), 0);
	heap_retire(other);
	heap = heap_acquire(bins, false);
}

/* Amid the giving back of what a heap without a thread has. */
static void fork_child_does_without_a_broken_idle_heap(void **state)
{
	int status = -1;
	come_and_go(4);
	heap_retire(heap);
	pid_t child = fork();
	if (child == 0) {
		struct heap *h = heap_acquire(bins, false);
		h->bins = NULL;
		list_remove(&h->spares.slab[0]->all); /* half of it is done */
		heap_repair_after_fork(NULL);
		_exit(check_heap() != 0 || h->slabs != 0 || h->spares.count != 0 || hak_space.spare != 0);
	}
	assert_true(child > 0 && waitpid(child, &status, 0) == child);
	assert_int_equal(status, 0);
	heap = heap_acquire(bins, false);
}

/* But those that were on their way from the list or to it, which are busy. */
static void registry_made_again_has_idle_heaps(void **state)
{
	struct bin (*all)[SC_COUNT] = test_calloc(64, sizeof(*all));
	struct heap *heaps[64], *first = heap, *second = heap_acquire(other_bins, false), *newest = heap_registry();
	unsigned n = 0;
	bool has_first = false, has_second = false;

	come_and_go(4);
	heap_retire(heap);
	heap_retire(second);
	heap_enter(second);
	heap_registry_reset();
	for (; n < 64 && heap_registry() == newest; n++) {
		heaps[n] = heap_acquire(all[n], false);
		has_first |= heaps[n] == first && first->spares.count > 1;
		has_second |= heaps[n] == second;
	}
	assert_true(has_first);
	assert_false(has_second);
	heap_leave(second);
	while (n > 0)
		heap_retire(heaps[--n]);
	heap_registry_reset();
	heap = heap_acquire(bins, false);
	test_free(all);
}

static void those_who_wait_are_counted(void **state)
{
	set_contended(false);
	fixture_contend();
	assert_true(space_is_contended());
	for (int i = 0; i < 2000; i++) {
		space_acquire();
		lock_release(space_lock());
	}
	assert_false(space_is_contended());
}

static void spans_of_several_superslabs_go_back_together(void **state)
{
	struct span spans[2 * SPAN_BATCH];
	size_t touched[2 * SPAN_BATCH];
	unsigned n = 0;

	/* In turn from the ends of two SuperSlabs. */
	struct span a, b;
	assert_true(span_alloc(SUPERSLAB_GRANULES - SPAN_BATCH / 2, SPAN_DENSE, 0, &a));
	while (n < SPAN_BATCH / 2)
		assert_true(span_alloc(1, SPAN_DENSE, 0, &spans[n++]));
	assert_true(span_alloc(SUPERSLAB_GRANULES - SPAN_BATCH / 2, SPAN_DENSE, 0, &b));
	while (n < SPAN_BATCH)
		assert_true(span_alloc(1, SPAN_DENSE, 0, &spans[n++]));
	for (unsigned i = 0; i < n; i++)
		touched[i] = i % 2 == 0 ? GRANULE : 0;
	size_t live = hak_space.live, locks = hak_space.locks;
	span_free_several(spans, touched, n);
	assert_int_equal(hak_space.locks, locks + 1);
	assert_int_equal(hak_space.live, live - SPAN_BATCH);
	assert_int_equal(hak_space.dirty, SPAN_BATCH / 2);
	assert_null(superslab_check());
	span_free(&a, 0);
	span_free(&b, 0);
}

static void more_slabs_than_a_batch_are_deleted(void **state)
{
	struct slab *list = NULL;

	for (unsigned i = 0; i < 2 * SPAN_BATCH + 3; i++) {
		hak_settings.use_superslab = i != 5; /* one is mapped alone */
		struct slab *s = slab_new(SC, false);
		assert_non_null(s);
		s->inbox_next = list;
		list = s;
	}
	size_t locks = hak_space.locks;
	slab_delete_all(list);
	assert_in_range(hak_space.locks, locks + 3, locks + 4);
	assert_int_equal(hak_space.live, 0);
	assert_int_equal(hak_space.alone, 0);
	slab_delete_all(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(empty_slabs_stay, start, end),
		cmocka_unit_test_setup_teardown(empty_slabs_go_while_nobody_waits, start, end),
		cmocka_unit_test_setup_teardown(spare_serves_another_class_without_the_lock, start, end),
		cmocka_unit_test_setup_teardown(spare_serves_its_own_class, start, end),
		cmocka_unit_test_setup_teardown(spare_weighs_what_it_touched, start, end),
		cmocka_unit_test_setup_teardown(block_of_a_spare_freed_again_is_named, start, end),
		cmocka_unit_test_setup_teardown(several_are_made_while_much_is_dirty, start, end),
		cmocka_unit_test_setup_teardown(several_are_made_while_none_is_dirty, start, end),
		cmocka_unit_test_setup_teardown(one_is_made_while_few_are_dirty, start, end),
		cmocka_unit_test_setup_teardown(classes_that_leave_pages_unused_take_no_part, start, end),
		cmocka_unit_test_setup_teardown(spares_have_a_limit, start, end),
		cmocka_unit_test_setup_teardown(spares_of_others_leave_no_room, start, end),
		cmocka_unit_test_setup_teardown(many_threads_have_none, start, end),
		cmocka_unit_test_setup_teardown(settings_forbid_spares, start, end),
		cmocka_unit_test_setup_teardown(locked_heap_has_none, start, end),
		cmocka_unit_test_setup_teardown(what_is_spare_counts_as_free, start, end),
		cmocka_unit_test_setup_teardown(spares_go_with_age, start, end),
		cmocka_unit_test_setup_teardown(next_thread_has_the_spares, start, end),
		cmocka_unit_test_setup_teardown(live_blocks_do_not_stay, start, end),
		cmocka_unit_test_setup_teardown(mosaics_do_not_stay, start, end),
		cmocka_unit_test_setup_teardown(nothing_stays_where_nobody_waits, start, end),
		cmocka_unit_test_setup_teardown(what_threads_left_has_a_limit, start, end),
		cmocka_unit_test_setup_teardown(spares_without_a_thread_go_with_age, start, end),
		cmocka_unit_test_setup_teardown(fork_child_does_without_a_broken_idle_heap, start, end),
		cmocka_unit_test_setup_teardown(registry_made_again_has_idle_heaps, start, end),
		cmocka_unit_test_setup_teardown(those_who_wait_are_counted, start, end),
		cmocka_unit_test_setup_teardown(spans_of_several_superslabs_go_back_together, start, end),
		cmocka_unit_test_setup_teardown(more_slabs_than_a_batch_are_deleted, start, end),
	};

	return UNIT_RUN(tests);
}
