/* SPDX-License-Identifier: MIT */
/* The rules of purging. Granules are called touched without being so: only the counting matters. */
#include "space/purge.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/settings.h"
#include "common.h"
#include "front/background.h"
#include "front/bigcache.h"
#include "front/large.h"
#include "os/alone.h"
#include "os/os.h"
#include "space/pagemap.h"

enum {
	MANY = 512, /* spans of 4 granules: 128 MiB */
	SPAN = 4,
	FLOOR = PURGE_FLOOR / GRANULE,
	HEAP = PURGE_HEAP / GRANULE,
};

static struct span spans[MANY];
static size_t block_size; /* of what is said to be in them; 0: is not said */

static int start_empty(void **state)
{
	hak_settings.purge_delay_ms = 60000;
	purge_all(0);
	return hak_space.superslabs == 0 ? 0 : -1;
}

static void take(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		assert_true(span_alloc(SPAN, SPAN_DENSE, block_size, &spans[i]));
}

static void give_back(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		spans[i].last_size = block_size;
		span_free(&spans[i], SPAN * GRANULE);
	}
}

/* First in the program: the clock has never been looked at. */
static void trim_with_allowance_keeps_it(void **state)
{
	take(0, 40);
	give_back(0, 40);
	assert_int_equal(hak_space.dirty, 40 * SPAN);
	assert_true(purge_all(4 * HAK_MIB));
	assert_in_range(hak_space.dirty, 4 * HAK_MIB / GRANULE - SUPERSLAB_GRANULES,
		4 * HAK_MIB / GRANULE);
	assert_true(purge_pending());
}

static void trim_all_gives_everything_back(void **state)
{
	size_t mapped = os_mapped();

	take(0, 100);
	assert_false(purge_all(0));
	give_back(0, 100);
	assert_true(purge_pending());
	assert_true(purge_all(0));
	assert_false(purge_pending());
	assert_int_equal(hak_space.superslabs, 0);
	assert_true(os_mapped() <= mapped); /* nor is anything left that was mapped for more */
	assert_false(purge_all(0));
}

static void small_heap_is_never_purged(void **state)
{
	size_t purges = hak_space.purges;

	hak_settings.purge_delay_ms = 0;
	take(0, HEAP / SPAN);
	assert_int_equal(hak_space.superslabs * SUPERSLAB, PURGE_HEAP);
	give_back(0, HEAP / SPAN);
	purge_tick();
	sleep_ms(20);
	purge_tick();
	assert_int_equal(hak_space.purges, purges);
	assert_int_equal(hak_space.dirty, HEAP);
}

static void delay_minus_one_never_purges(void **state)
{
	size_t purges = hak_space.purges;

	hak_settings.purge_delay_ms = -1;
	take(0, MANY);
	give_back(0, MANY);
	purge_tick();
	assert_int_equal(hak_space.purges, purges);
	assert_int_equal(hak_space.dirty, MANY * SPAN);
}

static void old_dirty_memory_is_purged(void **state)
{
	purge_tick();
	take(0, 100);
	give_back(0, 20);
	purge_tick();
	assert_int_equal(hak_space.dirty, 20 * SPAN);
	hak_settings.purge_delay_ms = 30;
	sleep_ms(60);
	purge_tick();
	assert_int_equal(hak_space.dirty, 0);
	hak_settings.purge_delay_ms = 60000;
	give_back(20, 100);
}

/* One call of malloc may be what looks at the clock: it must not take long. */
static void much_old_memory_is_purged_in_portions(void **state)
{
	enum { ALL = 500, FREED = 100, PORTION = 64 };
	static struct span whole[ALL];

	purge_tick();
	for (unsigned i = 0; i < ALL; i++)
		assert_true(span_alloc(SUPERSLAB_GRANULES, SPAN_DENSE, 0, &whole[i]));
	for (unsigned i = 0; i < FREED; i++)
		span_free(&whole[i], SUPERSLAB);
	assert_int_equal(hak_space.dirty, FREED * SUPERSLAB_GRANULES);
	hak_settings.purge_delay_ms = 30;
	sleep_ms(60);
	purge_tick();
	assert_int_equal(hak_space.dirty, (FREED - PORTION) * SUPERSLAB_GRANULES);
	purge_tick();
	assert_int_equal(hak_space.dirty, 0);
	for (unsigned i = FREED; i < ALL; i++)
		span_free(&whole[i], 0);
}

/* What regret the cases above caused has gone by then: a second may pass before it is seen that the program breathes no
   longer, and each one after that takes one of three doublings away. */
static void forget_regret(void)
{
	for (int i = 0; i < 4; i++) {
		sleep_ms(1100);
		purge_tick();
	}
}

static void much_dirty_memory_is_purged_at_once(void **state)
{
	forget_regret();
	size_t purged = hak_space.purged;

	take(0, MANY);
	for (unsigned i = 0; i < MANY; i++) {
		size_t allowed = max_size(FLOOR, hak_space.live / 4);
		give_back(i, i + 1);
		assert_true(hak_space.dirty <= allowed);
	}
	assert_true(hak_space.dirty > FLOOR / 2);
	assert_true(hak_space.purged > purged);
}

/* What heaps keep for themselves, but no more of it than half the floor: it is not to be had here. */
static void spare_slabs_leave_less_room(void **state)
{
	take(0, MANY);
	hak_space.spare = 2 * FLOOR * (GRANULE / TOUCHED_UNIT);
	for (unsigned i = 0; i < MANY; i++) {
		size_t allowed = max_size(FLOOR, (hak_space.live - FLOOR / 2) / 4);
		give_back(i, i + 1);
		assert_true(hak_space.dirty + FLOOR / 2 <= allowed);
	}
	assert_true(hak_space.dirty > FLOOR / 4);
	hak_space.spare = 0;
}

/* Not by mlock: AddressSanitizer makes that do nothing. */
static bool lock_page_of(unsigned i, bool locked)
{
	return syscall(locked ? SYS_mlock : SYS_munlock, spans[i].base, 1) == 0;
}

/* Locked pages, here one in each of two SuperSlabs. The rest goes all the same, and what was refused is no reason to
   purge more than usual. */
static void what_the_system_refuses_is_passed_over(void **state)
{
	enum { FIRST = 0, SECOND = 20, LOCKED = 2 };

	forget_regret();
	take(0, MANY);
	if (!lock_page_of(FIRST, true) || !lock_page_of(SECOND, true)) {
		lock_page_of(FIRST, false);
		give_back(0, MANY);
		skip();
	}
	give_back(0, MANY);
	assert_true(hak_space.dirty <= FLOOR + LOCKED);
	assert_true(hak_space.dirty > FLOOR / 2);
	assert_true(purge_all(GRANULE)); /* to keep nothing would unmap the SuperSlabs */
	assert_int_equal(hak_space.dirty, LOCKED);
	lock_page_of(FIRST, false);
	lock_page_of(SECOND, false);
	assert_true(purge_all(0));
	assert_int_equal(hak_space.dirty, 0);
}

static void dirty_memory_may_follow_live(void **state)
{
	size_t purged = hak_space.purged;

	take(0, MANY);
	/* 28 MiB of 128: more than the floor, but no more than a quarter of what stays. */
	give_back(0, 100);
	assert_int_equal(hak_space.dirty, 100 * SPAN);
	assert_int_equal(hak_space.purged, purged);
	give_back(100, MANY);
}

static void purged_memory_reads_zero(void **state)
{
	struct span keep, span;

	assert_true(span_alloc(1, SPAN_DENSE, 0, &keep) && span_alloc(8, SPAN_DENSE, 0, &span));
	memset(span.base, 0xa5, 8 * GRANULE);
	span_free(&span, 8 * GRANULE);
	purge_all(0);
	assert_true(span_alloc(8, SPAN_DENSE, 0, &span));
	assert_true(span.zero);
	assert_true(bytes_are(span.base, 8 * GRANULE, 0));
	span_free(&span, 0);
	span_free(&keep, 0);
}

static void reuse_of_purged_memory_is_regretted(void **state)
{
	enum { ALL = PURGE_CEILING / GRANULE / SPAN, STAY = ALL * 3 / 8 };
	size_t regrets = hak_space.regrets, purged;

	forget_regret();
	take(0, ALL);
	give_back(STAY, ALL);
	assert_true(hak_space.dirty <= FLOOR);
	take(STAY, ALL);
	assert_true(hak_space.regrets > regrets);
	purged = hak_space.purged;
	give_back(STAY, ALL);
	assert_int_equal(hak_space.purged, purged);
	assert_int_equal(hak_space.dirty, (ALL - STAY) * SPAN);
	/* But there is a ceiling. */
	take(STAY, MANY);
	give_back(STAY, MANY);
	assert_true(hak_space.dirty + hak_space.live <= PURGE_CEILING / GRANULE);
	give_back(0, STAY);
}

/* Blocks of one size again and again: all is kept, beyond the ceiling, until it is no longer used. Of another size each
   time, which leaves other pages unused, and while others stay: the ceiling holds. */
static void what_is_used_again_and_again_is_kept(void **state)
{
	enum { STAY = MANY / 3 };
	size_t purged;

	forget_regret();
	take(0, STAY);
	for (block_size = 1024; block_size < 8 * 1024; block_size += 1024) {
		take(STAY, MANY);
		give_back(STAY, MANY);
		assert_true(hak_space.dirty + hak_space.live <= PURGE_CEILING / GRANULE);
	}
	take(STAY, MANY);
	give_back(STAY, MANY);
	take(STAY, MANY);
	purged = hak_space.purged;
	uint64_t last_burst = hak_purge_bursts.last_ms;
	sleep_ms(10);
	give_back(STAY, MANY);
	assert_int_equal(hak_space.purged, purged);
	assert_int_equal(hak_space.dirty, (MANY - STAY) * SPAN);
	assert_true(hak_purge_bursts.last_ms > last_burst);
	/* In the first of these seconds it was used, in the second not. */
	for (int i = 0; i < 2; i++) {
		purge_excess();
		sleep_ms(1100);
		purge_tick();
		assert_int_equal(hak_space.dirty, (MANY - STAY) * SPAN);
	}
	purge_excess();
	assert_true(hak_space.dirty < PURGE_CEILING / GRANULE);
	give_back(0, STAY);
	block_size = 0;
}

/* A program in stages: all is freed before blocks of the next size come. */
static void what_serves_the_next_stage_is_kept(void **state)
{
	forget_regret();
	take(0, MANY);
	block_size = 1024;
	give_back(0, MANY);
	assert_true(hak_space.dirty <= FLOOR); /* nothing speaks for a next stage yet */
	for (block_size = 2048; block_size < 8 * 1024; block_size += 1024) {
		size_t purged;

		take(0, MANY);
		purged = hak_space.purged;
		give_back(0, MANY);
		assert_int_equal(hak_space.purged, purged);
		assert_int_equal(hak_space.dirty, MANY * SPAN);
	}
	block_size = 0;
}

/* What the program used at most is all it has, free memory included, but for what is kept in any case. */
static void assert_no_more_than_before(void)
{
	size_t live = hak_space.live + space_big();

	assert_true(live + hak_space.dirty <= MANY * SPAN || hak_space.dirty <= live / 4);
}

static void breathe(void)
{
	forget_regret();
	for (int i = 0; i < 2; i++) {
		take(0, MANY);
		give_back(0, MANY);
	}
	assert_int_equal(hak_space.dirty, MANY * SPAN);
}

static void drop_large(struct large *l)
{
	large_count_big(-(ptrdiff_t)l->span.granules);
	large_give_up(l);
}

/* Large blocks with mappings of their own cannot use what is free. */
static void what_does_not_serve_large_blocks_is_not_kept_beside_them(void **state)
{
	enum { BIG = 16, BIGS = MANY * SPAN / BIG };
	static struct large *big[BIGS];

	breathe();
	for (unsigned i = 0; i < BIGS; i++) {
		big[i] = large_map(BIG * GRANULE, BIG, GRANULE, 0);
		assert_non_null(big[i]);
		assert_no_more_than_before();
	}
	for (unsigned i = 0; i < BIGS; i++)
		drop_large(big[i]);
}

static void grow(struct large *l, size_t most, bool (*how)(struct large *l, size_t size))
{
	for (size_t size = 2 * GRANULE; size <= most; size *= 2) {
		assert_true(how(l, size));
		assert_no_more_than_before();
	}
}

static bool move(struct large *l, size_t size)
{
	return large_move(l, size, false);
}

static bool resize(struct large *l, size_t size)
{
	return large_resize(l, size, true);
}

/* By moving, and where it is. */
static void what_does_not_serve_a_block_that_grows_is_not_kept_beside_it(void **state)
{
	enum { MOST = (MANY * SPAN / 2) * GRANULE };
	struct large *l;

	breathe();
	l = large_map(GRANULE, 1, GRANULE, 0);
	assert_non_null(l);
	grow(l, MOST, move);
	assert_true(large_resize(l, GRANULE, true));
	take(1, MANY);
	give_back(1, MANY);
	assert_true(hak_space.dirty >= MANY * SPAN - SUPERSLAB_GRANULES);
	grow(l, MOST, resize);
	drop_large(l);
}

/* A granule of each of some SuperSlabs is in use, and the others are clean. */
static void what_does_not_serve_spans_that_grow_is_not_kept_beside_them(void **state)
{
	enum { SOME = 64, REST = SUPERSLAB_GRANULES - 1, WHOLE = (MANY * SPAN - SOME) / SUPERSLAB_GRANULES };
	static struct span grows[SOME], rests[SOME];
	bool zero;

	forget_regret();
	for (unsigned i = 0; i < SOME; i++) {
		assert_true(span_alloc(1, SPAN_DENSE, 0, &grows[i]));
		assert_true(span_alloc(REST, SPAN_DENSE, 0, &rests[i]));
	}
	for (unsigned i = 0; i < SOME; i++)
		span_free(&rests[i], REST * GRANULE);
	purge_all(GRANULE);
	for (int round = 0; round < 2; round++) {
		for (unsigned i = 0; i < WHOLE; i++)
			assert_true(span_alloc(SUPERSLAB_GRANULES, SPAN_DENSE, 0, &spans[i]));
		for (unsigned i = 0; i < WHOLE; i++)
			span_free(&spans[i], SUPERSLAB);
	}
	assert_true(purge_breathes());
	assert_true(hak_space.dirty >= WHOLE * SUPERSLAB_GRANULES);
	for (unsigned i = 0; i < SOME; i++) {
		assert_true(span_extend(&grows[i], SUPERSLAB_GRANULES, &zero));
		assert_no_more_than_before();
	}
	for (unsigned i = 0; i < SOME; i++)
		span_free(&grows[i], SUPERSLAB);
}

/* Nor do longer spans fit into what short ones left between others. That a second passes meanwhile, and what is kept is
   reviewed, does not make it more. */
static void what_does_not_serve_longer_spans_is_not_kept_beside_them(void **state)
{
	enum { LONG = 2 * SPAN, LONGS = MANY / 4 };
	static struct span longs[LONGS];

	breathe();
	take(0, MANY);
	for (unsigned i = 1; i < MANY; i += 2)
		give_back(i, i + 1);
	for (unsigned i = 0; i < LONGS; i++) {
		assert_true(span_alloc(LONG, SPAN_DENSE, 0, &longs[i]));
		assert_no_more_than_before();
		if (i == LONGS - LONGS / 4) {
			sleep_ms(1100);
			purge_tick();
		}
	}
	for (unsigned i = 0; i < MANY; i += 2) {
		give_back(i, i + 1);
		assert_no_more_than_before();
	}
	for (unsigned i = 0; i < LONGS; i++)
		span_free(&longs[i], LONG * GRANULE);
}

static void what_serves_the_next_stage_is_kept_up_to_a_limit(void **state)
{
	enum { ALL = 3 * PURGE_BREATH / SUPERSLAB / 2 };

	_Static_assert((size_t)ALL <= (size_t)MANY, "spans");
	forget_regret();
	for (int i = 0; i < 3; i++) {
		for (unsigned k = 0; k < ALL; k++)
			assert_true(span_alloc(SUPERSLAB_GRANULES, SPAN_DENSE, 0, &spans[k]));
		for (unsigned k = 0; k < ALL; k++) {
			span_free(&spans[k], SUPERSLAB);
			assert_true(hak_space.dirty <= PURGE_BREATH / GRANULE);
		}
	}
	assert_true(hak_space.dirty > PURGE_BREATH / GRANULE / 2);
}

static void use_all(void)
{
	take(0, MANY);
	for (unsigned i = 0; i < MANY; i++)
		memset(spans[i].base, 0xa5, SPAN * GRANULE);
	give_back(0, MANY);
}

/* Where a program breathes, what is a little too much does not cost it an eighth of all. */
static void little_excess_costs_little_of_what_serves_again(void **state)
{
	enum { EXCESS = HAK_MIB / GRANULE };
	size_t kept;
	struct large *large;
	bool zero;

	forget_regret();
	use_all();
	use_all();
	assert_true(purge_breathes());
	kept = hak_space.dirty;
	assert_in_range(kept, MANY * SPAN * 7 / 8, MANY * SPAN);
	large = large_alloc(NULL, HAK_MIB, 16, &zero);
	assert_non_null(large);
	assert_in_range(hak_space.dirty, kept - EXCESS - 2 * SUPERSLAB_GRANULES, kept - 1);
	large_free(NULL, large);
}

static bool end_is_zero(const struct span *span, size_t bytes)
{
	return bytes_are((char *)span->base + span->granules * GRANULE - bytes, bytes, 0);
}

enum { LARGE = 40 * 1024, OVER = GRANULE - LARGE, LEFT_OVER = PURGE_HEAP / OVER };
static struct span left_over[LEFT_OVER];

/* Hands out dirty granules for blocks of LARGE bytes until these leave over as much as may be. */
static void leave_over_all_that_may_be(void)
{
	for (unsigned i = 0; i < LEFT_OVER; i++) {
		assert_true(span_alloc(1, SPAN_ROOMY, LARGE, &left_over[i]));
		assert_int_equal(left_over[i].slack, OVER);
	}
}

static void take_back_what_left_over(void)
{
	for (unsigned i = 0; i < LEFT_OVER; i++)
		span_free(&left_over[i], GRANULE);
}

/* Blocks of 40 KiB in granules, and of 24 KiB, two in one: what they leave over is given back where dirty granules are
   handed out, but only in such a program, if much of it may be resident, and if it adds up. */
static void what_blocks_leave_over_is_given_back_between_stages(void **state)
{
	enum { MID = 24 * 1024, MID_OVER = GRANULE - 2 * MID, LITTLE = 8192, LONG = 160 * 1024, SHORT = 132 * 1024 };
	struct span span, other;
	struct large *large;
	bool zero;

	forget_regret();
	use_all();
	assert_true(span_alloc(1, SPAN_ROOMY, LARGE, &span));
	assert_false(span.zero);
	assert_int_equal(span.idle, 0);
	assert_false(end_is_zero(&span, 1));
	span_free(&span, GRANULE);

	use_all(); /* regretted */
	leave_over_all_that_may_be();
	assert_true(span_alloc(1, SPAN_ROOMY, LARGE, &span));
	assert_true(span_alloc(1, SPAN_ROOMY, MID, &other));
	assert_false(span.zero || other.zero);
	assert_int_equal(span.idle, OVER);
	assert_int_equal(other.idle, MID_OVER);
	assert_int_equal(hak_space.idle, OVER + MID_OVER);
	assert_true(end_is_zero(&span, OVER) && !end_is_zero(&span, OVER + 1));
	assert_true(end_is_zero(&other, MID_OVER) && !end_is_zero(&other, MID_OVER + 1));
	span_free(&other, GRANULE);
	large = large_alloc(NULL, LARGE, 16, &zero);
	assert_non_null(large);
	assert_int_equal(hak_space.idle, 2 * OVER);
	assert_true(large_resize(large, GRANULE, true));
	assert_int_equal(hak_space.idle, OVER);
	large_free(NULL, large);
	/* Where the last block was as large, there is nothing to be gained. */
	memset(span.base, 0xa5, GRANULE);
	span.last_size = LARGE;
	span.was_large = true;
	span_free(&span, GRANULE);
	assert_int_equal(hak_space.idle, 0);
	assert_true(span_alloc(1, SPAN_ROOMY, LARGE, &span));
	assert_int_equal(span.idle, OVER);
	assert_false(end_is_zero(&span, 1));
	/* Nor where it was but a little larger. */
	span.last_size = LARGE + LITTLE;
	span.was_large = true;
	span_free(&span, GRANULE);
	assert_int_equal(hak_space.idle, 0);
	assert_true(span_alloc(1, SPAN_ROOMY, LARGE, &span));
	assert_int_equal(span.idle, OVER - LITTLE);
	assert_false(end_is_zero(&span, 1));
	span_free(&span, GRANULE - span.idle);
	/* Nor is it worth a call if it is little beside the block, whatever was there. */
	assert_true(span_alloc(3, SPAN_ROOMY, LONG, &span));
	assert_false(span.zero);
	assert_int_equal(span.idle, 0);
	assert_false(end_is_zero(&span, 1));
	span.last_size = LONG;
	span.was_large = true;
	span_free(&span, 3 * GRANULE);
	/* Or was resident only as far as the last block went. */
	assert_true(span_alloc(3, SPAN_ROOMY, SHORT, &span));
	assert_int_equal(span.idle, 3 * GRANULE - LONG);
	assert_false(end_is_zero(&span, 1));
	span.last_size = LONG;
	span.was_large = true;
	span_free(&span, 3 * GRANULE);
	/* If others have had a part of it since, all may be. */
	pagemap_set((uintptr_t)span.base + 2 * GRANULE, 1, TAG_FREE, (void *)32);
	assert_true(span_alloc(3, SPAN_ROOMY, SHORT, &span));
	assert_int_equal(span.idle, 3 * GRANULE - SHORT);
	assert_true(end_is_zero(&span, span.idle));
	span_free(&span, 3 * GRANULE);
	assert_int_equal(hak_space.idle, 0);
	/* Slabs tell all or nothing. */
	assert_true(span_alloc(1, SPAN_ROOMY, LARGE - LITTLE, &span));
	other = span;
	span.last_size = LARGE - LITTLE;
	span.was_large = true;
	span_free(&span, GRANULE);
	assert_true(span_alloc(1, SPAN_ROOMY, MID, &span));
	assert_ptr_equal(span.base, other.base);
	assert_int_equal(span.idle, 0);
	assert_int_equal(span.slack, MID_OVER);
	span_free(&span, GRANULE);
	take_back_what_left_over();
}

/* Ends that no block touched: what is dirty is so in part only, and allowed if that part is. */
static void ends_that_no_block_touched_are_not_purged_for_their_number(void **state)
{
	enum { LARGES = FLOOR * 3 / 2 };
	static struct span larges[LARGES];

	forget_regret();
	take(0, HEAP / SPAN);
	for (unsigned i = 0; i < LARGES; i++) {
		assert_true(span_alloc(1, SPAN_ROOMY, LARGE, &larges[i]));
		assert_int_equal(larges[i].idle, OVER);
	}
	for (unsigned i = 0; i < LARGES; i++)
		span_free(&larges[i], LARGE);
	assert_int_equal(hak_space.dirty, LARGES);
	assert_int_equal(hak_space.hollow, (size_t)LARGES * OVER);
	assert_null(superslab_check());
	for (unsigned i = 0; i < LARGES / 2; i++)
		assert_true(span_alloc(1, SPAN_ROOMY, LARGE, &larges[i]));
	assert_in_range(hak_space.hollow, (size_t)LARGES * OVER / 2 - LARGES, (size_t)LARGES * OVER / 2 + LARGES);
	for (unsigned i = 0; i < LARGES / 2; i++)
		span_free(&larges[i], GRANULE);
	/* Touched to their ends, they are too many. */
	assert_true(hak_space.dirty < LARGES);
	assert_null(superslab_check());
	purge_all(0);
	assert_int_equal(hak_space.hollow, 0);
	give_back(0, HEAP / SPAN);
}

enum { LARGES = 1200 };

/* How many MiB of what LARGES blocks of a granule each leave over are kept beside a big one of so many bytes. */
static unsigned ends_kept_beside(size_t big)
{
	static struct span larges[LARGES];
	struct large *beside = NULL;
	unsigned kept = 0;
	bool zero;

	forget_regret();
	if (big != 0) {
		beside = large_alloc(NULL, big, 16, &zero);
		assert_non_null(beside);
	}
	use_all();
	use_all();
	assert_true(purge_breathes());
	for (unsigned i = 0; i < LARGES; i++) {
		assert_true(span_alloc(1, SPAN_ROOMY, LARGE, &larges[i]));
		assert_false(larges[i].zero);
		assert_int_equal(larges[i].idle + larges[i].slack, OVER);
		assert_int_equal(end_is_zero(&larges[i], OVER), larges[i].idle != 0);
		kept += larges[i].slack != 0;
	}
	assert_int_equal(hak_space.slack, kept * OVER);
	for (unsigned i = 0; i < LARGES; i++)
		span_free(&larges[i], GRANULE);
	assert_int_equal(hak_space.idle + hak_space.slack, 0);
	if (beside != NULL) {
		large_free(NULL, beside);
		bigcache_release(0);
	}
	return kept * OVER / HAK_MIB;
}

/* As long as they are less than 1/8 of what is in use, or than as much as a small heap. */
static void ends_that_are_little_of_all_are_kept(void **state)
{
	/* Whole ones. */
	assert_int_equal(ends_kept_beside(0), PURGE_HEAP / HAK_MIB - 1);
	assert_int_equal(ends_kept_beside(80 * HAK_MIB), (80 + LARGES * GRANULE / HAK_MIB) / 8);
}

static unsigned purge_ms; /* that a call takes at least */
static atomic_uint purges;
static atomic_size_t purged; /* bytes */
static void (*amid_purge)(void); /* run once, by the next call */

bool __wrap_os_purge(void *addr, size_t size);
bool __real_os_purge(void *addr, size_t size);
bool __wrap_os_purge(void *addr, size_t size)
{
	uint64_t before = os_cycles();

	purges++;
	purged += size;
	if (amid_purge != NULL) {
		void (*run)(void) = amid_purge;
		amid_purge = NULL;
		run();
	}
	while (os_cycles() - before < purge_ms * os_cycles_a_ms())
		continue;
	return __real_os_purge(addr, size);
}

/* Hands dirty granules out `n` times, for blocks that leave some over. How often that was given back. */
static unsigned count_ends(unsigned n)
{
	struct span span;
	unsigned before = purges;

	leave_over_all_that_may_be();
	for (unsigned i = 0; i < n; i++) {
		unsigned so_far = purges;
		assert_true(span_alloc(1, SPAN_ROOMY, LARGE, &span));
		assert_int_equal(span.idle, purges == so_far ? 0 : OVER);
		span_free(&span, GRANULE);
	}
	take_back_what_left_over();
	return purges - before;
}

/* In a process that is alone as much as is in use may be given back each second, and as much at once. */
static void ends_given_back_in_a_second_are_no_more_than_is_in_use(void **state)
{
	enum { IN_USE = (LEFT_OVER + 1) * GRANULE, ENDS = IN_USE / OVER, TRIES = 20 };

	for (unsigned try = 1; try <= TRIES; try++) {
		forget_regret();
		use_all();
		use_all();
		bool breathes = purge_breathes();
		uint64_t before = os_cycles(), second = 1000 * os_cycles_a_ms();
		unsigned ends = count_ends(2 * ENDS);
		uint64_t passed = os_cycles() - before;
		if (breathes && purge_breathes() && passed < second / 2) {
			assert_in_range(ends, ENDS - 1, ENDS + ENDS * passed / second + 1);
			return;
		}
	}
	skip();
}

/* Until what was spent since `before` is paid for, which takes sixteen times as long by the same counter, and a little
   more. */
static void pay_since(uint64_t before)
{
	uint64_t now = os_cycles(), spent = now - before;

	while (os_cycles() - now < 20 * spent)
		sleep_ms(1);
}

/* Some are given back, but half of them at most. Where the machine has other things to do, time goes by for which more
   may be, and nobody may find that the program breathes: then that says nothing, and is done again. */
static void assert_few_ends(unsigned n)
{
	enum { TRIES = 100 };

	for (unsigned try = 1; try <= TRIES; try++) {
		use_all();
		use_all(); /* soon after the first: if a second went by before that, all that was free had gone */
		bool breathes = purge_breathes();
		uint64_t start = os_now_ms(), start_cycles = os_cycles();
		unsigned ends = count_ends(n);
		/* All of them take n ms. The clock may stand still while the processor is the host's. */
		bool was_late = os_now_ms() - start > 2 * n || os_cycles() - start_cycles > 2 * n * os_cycles_a_ms();
		pay_since(start_cycles);
		if (ends >= 1 && ends <= n / 2)
			return;
		assert_true((was_late || !breathes) && try < TRIES);
	}
}

/* Each such call interrupts the other threads. */
static void ends_take_little_of_the_time_where_there_are_threads(void **state)
{
	static const char no = 0;
	const char *alone = hak_alone;
	enum { CALLS = 40 };

	forget_regret();
	use_all();
	use_all();
	assert_true(purge_breathes());
	purge_ms = 1;
	uint64_t before = os_cycles();
	assert_int_equal(count_ends(CALLS), CALLS);
	pay_since(before);
	hak_alone = &no;
	assert_few_ends(CALLS);
	assert_few_ends(CALLS);
	purge_ms = 0;
	hak_alone = alone;
	assert_int_equal(hak_space.idle, 0);
}

/* As of locked pages. */
static void an_end_that_the_system_refuses_is_not_idle(void **state)
{
	struct span span;
	const void *base;

	forget_regret();
	use_all();
	use_all();
	assert_true(purge_breathes());
	leave_over_all_that_may_be();
	assert_true(span_alloc(1, SPAN_ROOMY, 0, &span));
	if (syscall(SYS_mlock, (char *)span.base + GRANULE - 1, 1) != 0) {
		span_free(&span, 0);
		take_back_what_left_over();
		skip();
	}
	base = span.base;
	span_free(&span, GRANULE);
	unsigned before = purges;
	assert_true(span_alloc(1, SPAN_ROOMY, LARGE, &span));
	assert_ptr_equal(span.base, base);
	assert_int_equal(purges, before + 1);
	assert_int_equal(span.idle, 0);
	assert_int_equal(hak_space.idle, 0);
	syscall(SYS_munlock, (char *)span.base + GRANULE - 1, 1);
	span_free(&span, GRANULE);
	take_back_what_left_over();
}

/* The first touch made all of it resident, also what nobody has had yet. */
static void huge_page_is_purged_whole(void **state)
{
	struct span live, dirty;

	hak_settings.thp = THP_ALWAYS;
	assert_true(span_alloc(1, SPAN_DENSE, 0, &live) && span_alloc(1, SPAN_DENSE, 0, &dirty));
	hak_settings.thp = THP_AUTO;
	assert_true(live.ss->huge);
	assert_ptr_equal(live.ss, dirty.ss);
	span_free(&dirty, GRANULE);
	assert_int_equal(hak_space.dirty, 1);
	purged = 0;
	assert_true(purge_all(0));
	assert_int_equal(purged, (SUPERSLAB_GRANULES - 1) * GRANULE);
	assert_int_equal(hak_space.dirty, 0);
	assert_int_equal(hak_space.live, 1);
	assert_null(superslab_check());
	span_free(&live, GRANULE);
}

/* The system may hand out a huge page there, though none was asked for. */
static void all_that_is_free_is_purged_with_thp_always(void **state)
{
	struct span live, dirty;

	hak_settings.thp = THP_ALWAYS;
	assert_true(span_alloc(1, SPAN_ROOMY, 0, &live) && span_alloc(1, SPAN_ROOMY, 0, &dirty));
	assert_false(live.ss->huge);
	assert_ptr_equal(live.ss, dirty.ss);
	span_free(&dirty, GRANULE);
	purged = 0;
	assert_true(purge_all(0));
	hak_settings.thp = THP_AUTO;
	assert_int_equal(purged, (SUPERSLAB_GRANULES - 1) * GRANULE);
	assert_null(superslab_check());
	span_free(&live, GRANULE);
}

/* A signal handler amid a call of its one thread may start the purge thread. */
static void process_that_may_start_the_purge_thread_is_not_alone(void **state)
{
	const char *alone = hak_alone;

	hak_settings.background = true;
	background_init();
	assert_false(process_is_alone());
	hak_settings.background = false;
	hak_purge_waits = NULL;
	hak_alone = alone;
	assert_true(process_is_alone());
}

/* One SuperSlab's. */
static void *purge_some(void *unused)
{
	purge_all(hak_space.dirty * GRANULE - 1);
	return NULL;
}

/* Has another thread purge, slowly, and returns amid that. */
static pthread_t start_purger(void)
{
	unsigned before = purges;
	pthread_t other;

	take(0, 100);
	give_back(0, 100);
	purge_ms = 50;
	assert_int_equal(pthread_create(&other, NULL, purge_some, NULL), 0);
	while (purges == before)
		sched_yield();
	return other;
}

static void end_purger(pthread_t other)
{
	pthread_join(other, NULL);
	purge_ms = 0;
}

/* Where the other one gets no processor for long, the wait comes to its end. */
enum { TRIES = 5, WAITED_MOST = 150 };

static void trim_waits_for_another_purger(void **state)
{
	size_t dirty = SIZE_MAX;
	uint64_t waited = WAITED_MOST;

	for (int i = 0; i < TRIES && dirty > 1 && waited >= WAITED_MOST; i++) {
		pthread_t other = start_purger();
		uint64_t before = os_now_ms();
		purge_all(GRANULE); /* to keep nothing would unmap the SuperSlabs */
		dirty = hak_space.dirty;
		waited = os_now_ms() - before;
		end_purger(other);
	}
	assert_true(dirty <= 1);
}

/* What a purger has is free, and nobody's for a moment: not to have it is no lack of memory. */
static void who_gets_nothing_waits_for_a_purger(void **state)
{
	bool is_going_on = true;
	uint64_t waited = WAITED_MOST;

	for (int i = 0; i < TRIES && is_going_on && waited >= WAITED_MOST; i++) {
		pthread_t other = start_purger();
		uint64_t before = os_now_ms();
		purge_release_empty();
		is_going_on = purge_is_going_on();
		waited = os_now_ms() - before;
		end_purger(other);
	}
	assert_false(is_going_on);
}

static unsigned refused_ms;

/* As by a signal handler. */
static void trim_amid_a_purge(void)
{
	uint64_t before = os_now_ms();

	assert_false(purge_all(GRANULE));
	refused_ms = (unsigned)(os_now_ms() - before);
}

static void trim_does_not_wait_for_ever(void **state)
{
	enum { LONG = 5000 };

	take(0, 100);
	give_back(0, 100);
	amid_purge = trim_amid_a_purge;
	assert_true(purge_all(GRANULE));
	assert_in_range(refused_ms, 1, LONG);
	assert_true(hak_space.dirty <= 1);
}

/* It is idle until the span changes, and so is what was never resident. */
static void a_span_that_changes_is_not_idle_any_more(void **state)
{
	enum { SIZE = 100 * 1024 };
	struct span span;
	bool zero;

	assert_true(span_alloc(2, SPAN_ROOMY, SIZE, &span));
	assert_int_equal(hak_space.idle, 2 * GRANULE - SIZE);
	span_shrink(&span, 1);
	assert_int_equal(hak_space.idle, 0);
	span_free(&span, GRANULE);
	purge_all(0);

	assert_true(span_alloc(2, SPAN_ROOMY, SIZE, &span));
	span_use(&span, SIZE);
	assert_int_equal(hak_space.idle, 2 * GRANULE - SIZE);
	span_use(&span, SIZE + 1);
	assert_int_equal(hak_space.idle + span.idle, 0);
	span_free(&span, GRANULE);
	purge_all(0);

	assert_true(span_alloc(2, SPAN_ROOMY, SIZE, &span));
	assert_true(span_extend(&span, 3, &zero));
	assert_int_equal(hak_space.idle, 0);
	span_free(&span, 3 * GRANULE);
	assert_int_equal(hak_space.idle, 0);
}

/* What may be resident behind a span's blocks is counted until it changes likewise. */
static void a_span_that_changes_is_not_slack_any_more(void **state)
{
	enum { SIZE = 100 * 1024, LEFT = 2 * GRANULE - SIZE };
	struct span span;
	bool zero;

	block_size = 0;
	take(0, 1);
	give_back(0, 1);
	assert_true(span_alloc(2, SPAN_ROOMY, SIZE, &span));
	assert_false(span.zero);
	assert_int_equal(hak_space.slack, LEFT);
	span_use(&span, SIZE);
	assert_int_equal(hak_space.slack, LEFT);
	span_use(&span, SIZE + 1);
	assert_int_equal(hak_space.slack + span.slack, 0);
	span_free(&span, 2 * GRANULE);

	assert_true(span_alloc(2, SPAN_ROOMY, SIZE, &span));
	assert_int_equal(hak_space.slack, LEFT);
	assert_true(span_extend(&span, 3, &zero));
	assert_int_equal(hak_space.slack + span.slack, 0);
	span_free(&span, 3 * GRANULE);

	assert_true(span_alloc(2, SPAN_ROOMY, SIZE, &span));
	assert_int_equal(hak_space.slack, LEFT);
	span_shrink(&span, 1);
	assert_int_equal(hak_space.slack + span.slack, 0);
	span_free(&span, GRANULE);

	assert_true(span_alloc(2, SPAN_ROOMY, SIZE, &span));
	assert_int_equal(hak_space.slack, LEFT);
	span_free(&span, 2 * GRANULE);
	assert_int_equal(hak_space.slack, 0);
}

/* What was given back this moment is not old because the clock had not been looked at for long. */
static void fresh_dirty_memory_after_quiet_time_is_kept(void **state)
{
	purge_tick();
	hak_settings.purge_delay_ms = 400;
	take(0, 100);
	sleep_ms(800);
	give_back(0, 20);
	purge_tick();
	assert_int_equal(hak_space.dirty, 20 * SPAN);
	give_back(20, 100);
}

/* What is dirty now was used a moment ago, though its SuperSlabs have had dirty granules for long. */
static void what_was_used_meanwhile_is_young(void **state)
{
	enum { DELAY = 600, TIMES = 10 };
	bool was_late = true;

	hak_settings.purge_delay_ms = DELAY;
	for (unsigned try = 0; was_late && try < TIMES; try++) {
		take(0, 100);
		give_back(0, 100);
		sleep_ms(400);
		take(0, 100);
		purge_tick();
		uint64_t freed = os_now_ms();
		give_back(0, 100);
		sleep_ms(300);
		purge_tick();
		was_late = os_now_ms() - freed >= DELAY; /* the machine has other things to do */
	}
	assert_false(was_late);
	assert_int_equal(hak_space.dirty, 100 * SPAN);
	sleep_ms(400);
	purge_tick();
	assert_int_equal(hak_space.dirty, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(trim_with_allowance_keeps_it, start_empty),
		cmocka_unit_test_setup(trim_all_gives_everything_back, start_empty),
		cmocka_unit_test_setup(small_heap_is_never_purged, start_empty),
		cmocka_unit_test_setup(delay_minus_one_never_purges, start_empty),
		cmocka_unit_test_setup(old_dirty_memory_is_purged, start_empty),
		cmocka_unit_test_setup(much_old_memory_is_purged_in_portions, start_empty),
		cmocka_unit_test_setup(fresh_dirty_memory_after_quiet_time_is_kept, start_empty),
		cmocka_unit_test_setup(what_was_used_meanwhile_is_young, start_empty),
		cmocka_unit_test_setup(much_dirty_memory_is_purged_at_once, start_empty),
		cmocka_unit_test_setup(spare_slabs_leave_less_room, start_empty),
		cmocka_unit_test_setup(what_the_system_refuses_is_passed_over, start_empty),
		cmocka_unit_test_setup(dirty_memory_may_follow_live, start_empty),
		cmocka_unit_test_setup(purged_memory_reads_zero, start_empty),
		cmocka_unit_test_setup(reuse_of_purged_memory_is_regretted, start_empty),
		cmocka_unit_test_setup(what_is_used_again_and_again_is_kept, start_empty),
		cmocka_unit_test_setup(what_serves_the_next_stage_is_kept, start_empty),
		cmocka_unit_test_setup(what_serves_the_next_stage_is_kept_up_to_a_limit, start_empty),
		cmocka_unit_test_setup(what_does_not_serve_large_blocks_is_not_kept_beside_them, start_empty),
		cmocka_unit_test_setup(what_does_not_serve_a_block_that_grows_is_not_kept_beside_it, start_empty),
		cmocka_unit_test_setup(what_does_not_serve_spans_that_grow_is_not_kept_beside_them, start_empty),
		cmocka_unit_test_setup(what_does_not_serve_longer_spans_is_not_kept_beside_them, start_empty),
		cmocka_unit_test_setup(little_excess_costs_little_of_what_serves_again, start_empty),
		cmocka_unit_test_setup(what_blocks_leave_over_is_given_back_between_stages, start_empty),
		cmocka_unit_test_setup(ends_that_no_block_touched_are_not_purged_for_their_number, start_empty),
		cmocka_unit_test_setup(ends_that_are_little_of_all_are_kept, start_empty),
		cmocka_unit_test_setup(ends_given_back_in_a_second_are_no_more_than_is_in_use, start_empty),
		cmocka_unit_test_setup(ends_take_little_of_the_time_where_there_are_threads, start_empty),
		cmocka_unit_test_setup(an_end_that_the_system_refuses_is_not_idle, start_empty),
		cmocka_unit_test_setup(huge_page_is_purged_whole, start_empty),
		cmocka_unit_test_setup(all_that_is_free_is_purged_with_thp_always, start_empty),
		cmocka_unit_test_setup(process_that_may_start_the_purge_thread_is_not_alone, start_empty),
		cmocka_unit_test_setup(trim_waits_for_another_purger, start_empty),
		cmocka_unit_test_setup(who_gets_nothing_waits_for_a_purger, start_empty),
		cmocka_unit_test_setup(trim_does_not_wait_for_ever, start_empty),
		cmocka_unit_test_setup(a_span_that_changes_is_not_idle_any_more, start_empty),
		cmocka_unit_test_setup(a_span_that_changes_is_not_slack_any_more, start_empty),
	};

	return UNIT_RUN(tests);
}
