/* SPDX-License-Identifier: MIT */
#include "front/watch.h"

#include <string.h>

#include "base/settings.h"
#include "common.h"
#include "front/alloc.h"
#include "front/reuse.h"
#include "os/lock.h"

enum { DELAY_MS = 40 };

static _Atomic int stage;

/* As a thread's first allocation does. */
static struct heap *begin_heap(void)
{
	struct heap *h = heap_acquire(hak_tcache.bin, false);

	CHECK(h != NULL);
	hak_tcache.heap = h;
	tcache_count_frees(NULL, h->tag);
	heap_leave(h);
	return h;
}

static void end_heap(struct heap *h)
{
	tcache_count_frees(NULL, 0);
	hak_tcache.heap = NULL;
	heap_retire(h);
}

static void reach(int n)
{
	atomic_store(&stage, n);
}

static void wait_for(int n)
{
	while (atomic_load(&stage) < n)
		sleep_ms(1);
}

static bool is_called(void)
{
	return PAGEMAP_LOAD(&hak_tcache.tag) == TAG_MATCHES_NONE && hak_tcache.counted == NULL;
}

static int set_delay(void **state)
{
	hak_settings.purge_delay_ms = DELAY_MS;
	atomic_store(&hak_purge_bursts.last_ms, 0);
	return 0;
}

static int start_burst(void **state)
{
	set_delay(state);
	purge_note_burst();
	return 0;
}

/* One that is not over while the test runs. */
static int start_long_burst(void **state)
{
	start_burst(state);
	hak_settings.purge_delay_ms = WATCH_DELAY_MOST;
	return 0;
}

static void thread_watched_till_burst_is_over(void **state)
{
	struct heap *h = begin_heap();

	space_count_dirty(1);
	watch_look(h);
	space_count_dirty(-1);
	assert_true(h->is_watched);
	assert_non_null(hak_tcache.counted);
	sleep_ms(3 * DELAY_MS);
	watch_count(h, 0);
	assert_false(h->is_watched);
	assert_null(hak_tcache.counted);
	end_heap(h);
}

/* However late a thread begins, if it is the first that runs; also with a heap that saw the burst. */
static void burst_watched_if_anything_is_left(void **state)
{
	struct heap *h = begin_heap(), *seen = h;

	sleep_ms(3 * DELAY_MS);
	watch_look(h);
	assert_false(h->is_watched);
	assert_int_equal(hak_tcache.tag, h->tag);
	end_heap(h);
	h = begin_heap();
	assert_ptr_equal(h, seen);
	space_count_dirty(1);
	watch_look(h);
	assert_true(h->is_watched);
	space_count_dirty(-1);
	end_heap(h);
}

/* Nothing will be given back, so nobody has to look. */
static void thread_not_watched_where_nothing_is_given_back(void **state)
{
	struct heap *h = begin_heap();

	hak_settings.purge_delay_ms = -1;
	space_count_dirty(1);
	watch_again(h);
	watch_look(h);
	space_count_dirty(-1);
	assert_false(h->is_watched);
	assert_null(hak_tcache.counted);
	end_heap(h);
}

static struct large *make_large(struct heap *h)
{
	bool is_zero;
	struct large *l = large_alloc(&h->pocket, SC_MAX_SIZE + 1, 1, &is_zero);

	assert_non_null(l);
	return l;
}

/* Or a program of large blocks would be slow while it is watched, and for good where bursts are frequent. */
static void watched_thread_takes_short_way_with_large_blocks(void **state)
{
	enum { BLOCKS = 1000 };
	struct heap *h = begin_heap();
	unsigned looks = 0;

	space_count_dirty(1);
	watch_look(h);
	assert_true(h->is_watched);
	for (unsigned i = 0; i < BLOCKS; i++) {
		struct large *l = make_large(h);

		if (reuse_free(h, l, l->span.base))
			continue;
		looks++;
		watch_count(h, (uintptr_t)l->span.base);
		assert_true(h->is_watched);
		assert_true(reuse_free(h, l, l->span.base));
	}
	assert_in_range(looks, BLOCKS / 1000, BLOCKS / 2);
	space_count_dirty(-1);
	pocket_release(&h->pocket);
	end_heap(h);
}

/* Other looks must not keep it from asking whether the burst is over. */
static void thread_of_large_blocks_is_let_go_in_time(void **state)
{
	enum { BLOCKS = 3, LONG_MS = 20 * DELAY_MS, ROUNDS = 10000 }; /* or longer, if it does not run meanwhile */
	struct heap *h = begin_heap();
	struct large *l[BLOCKS];
	uint64_t start = os_now_ms();

	space_count_dirty(1);
	watch_look(h);
	assert_true(h->is_watched);
	for (unsigned i = 0; i < BLOCKS; i++)
		l[i] = make_large(h);
	for (unsigned n = 0; h->is_watched && (n < ROUNDS || os_now_ms() - start < LONG_MS); n++)
		for (unsigned i = 0; i < BLOCKS; i++) {
			void *block = l[i]->span.base;

			if (!reuse_free(h, l[i], block)) {
				watch_count(h, (uintptr_t)block);
				assert_true(large_free(&h->pocket, l[i]));
			}
			block = reuse_alloc(h, SC_MAX_SIZE + 1);
			l[i] = block != NULL ? large_of((uintptr_t)block) : make_large(h);
		}
	assert_false(h->is_watched);
	space_count_dirty(-1);
	for (unsigned i = 0; i < BLOCKS; i++)
		assert_true(large_free(NULL, l[i]));
	pocket_release(&h->pocket);
	end_heap(h);
}

/* Frees as free does, if it can on its short ways. */
static bool free_short_way(struct heap *h, void *block)
{
	struct pagemap_entry e = pagemap_lookup((uintptr_t)block);

	if (e.tag == TAG_LARGE)
		return reuse_free(h, e.desc, block);
	return tcache_free(block, tcache_code(block)) || free_short(h, e, block, NULL);
}

static void free_many(size_t size)
{
	enum { MOST = 1280 };
	static void *block[MOST];
	unsigned blocks = 40 * 1024 * 1024 / size, freed = 0; /* more than is kept */
	struct heap *h = begin_heap();

	assert_in_range(blocks, 1, MOST);
	watch_look(h);
	assert_false(h->is_watched);
	for (unsigned i = 0; i < blocks; i++) {
		block[i] = alloc_block(h, size, 1, false);
		assert_non_null(block[i]);
		memset(block[i], 1, size);
	}
	for (; !h->is_watched && freed < blocks; freed++) {
		if (!free_short_way(h, block[freed]))
			assert_true(free_block(h, block[freed])); /* the first few small ones are in mosaics */
		assert_false(watch_is_due(h));
	}
	assert_in_range(freed, 1, blocks - 1);
	while (freed < blocks)
		assert_true(free_block(h, block[freed++]));
	release_memory(h, 0); /* or the next burst is watched from the start */
	end_heap(h);
}

/* If a later call had to find out, there may be none. */
static void burst_is_seen_by_the_free_that_begins_it(void **state)
{
	free_many(SC_MAX_SIZE);
}

static void burst_of_pieces_is_seen_by_the_free_that_begins_it(void **state)
{
	free_many(SC_MAX_SIZE + 1);
}

static void burst_of_spans_is_seen_by_the_free_that_begins_it(void **state)
{
	free_many((size_t)LARGE_BIG_MIN);
}

/* The profiler counts frees by itself, or lets them be quick: when it ends the thread is watched as before. */
static void watch_goes_on_after_sampling(void **state)
{
	struct heap *h = begin_heap();

	space_count_dirty(1);
	watch_look(h);
	assert_true(h->is_watched);
	sampling_set(512 * HAK_KIB);
	sampling_look(h);
	watch_look(h);
	sampling_set(0);
	sampling_look(h);
	watch_look(h);
	assert_true(h->is_watched);
	space_count_dirty(-1);
	end_heap(h);
}

/* Blocks of mosaics, which take shorter ways than others that are no small ones, are counted with these. */
static void blocks_of_mosaics_are_counted(void **state)
{
	enum { MANY = 64 * 1024, KEPT = 16, FEW = 2000 };
	static void *block[MANY], *other[FEW];
	void *in_mosaic[2];
	unsigned found = 0, taken = 0;
	struct heap *h = begin_heap();

	for (unsigned i = 0; i < MANY; i++)
		assert_non_null(block[i] = alloc_block(h, 64, 1, false));
	for (unsigned i = 0; i < MANY; i++)
		if (i % KEPT != 0)
			assert_true(free_block(h, block[i]));
	for (; found < 2 && taken < FEW; taken++) {
		assert_non_null(other[taken] = alloc_block(h, 200, 1, false));
		if (tcache_code(other[taken]) == TAG_MOSAIC)
			in_mosaic[found++] = other[taken--];
	}
	assert_int_equal(found, 2);
	space_count_dirty(1);
	watch_look(h);
	assert_true(h->is_watched);
	h->watch->counted.left[COUNTED_REST] = 1;
	assert_true(tcache_free_in_mosaic(in_mosaic[0], tcache_code(in_mosaic[0])));
	assert_int_equal(h->watch->counted.left[COUNTED_REST], 0);
	assert_false(tcache_free_in_mosaic(in_mosaic[1], tcache_code(in_mosaic[1])));
	/* Where they are not, it is as ever. */
	heap_count_frees(h, NULL);
	assert_false(tcache_free_in_mosaic(in_mosaic[0], tcache_code(in_mosaic[0]))); /* freed twice */
	assert_true(tcache_free_in_mosaic(in_mosaic[1], tcache_code(in_mosaic[1])));
	space_count_dirty(-1);
	while (taken > 0)
		assert_true(free_block(h, other[--taken]));
	for (unsigned i = 0; i < MANY; i += KEPT)
		assert_true(free_block(h, block[i]));
	release_memory(h, 0);
	end_heap(h);
}

static void look_and_idle(unsigned index)
{
	struct heap *h = begin_heap();

	if (index == 0) {
		reach(1);
		wait_for(3);
		CHECK(is_called());
		heap_answer(h);
		CHECK(!is_called());
	} else {
		wait_for(2);
		watch_look(h);
		reach(3);
	}
	end_heap(h);
}

static void hold_registry(void)
{
	wait_for(1);
	sleep_ms(5);
	lock_acquire(heap_registry_lock());
	reach(2);
	sleep_ms(10);
	lock_release(heap_registry_lock());
}

static void look_idle_or_hold(unsigned index)
{
	if (index < 2)
		look_and_idle(index);
	else
		hold_registry();
}

/* Even if threads begin and end just then. */
static void others_called_by_though_registry_is_busy(void **state)
{
	run_threads(3, look_idle_or_hold);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(burst_is_seen_by_the_free_that_begins_it, set_delay),
		cmocka_unit_test_setup(burst_of_pieces_is_seen_by_the_free_that_begins_it, set_delay),
		cmocka_unit_test_setup(burst_of_spans_is_seen_by_the_free_that_begins_it, set_delay),
		cmocka_unit_test_setup(thread_watched_till_burst_is_over, start_burst),
		cmocka_unit_test_setup(burst_watched_if_anything_is_left, start_burst),
		cmocka_unit_test_setup(thread_not_watched_where_nothing_is_given_back, start_burst),
		cmocka_unit_test_setup(watched_thread_takes_short_way_with_large_blocks, start_long_burst),
		cmocka_unit_test_setup(thread_of_large_blocks_is_let_go_in_time, start_burst),
		cmocka_unit_test_setup(watch_goes_on_after_sampling, start_long_burst),
		cmocka_unit_test_setup(blocks_of_mosaics_are_counted, start_long_burst),
		cmocka_unit_test_setup(others_called_by_though_registry_is_busy, start_long_burst),
	};

	return UNIT_RUN(tests);
}
