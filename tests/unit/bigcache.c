/* SPDX-License-Identifier: MIT */
#include "front/bigcache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/settings.h"
#include "common.h"
#include "os/os.h"
#include "slab/size_class.h"
#include "space/pagemap.h"
#include "space/purge.h"
#include "space/superslab.h"

enum { FLOOR_MIB = 4, MOST_REGRET = 8, SLOTS = 16, ROUNDS = 3000 };

static size_t kept_bytes(void)
{
	return hak_space.kept * GRANULE;
}

static int start_empty(void **state)
{
	hak_settings.purge_delay_ms = 60000;
	hak_settings.bigcache_max = 512 * HAK_MIB;
	bigcache_release(0);
	return kept_bytes() == 0 && hak_space.big == 0 ? 0 : -1;
}

static struct large *take(size_t mib)
{
	bool zero;
	struct large *l = large_alloc(NULL, mib * HAK_MIB, 16, &zero);

	assert_non_null(l);
	return l;
}

static void give_back(size_t mib)
{
	assert_true(large_free(NULL, take(mib)));
}

static uintptr_t base_of(const struct large *l)
{
	return (uintptr_t)l->span.base;
}

/* First in the program: a miss after an eviction makes the cache allow itself more for a while. A miss after
   a trim does not. */
static void kept_bytes_bounded_by_floor(void **state)
{
	struct large *l[10];
	uint64_t evictions;

	give_back(3);
	assert_true(bigcache_release(0));
	evictions = hak_bigcache_stats.evictions;
	for (unsigned i = 0; i < 10; i++)
		l[i] = take(2);
	for (unsigned i = 0; i < 10; i++) {
		large_free(NULL, l[i]);
		assert_true(kept_bytes() <= FLOOR_MIB * HAK_MIB);
	}
	assert_true(kept_bytes() >= (FLOOR_MIB - 2) * HAK_MIB);
	assert_true(hak_bigcache_stats.evictions > evictions);
	assert_int_equal(hak_space.big, 0);
}

static void take_from_empty_cache_null(void **state)
{
	uint64_t misses = hak_bigcache_stats.misses;

	assert_null(bigcache_take(32, GRANULE, true));
	assert_int_equal(hak_bigcache_stats.misses, misses + 1);
}

static void freed_span_serves_next_request(void **state)
{
	struct large *l = take(3);
	uintptr_t base = base_of(l);
	uint64_t hits = hak_bigcache_stats.hits;

	large_free(NULL, l);
	assert_int_equal(kept_bytes(), 3 * HAK_MIB);
	assert_int_equal(hak_space.kept, 3 * HAK_MIB / GRANULE);
	assert_true(hak_space.retained_most >= hak_space.kept);
	l = take(3);
	assert_true(base_of(l) == base);
	assert_int_equal(hak_bigcache_stats.hits, hits + 1);
	assert_int_equal(kept_bytes(), 0);
	large_free(NULL, l);
}

static struct large *take_aligned(size_t mib, size_t align)
{
	bool zero;
	struct large *l = large_alloc(NULL, mib * HAK_MIB, align, &zero);

	assert_non_null(l);
	assert_int_equal(base_of(l) % align, 0);
	return l;
}

static void aligned_request_gets_aligned_span(void **state)
{
	enum { ALIGN = 4 << 20 };
	struct large *l = take_aligned(2, ALIGN), *rest;
	uintptr_t base = base_of(l);
	uint64_t hits = hak_bigcache_stats.hits;

	large_free(NULL, l);
	l = take_aligned(2, ALIGN);
	assert_true(base_of(l) == base);
	assert_int_equal(hak_bigcache_stats.hits, hits + 1);
	large_free(NULL, l);
	/* What is kept begins elsewhere from here on. */
	l = take(1);
	assert_true(base_of(l) == base);
	assert_null(bigcache_take(16, 2 * HAK_MIB, true));
	rest = take_aligned(1, HAK_MIB);
	assert_true(base_of(rest) == base + HAK_MIB);
	assert_int_equal(hak_bigcache_stats.hits, hits + 3);
	large_free(NULL, l);
	large_free(NULL, rest);
}

static void span_kept_is_told_of(void **state)
{
	assert_false(bigcache_has(16));
	give_back(3);
	assert_true(bigcache_has(16));
	assert_true(bigcache_has(3 * HAK_MIB / GRANULE));
	assert_false(bigcache_has(3 * HAK_MIB / GRANULE + 1));
}

/* Its pages are there: a cut would begin the next block on new ones. */
static void smaller_request_of_two_thirds_gets_the_whole(void **state)
{
	struct large *l = take(6);
	uintptr_t base = base_of(l);

	assert_true(large_free(NULL, l));
	l = take(4);
	assert_true(base_of(l) == base);
	assert_int_equal(kept_bytes(), 0);
	assert_true(large_free(NULL, l));
	assert_int_equal(kept_bytes(), 6 * HAK_MIB);
}

static void smaller_request_leaves_the_rest(void **state)
{
	struct large *l, *part[3];
	uintptr_t base;

	l = take(6);
	base = base_of(l);
	large_free(NULL, l);
	for (unsigned i = 0; i < 3; i++) {
		part[i] = take(2);
		assert_int_equal(part[i]->span.granules, 32);
		assert_true(base_of(part[i]) >= base && base_of(part[i]) < base + 6 * HAK_MIB);
		assert_ptr_equal(large_of(base_of(part[i]) + HAK_MIB), part[i]);
		assert_int_equal(kept_bytes(), (4 - 2 * i) * HAK_MIB);
	}
	for (unsigned i = 0; i < 3; i++)
		for (unsigned j = 0; j < i; j++)
			assert_true(base_of(part[i]) != base_of(part[j]));
	for (unsigned i = 0; i < 3; i++)
		large_free(NULL, part[(i + 1) % 3]);
	/* They have joined again. */
	assert_int_equal(kept_bytes(), 6 * HAK_MIB);
	l = take(6);
	assert_true(base_of(l) == base);
	large_free(NULL, l);
}

/* A descriptor may have been that of a block between guard pages. */
static void rest_has_no_guards(void **state)
{
	struct large *used = large_new_descriptor();

	used->guard = GRANULE;
	used->is_shut = true;
	give_back(7);
	large_put_descriptor(used);
	assert_true(large_free(NULL, take(1)));
	assert_int_equal(large_keeper(used), KEPT_BIGCACHE);
	assert_int_equal(used->guard, 0);
	assert_false(used->is_shut);
}

static void larger_request_not_served(void **state)
{
	give_back(2);
	assert_null(bigcache_take(33, GRANULE, true));
	assert_int_equal(kept_bytes(), 2 * HAK_MIB);
}

static void kept_bytes_bounded_by_setting(void **state)
{
	struct large *l[4];

	hak_settings.bigcache_max = 5 * HAK_MIB;
	for (unsigned i = 0; i < 4; i++)
		l[i] = take(2);
	for (unsigned i = 0; i < 4; i++) {
		large_free(NULL, l[i]);
		assert_true(kept_bytes() <= 5 * HAK_MIB);
	}
	assert_true(kept_bytes() >= 3 * HAK_MIB);
}

static void kept_bytes_may_follow_live(void **state)
{
	struct large *live = take(160), *l = take(30);

	large_free(NULL, l); /* more than the floor, less than a quarter of what is live */
	assert_int_equal(kept_bytes(), 30 * HAK_MIB);
	large_free(NULL, live);
	assert_true(kept_bytes() <= MOST_REGRET * FLOOR_MIB * HAK_MIB);
}

static void old_span_is_released(void **state)
{
	give_back(3);
	bigcache_tick();
	assert_int_equal(kept_bytes(), 3 * HAK_MIB);
	hak_settings.purge_delay_ms = 20;
	sleep_ms(60);
	bigcache_tick();
	assert_int_equal(kept_bytes(), 0);
}

/* What is young does not keep what lies beside it: a block that grows into an old span and shrinks again. */
static void old_span_is_released_though_a_neighbour_uses_its_end(void **state)
{
	struct large *l = take(20);

	assert_true(large_resize(l, 2 * HAK_MIB, true));
	assert_int_equal(kept_bytes(), 18 * HAK_MIB);
	hak_settings.purge_delay_ms = 400;
	for (uint64_t start = os_now_ms(); os_now_ms() - start < 1000; sleep_ms(20)) {
		assert_true(large_resize(l, 3 * HAK_MIB, true));
		assert_true(large_resize(l, 2 * HAK_MIB, true));
		bigcache_tick();
	}
	assert_true(kept_bytes() <= HAK_MIB);
	large_free(NULL, l);
}

/* A request that would have it as a part, with new memory in front of it, where there is none. */
static void span_that_is_of_no_use_is_due_as_it_was(void **state)
{
	struct large *l = take(6), *longer;
	uintptr_t base = base_of(l);
	void *barrier = mmap((void *)(base - GRANULE), GRANULE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	uint64_t due;

	assert_true(large_free(NULL, l));
	due = bigcache_due();
	sleep_ms(50);
	bigcache_tick(); /* looks at the clock */
	longer = take(10);
	assert_true(base_of(longer) != base);
	assert_int_equal(kept_bytes(), 6 * HAK_MIB);
	assert_int_equal(bigcache_due(), due);
	give_back(5); /* it is whole, and serves */
	assert_int_equal(kept_bytes(), 6 * HAK_MIB);
	large_free(NULL, longer);
	if (barrier != MAP_FAILED)
		munmap(barrier, GRANULE);
}

static void rest_of_a_cut_is_due_as_it_was(void **state)
{
	struct large *live = take(200); /* so that as much may be kept */
	struct large *l = take(20), *apart = take(2), *other = take(8);
	uint64_t due;

	assert_true(large_resize(l, 2 * HAK_MIB, true));
	due = bigcache_due();
	sleep_ms(50);
	bigcache_tick(); /* looks at the clock */
	large_free(NULL, other);
	assert_int_equal(bigcache_due(), due);
	assert_true(large_resize(l, 3 * HAK_MIB, true));
	assert_int_equal(kept_bytes(), (8 + 17) * HAK_MIB);
	assert_int_equal(bigcache_due(), due);
	large_free(NULL, apart);
	large_free(NULL, l);
	large_free(NULL, live);
}

static void delay_minus_one_keeps_all_that_may_be(void **state)
{
	struct large *one = take(50), *two = take(30), *three = take(30);

	hak_settings.purge_delay_ms = -1;
	hak_settings.bigcache_max = 90 * HAK_MIB;
	large_free(NULL, one);
	large_free(NULL, two);
	assert_int_equal(kept_bytes(), 80 * HAK_MIB);
	large_free(NULL, three);
	assert_int_equal(kept_bytes(), 90 * HAK_MIB);
}

static void delay_minus_one_keeps_old_span(void **state)
{
	give_back(3);
	hak_settings.purge_delay_ms = -1;
	sleep_ms(30);
	bigcache_tick();
	assert_int_equal(kept_bytes(), 3 * HAK_MIB);
}

static void release_keeps_what_it_is_told(void **state)
{
	struct large *a = take(4), *b = take(2);

	large_free(NULL, a);
	large_free(NULL, b);
	assert_false(bigcache_release(6 * HAK_MIB));
	assert_true(bigcache_release(2 * HAK_MIB));
	assert_true(kept_bytes() <= 2 * HAK_MIB);
	bigcache_release(0);
	assert_int_equal(kept_bytes(), 0);
	assert_false(bigcache_release(0));
}

static void released_span_leaves_trace(void **state)
{
	struct large *l = take(2);
	uintptr_t base = base_of(l);

	large_free(NULL, l);
	assert_null(large_of(base));
	assert_null(large_of(base + GRANULE));
	bigcache_release(0);
	assert_int_equal(pagemap_tag(base), TAG_LARGE_GONE);
	assert_true((size_t)pagemap_lookup(base).desc == 2 * HAK_MIB);
	assert_int_equal(pagemap_tag(base + GRANULE), TAG_NONE);
}

static void middle_sizes_kept_only_if_asked(void **state)
{
	bool zero;

	hak_settings.bigcache_l25 = false;
	give_back(1);
	assert_int_equal(kept_bytes(), 0);
	large_free(NULL, large_alloc(NULL, LARGE_L2_MIN - os_facts.page_size, 16, &zero)); /* in a span of 2 MiB */
	assert_int_equal(kept_bytes(), 0);
	give_back(2);
	assert_int_equal(kept_bytes(), 2 * HAK_MIB);
	hak_settings.bigcache_l25 = true;
}

/* Those have spans of their own whatever their size is. */
static void short_aligned_block_serves_the_next(void **state)
{
	bool zero;
	struct large *l = large_alloc(NULL, 100000, HAK_MIB, &zero);
	uintptr_t base = base_of(l);

	assert_null(l->span.ss);
	assert_true(large_free(NULL, l));
	assert_int_equal(kept_bytes(), 2 * GRANULE);
	l = large_alloc(NULL, 100000, HAK_MIB, &zero);
	assert_true(base_of(l) == base);
	assert_int_equal(kept_bytes(), 0);
	assert_true(large_free(NULL, l));
}

static void end_given_up_serves_the_next(void **state)
{
	struct large *l = take(4), *next;
	uintptr_t base = base_of(l);

	assert_true(large_resize(l, 2 * HAK_MIB, true));
	assert_int_equal(kept_bytes(), 2 * HAK_MIB);
	assert_null(bigcache_check());
	next = take(2);
	assert_true(base_of(next) == base + 2 * HAK_MIB);
	large_free(NULL, next);
	large_free(NULL, l);
	assert_null(bigcache_check());
	l = take(4); /* they have joined again */
	assert_true(base_of(l) == base);
	large_free(NULL, l);
}

/* The block may grow again. */
static void end_given_up_is_evicted_from_its_own_end(void **state)
{
	struct large *l = take(9);

	hak_settings.bigcache_max = 4 * HAK_MIB;
	assert_true(large_resize(l, 2 * HAK_MIB, true));
	assert_int_equal(kept_bytes(), 4 * HAK_MIB);
	assert_null(bigcache_check());
	assert_int_equal(pagemap_tag(base_of(l) + 2 * HAK_MIB), TAG_LARGE_CACHED);
	assert_int_equal(pagemap_tag(base_of(l) + 6 * HAK_MIB - GRANULE), TAG_LARGE_CACHED);
	assert_int_equal(pagemap_tag(base_of(l) + 6 * HAK_MIB + GRANULE), TAG_NONE);
	assert_true(large_resize(l, 6 * HAK_MIB, true));
	assert_int_equal(kept_bytes(), 0);
	large_free(NULL, l);
}

/* What lay behind a block comes with it when it grows; if it cannot grow, after all, that goes back. */
static void end_taken_for_nothing_goes_back(void **state)
{
	struct large *l = take(4);

	assert_true(large_resize(l, 2 * HAK_MIB, true));
	assert_false(large_resize(l, (size_t)1 << 46, false));
	assert_int_equal(kept_bytes(), 0);
	large_stop_growing(l);
	assert_int_equal(kept_bytes(), 2 * HAK_MIB);
	assert_int_equal(l->span.granules, 2 * HAK_MIB / GRANULE);
	assert_int_equal(l->usable, 2 * HAK_MIB);
	assert_null(bigcache_check());
	large_free(NULL, l);
}

static void middle_end_kept_only_if_asked(void **state)
{
	struct large *l = take(6);

	hak_settings.bigcache_l25 = false;
	assert_true(large_resize(l, 5 * HAK_MIB, true));
	assert_int_equal(kept_bytes(), 0);
	assert_int_equal(l->span.granules, 5 * HAK_MIB / GRANULE);
	assert_true(large_resize(l, 3 * HAK_MIB, true));
	assert_int_equal(kept_bytes(), 2 * HAK_MIB);
	hak_settings.bigcache_l25 = true;
	large_free(NULL, l);
}

/* Growing takes new memory as a request does that is not served. */
static void growth_into_new_memory_is_a_miss(void **state)
{
	struct large *l = take(6);
	uint64_t misses;

	hak_settings.bigcache_max = 0;
	assert_true(large_resize(l, 2 * HAK_MIB, true));
	misses = hak_bigcache_stats.misses;
	assert_true(large_resize(l, 3 * HAK_MIB, false)); /* there is room */
	assert_int_equal(hak_bigcache_stats.misses, misses + 1);
	assert_true(large_move(l, 5 * HAK_MIB, false));
	assert_int_equal(hak_bigcache_stats.misses, misses + 2);
	large_free(NULL, l);
}

/* Evicted, it leaves no word of a block that would have begun there. */
static void end_given_up_is_no_freed_block(void **state)
{
	struct large *l = take(6);

	hak_settings.bigcache_max = 0;
	assert_true(large_resize(l, 2 * HAK_MIB, true));
	assert_int_equal(pagemap_tag(base_of(l) + 2 * HAK_MIB), TAG_NONE);
	large_free(NULL, l);
}

/* Of what is left of a freed block one granule may be all: it tells of the span then, not of the block. */
static void span_of_one_granule_is_found(void **state)
{
	struct large *l = take(1), *behind;
	bool zero;

	assert_true(large_resize(l, 5 * GRANULE, true));
	behind = large_alloc(NULL, LARGE_BIG_MIN, 16, &zero);
	assert_int_equal(kept_bytes(), 0);
	assert_true(large_resize(l, 2 * GRANULE, true));
	large_free(NULL, l);
	assert_null(bigcache_take_part(1000)); /* joins them */
	assert_true(bigcache_release(GRANULE));
	assert_int_equal(kept_bytes(), GRANULE);
	assert_null(bigcache_check());
	large_free(NULL, behind);
}

static void reset_forgets(void **state)
{
	struct large *l = take(3);

	large_free(NULL, l);
	bigcache_reset();
	assert_int_equal(kept_bytes(), 0);
	assert_null(bigcache_take(48, GRANULE, true));
	give_back(3);
	assert_int_equal(kept_bytes(), 3 * HAK_MIB);
}

/* Spans that are out never overlap, whatever is cut and joined. */
static void spans_random_use_apart(void **state)
{
	struct large *out[SLOTS] = {0};
	size_t granules = 0;
	uint64_t seed = 13;

	for (int i = 0; i < ROUNDS; i++) {
		unsigned slot = (unsigned)(next_random(&seed) % SLOTS);
		if (out[slot] != NULL) {
			granules -= out[slot]->span.granules;
			large_free(NULL, out[slot]);
			out[slot] = NULL;
		} else {
			bool zero;
			out[slot] = large_alloc(NULL, LARGE_BIG_MIN + next_random(&seed) % (6 * HAK_MIB), 16, &zero);
			granules += out[slot]->span.granules;
		}
		for (unsigned j = 0; j < SLOTS; j++)
			for (size_t g = 0; out[j] != NULL && g < out[j]->span.granules; g += 3)
				assert_ptr_equal(pagemap_lookup(base_of(out[j]) + g * GRANULE).desc, out[j]);
		assert_int_equal(hak_space.big, granules);
		if (i % 100 == 0)
			bigcache_release(next_random(&seed) % (16 * HAK_MIB));
	}
	for (unsigned j = 0; j < SLOTS; j++)
		if (out[j] != NULL)
			large_free(NULL, out[j]);
}

enum { WAVES = 6, WAVE = 40, EACH = 2, WAVE_MIB = WAVE * EACH };

static void take_and_free_a_wave(void)
{
	struct large *l[WAVE];

	for (unsigned i = 0; i < WAVE; i++)
		l[i] = take(EACH);
	for (unsigned i = 0; i < WAVE; i++) {
		large_free(NULL, l[i]);
		assert_true(kept_bytes() + hak_space.big * GRANULE <= WAVE_MIB * HAK_MIB);
	}
}

/* A program that frees all of it, and takes as much again. What is not used again goes. */
static void what_serves_wave_after_wave_is_kept(void **state)
{
	uint64_t misses = 0;

	for (int wave = 0; wave < WAVES; wave++) {
		misses = hak_bigcache_stats.misses;
		take_and_free_a_wave();
	}
	assert_int_equal(hak_bigcache_stats.misses, misses);
	assert_int_equal(kept_bytes(), WAVE_MIB * HAK_MIB);
	for (int second = 0; second < 2; second++) {
		sleep_ms(1100);
		bigcache_tick();
	}
	give_back(EACH);
	assert_true(kept_bytes() <= MOST_REGRET * FLOOR_MIB * HAK_MIB);
}

/* Less than half of what was forced out doubles what may be kept; half of it, and all is kept. */
static void kept_bytes_follow_what_is_missed(void **state)
{
	uint64_t misses, evictions;

	bigcache_reset(); /* nothing is kept, and nothing has been missed */
	take_and_free_a_wave();
	assert_true(kept_bytes() <= FLOOR_MIB * HAK_MIB);
	give_back(WAVE_MIB / 5);
	assert_in_range(kept_bytes(), FLOOR_MIB * HAK_MIB + 1, 2 * FLOOR_MIB * HAK_MIB);
	evictions = hak_bigcache_stats.evictions;
	take_and_free_a_wave();
	assert_int_equal(kept_bytes(), WAVE_MIB * HAK_MIB);
	misses = hak_bigcache_stats.misses;
	take_and_free_a_wave();
	assert_int_equal(hak_bigcache_stats.misses, misses);
	assert_int_equal(hak_bigcache_stats.evictions, evictions);
}

static int by_base(const void *a, const void *b)
{
	uintptr_t first = base_of(*(struct large *const *)a), second = base_of(*(struct large *const *)b);

	return first < second ? -1 : first > second;
}

/* Takes blocks longer than what is kept between those of a wave that live on, and frees them: MiB in all afterwards. */
static size_t take_what_fits_nowhere(unsigned count)
{
	struct large *longer[WAVE];

	for (unsigned i = 0; i < count; i++)
		longer[i] = take(EACH + 1);
	for (unsigned i = 0; i < count; i++)
		large_free(NULL, longer[i]);
	return (kept_bytes() + hak_space.big * GRANULE) / HAK_MIB;
}

/* A quarter more than was in use at most, for what lies in pieces that fit nothing; no more. */
static void pieces_that_do_not_fit_have_room_beside_the_waves(void **state)
{
	struct large *l[WAVE];
	uint64_t evictions;

	for (int wave = 0; wave < WAVES; wave++)
		take_and_free_a_wave();
	for (unsigned i = 0; i < WAVE; i++)
		l[i] = take(EACH);
	qsort(l, WAVE, sizeof *l, by_base);
	evictions = hak_bigcache_stats.evictions;
	for (unsigned i = 0; i < WAVE; i += 2)
		large_free(NULL, l[i]);
	assert_int_equal(take_what_fits_nowhere(5), WAVE_MIB + 5 * (EACH + 1));
	assert_int_equal(hak_bigcache_stats.evictions, evictions);
	assert_true(take_what_fits_nowhere(10) <= WAVE_MIB / 4 * 5);
	assert_true(hak_bigcache_stats.evictions > evictions);
	for (unsigned i = 1; i < WAVE; i += 2)
		large_free(NULL, l[i]);
}

/* Or threads would not be called to look whether it has waited too long when the program stops. */
static void waves_are_bursts_though_nothing_is_evicted(void **state)
{
	hak_settings.purge_delay_ms = 200;
	for (int wave = 0; wave < WAVES; wave++)
		take_and_free_a_wave();
	sleep_ms(150);
	uint64_t evictions = hak_bigcache_stats.evictions;
	unsigned bursts = atomic_load(&hak_purge_bursts.count);
	take_and_free_a_wave();
	assert_int_equal(hak_bigcache_stats.evictions, evictions);
	assert_int_not_equal(atomic_load(&hak_purge_bursts.count), bursts);
}

/* What the cache cuts and joins is no use of it: the rest, which is all but a little, goes in two seconds. */
static void a_part_that_is_used_does_not_keep_the_rest(void **state)
{
	for (int wave = 0; wave < WAVES; wave++)
		take_and_free_a_wave();
	give_back(WAVE_MIB); /* they lie side by side, mostly */
	for (int second = 0; second < 3; second++) {
		sleep_ms(1100);
		give_back((size_t)EACH << second); /* longer than what was cut off before: it is cut again */
		bigcache_tick();
	}
	assert_true(kept_bytes() <= MOST_REGRET * FLOOR_MIB * HAK_MIB);
}

/* The setting holds all the same. */
static void waves_keep_no_more_than_the_setting(void **state)
{
	hak_settings.bigcache_max = 50 * HAK_MIB;
	for (int wave = 0; wave < WAVES; wave++) {
		take_and_free_a_wave();
		assert_true(kept_bytes() <= 50 * HAK_MIB);
	}
	assert_true(kept_bytes() > 40 * HAK_MIB);
}

/* Beside what may be kept it is little: a part of it would stay that may serve nobody. */
static void little_span_is_evicted_whole(void **state)
{
	struct large *live = take(200), *l[11];

	hak_settings.bigcache_max = 41 * HAK_MIB;
	for (unsigned i = 0; i < 11; i++)
		l[i] = take(4);
	for (unsigned i = 0; i < 11; i++)
		large_free(NULL, l[i]);
	assert_int_equal(kept_bytes(), 40 * HAK_MIB);
	bigcache_release(0);
	l[0] = take(40);
	l[1] = take(2);
	large_free(NULL, l[0]);
	large_free(NULL, l[1]);
	assert_int_equal(kept_bytes(), 41 * HAK_MIB); /* 1 MiB of the longer one went */
	large_free(NULL, live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(kept_bytes_bounded_by_floor, start_empty),
		cmocka_unit_test_setup(take_from_empty_cache_null, start_empty),
		cmocka_unit_test_setup(freed_span_serves_next_request, start_empty),
		cmocka_unit_test_setup(aligned_request_gets_aligned_span, start_empty),
		cmocka_unit_test_setup(span_kept_is_told_of, start_empty),
		cmocka_unit_test_setup(smaller_request_of_two_thirds_gets_the_whole, start_empty),
		cmocka_unit_test_setup(smaller_request_leaves_the_rest, start_empty),
		cmocka_unit_test_setup(rest_has_no_guards, start_empty),
		cmocka_unit_test_setup(larger_request_not_served, start_empty),
		cmocka_unit_test_setup(kept_bytes_bounded_by_setting, start_empty),
		cmocka_unit_test_setup(kept_bytes_may_follow_live, start_empty),
		cmocka_unit_test_setup(old_span_is_released, start_empty),
		cmocka_unit_test_setup(old_span_is_released_though_a_neighbour_uses_its_end, start_empty),
		cmocka_unit_test_setup(span_that_is_of_no_use_is_due_as_it_was, start_empty),
		cmocka_unit_test_setup(rest_of_a_cut_is_due_as_it_was, start_empty),
		cmocka_unit_test_setup(delay_minus_one_keeps_all_that_may_be, start_empty),
		cmocka_unit_test_setup(delay_minus_one_keeps_old_span, start_empty),
		cmocka_unit_test_setup(release_keeps_what_it_is_told, start_empty),
		cmocka_unit_test_setup(released_span_leaves_trace, start_empty),
		cmocka_unit_test_setup(middle_sizes_kept_only_if_asked, start_empty),
		cmocka_unit_test_setup(short_aligned_block_serves_the_next, start_empty),
		cmocka_unit_test_setup(end_given_up_serves_the_next, start_empty),
		cmocka_unit_test_setup(end_given_up_is_evicted_from_its_own_end, start_empty),
		cmocka_unit_test_setup(end_taken_for_nothing_goes_back, start_empty),
		cmocka_unit_test_setup(middle_end_kept_only_if_asked, start_empty),
		cmocka_unit_test_setup(growth_into_new_memory_is_a_miss, start_empty),
		cmocka_unit_test_setup(end_given_up_is_no_freed_block, start_empty),
		cmocka_unit_test_setup(span_of_one_granule_is_found, start_empty),
		cmocka_unit_test_setup(reset_forgets, start_empty),
		cmocka_unit_test_setup(spans_random_use_apart, start_empty),
		cmocka_unit_test_setup(little_span_is_evicted_whole, start_empty),
		cmocka_unit_test_setup(what_serves_wave_after_wave_is_kept, start_empty),
		cmocka_unit_test_setup(kept_bytes_follow_what_is_missed, start_empty),
		cmocka_unit_test_setup(pieces_that_do_not_fit_have_room_beside_the_waves, start_empty),
		cmocka_unit_test_setup(waves_are_bursts_though_nothing_is_evicted, start_empty),
		cmocka_unit_test_setup(a_part_that_is_used_does_not_keep_the_rest, start_empty),
		cmocka_unit_test_setup(waves_keep_no_more_than_the_setting, start_empty),
	};

	return UNIT_RUN(tests);
}
