/* SPDX-License-Identifier: MIT */
/* The rules of purging. Granules are called touched without being so: only the counting matters. */
#include "space/purge.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/settings.h"
#include "common.h"
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
	take(0, 100);
	assert_false(purge_all(0));
	give_back(0, 100);
	assert_true(purge_pending());
	assert_true(purge_all(0));
	assert_false(purge_pending());
	assert_int_equal(hak_space.superslabs, 0);
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

/* What regret the cases above caused has gone by then. */
static void forget_regret(void)
{
	for (int i = 0; i < 2; i++) {
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
	if (!lock_page_of(FIRST, true) || !lock_page_of(SECOND, true))
		skip();
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
	size_t regrets = hak_space.regrets, purged;
	enum { BREATH = PURGE_CEILING / GRANULE / SPAN };

	purge_tick();
	take(0, BREATH);
	give_back(0, BREATH);
	purged = hak_space.purged;
	take(0, BREATH);
	assert_true(hak_space.regrets > regrets);
	give_back(0, BREATH);
	assert_int_equal(hak_space.purged, purged);
	assert_int_equal(hak_space.dirty, PURGE_CEILING / GRANULE);
	/* But there is a ceiling. */
	take(0, MANY);
	give_back(0, MANY);
	assert_true(hak_space.dirty <= PURGE_CEILING / GRANULE);
}

/* Blocks of one size again and again: all is kept, beyond the ceiling, until it is no longer used. Of another size each
   time, which leaves other pages unused: the ceiling holds. */
static void what_is_used_again_and_again_is_kept(void **state)
{
	size_t purged;

	for (block_size = 1024; block_size < 8 * 1024; block_size += 1024) {
		take(0, MANY);
		give_back(0, MANY);
		assert_true(hak_space.dirty <= PURGE_CEILING / GRANULE);
	}
	take(0, MANY);
	give_back(0, MANY);
	take(0, MANY);
	purged = hak_space.purged;
	uint64_t last_burst = hak_purge_bursts.last_ms;
	sleep_ms(10);
	give_back(0, MANY);
	assert_int_equal(hak_space.purged, purged);
	assert_int_equal(hak_space.dirty, MANY * SPAN);
	assert_true(hak_purge_bursts.last_ms > last_burst);
	/* In the first of these seconds it was used, in the second not. */
	for (int i = 0; i < 2; i++) {
		sleep_ms(1100);
		purge_tick();
		assert_int_equal(hak_space.dirty, MANY * SPAN);
	}
	purge_excess();
	assert_true(hak_space.dirty < PURGE_CEILING / GRANULE);
	block_size = 0;
}

/* What was given back this moment is not old because the clock had not been looked at for long. */
static void fresh_dirty_memory_after_quiet_time_is_kept(void **state)
{
	purge_tick();
	hak_settings.purge_delay_ms = 40;
	take(0, 100);
	sleep_ms(80);
	give_back(0, 20);
	purge_tick();
	assert_int_equal(hak_space.dirty, 20 * SPAN);
	give_back(20, 100);
}

/* What is dirty now was used a moment ago, though its SuperSlabs have had dirty granules for long. */
static void what_was_used_meanwhile_is_young(void **state)
{
	hak_settings.purge_delay_ms = 600;
	take(0, 100);
	give_back(0, 100);
	sleep_ms(400);
	take(0, 100);
	purge_tick();
	give_back(0, 100);
	sleep_ms(300);
	purge_tick();
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
		cmocka_unit_test_setup(fresh_dirty_memory_after_quiet_time_is_kept, start_empty),
		cmocka_unit_test_setup(what_was_used_meanwhile_is_young, start_empty),
		cmocka_unit_test_setup(much_dirty_memory_is_purged_at_once, start_empty),
		cmocka_unit_test_setup(what_the_system_refuses_is_passed_over, start_empty),
		cmocka_unit_test_setup(dirty_memory_may_follow_live, start_empty),
		cmocka_unit_test_setup(purged_memory_reads_zero, start_empty),
		cmocka_unit_test_setup(reuse_of_purged_memory_is_regretted, start_empty),
		cmocka_unit_test_setup(what_is_used_again_and_again_is_kept, start_empty),
	};

	return UNIT_RUN(tests);
}
