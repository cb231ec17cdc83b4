/* SPDX-License-Identifier: MIT */
#include "front/pocket.h"

#include <string.h>

#include "base/settings.h"
#include "common.h"
#include "front/alloc.h"
#include "front/bigcache.h"
#include "front/heap.h"
#include "os/os.h"
#include "slab/size_class.h"
#include "space/purge.h"

enum { PIECES = 12 * POCKET_PIECES_MOST, LEAST = 8, PART_LARGE = 8, PART_LIVE = 32, SPANS = 40, PART_BIG = 4 };

static struct pocket pocket;
static struct shelf *const pieces = &pocket.shelf[POCKET_PIECES], *const spans = &pocket.shelf[POCKET_SPANS];

static uintptr_t base_of(const struct large *l)
{
	return (uintptr_t)l->span.base;
}

static int start(void **state)
{
	hak_settings.use_superslab = true;
	hak_settings.secure = 0;
	hak_settings.purge_delay_ms = 60000;
	hak_settings.bigcache_max = BIGCACHE_AUTO;
	pocket_release(&pocket);
	pieces->most = spans->most = 0;
	bigcache_release(0);
	purge_all(0); /* big blocks would be where pieces were */
	hak_settings.bigcache_l25 = true;
	return pieces->granules == 0 && spans->granules == 0 && hak_space.large == 0 && space_big() == 0 ? 0 : -1;
}

/* Not out of the pocket. */
static struct large *take(unsigned granules)
{
	bool zero;
	struct large *l = large_alloc(NULL, granules * GRANULE - 5000, 16, &zero);

	assert_non_null(l);
	assert_non_null(l->span.ss);
	return l;
}

static void put(struct large *l)
{
	assert_true(large_free(&pocket, l));
	assert_null(pocket_check(&pocket));
}

/* With something in it, which a second free does not find. */
static void put_written(struct large *l)
{
	uintptr_t base = base_of(l);

	memset(l->span.base, 1, l->usable);
	put(l);
	assert_false(large_free(&pocket, l));
	assert_null(large_of(base));
}

static void put_new(unsigned granules)
{
	put(take(granules));
}

static void freed_piece_serves_next_request(void **state)
{
	struct large *l = take(1);
	uintptr_t base = base_of(l);
	size_t live = hak_space.live;
	bool zero;

	put_written(l);
	assert_int_equal(pieces->granules, 1);
	assert_int_equal(hak_space.live, live);
	l = large_alloc(&pocket, SC_MAX_SIZE + 1, 16, &zero);
	assert_true(base_of(l) == base && !zero);
	assert_ptr_equal(large_of(base), l);
	assert_int_equal(l->usable, large_good_size(SC_MAX_SIZE + 1));
	assert_true(pocket_is_empty(&pocket));
	large_free(NULL, l);
}

/* What lay behind a shorter block is not forgotten: it is not zero. */
static void touched_bytes_are_remembered(void **state)
{
	struct large *l = take(2), *again;
	bool zero;

	put(l);
	again = large_alloc(&pocket, GRANULE + 1, 16, &zero);
	assert_ptr_equal(again, l);
	assert_true(l->touched >= 2 * GRANULE - 5000);
	large_free(NULL, again);
}

static void piece_serves_two_thirds_but_not_less(void **state)
{
	struct large *six = take(6);

	put(six);
	assert_null(pocket_take(&pocket, POCKET_PIECES, 3));
	assert_null(pocket_take(&pocket, POCKET_PIECES, 7));
	assert_null(pocket_take(&pocket, POCKET_PIECES, POCKET_LENGTHS));
	assert_ptr_equal(pocket_take(&pocket, POCKET_PIECES, 4), six);
	pocket_put(&pocket, six);
	assert_ptr_equal(pocket_take(&pocket, POCKET_PIECES, 6), six);
	pocket_put(&pocket, six);
}

static void shortest_that_fits_is_taken_newest_first(void **state)
{
	struct large *l[4];

	for (int i = 0; i < 2; i++)
		put(l[i] = take(2));
	put(l[2] = take(3));
	put(l[3] = take(1));
	assert_ptr_equal(pocket_take(&pocket, POCKET_PIECES, 2), l[1]);
	assert_ptr_equal(pocket_take(&pocket, POCKET_PIECES, 2), l[0]);
	assert_ptr_equal(pocket_take(&pocket, POCKET_PIECES, 2), l[2]);
	assert_null(pocket_take(&pocket, POCKET_PIECES, 2));
	for (int i = 0; i < 3; i++)
		large_release(l[i]);
}

static void bounded_by_what_lives(void **state)
{
	struct large *l[PIECES];

	for (unsigned i = 0; i < PIECES; i++)
		l[i] = take(4);
	for (unsigned i = 0; i < PIECES; i++) {
		size_t most = hak_space.large / PART_LARGE + hak_space.live / PART_LIVE;
		put(l[i]);
		assert_true(pieces->granules <= (most > LEAST ? most : LEAST));
	}
	assert_int_equal(pieces->granules, LEAST);
}

static void threads_share(void **state)
{
	size_t before = hak_space.threads;

	hak_space.threads = 4;
	for (int i = 0; i < 4; i++)
		put_new(1);
	assert_int_equal(pieces->granules, LEAST / 4);
	hak_space.threads = 1000;
	pocket_tick(&pocket); /* looks at the allowance */
	put_new(1);
	assert_int_equal(pieces->granules, 1);
	hak_space.threads = before;
}

/* Of as many as there may be of one length. */
static void oldest_goes_first(void **state)
{
	struct large *l[PIECES];

	for (unsigned i = 0; i < PIECES; i++)
		l[i] = take(1);
	for (unsigned i = 0; i <= POCKET_PIECES_MOST; i++)
		put(l[i]);
	assert_int_equal(atomic_load(&l[0]->state), LARGE_UNUSED);
	for (unsigned i = POCKET_PIECES_MOST; i > 0; i--)
		assert_ptr_equal(pocket_take(&pocket, POCKET_PIECES, 1), l[i]);
	assert_true(pocket_is_empty(&pocket));
	for (unsigned i = 1; i <= POCKET_PIECES_MOST; i++)
		large_release(l[i]);
	for (unsigned i = POCKET_PIECES_MOST + 1; i < PIECES; i++)
		large_free(NULL, l[i]);
}

/* Programs free them by the dozen: each row has room for as many as there may be, and ends where the next begins. */
static void row_has_room_for_all(void **state)
{
	struct large *l[POCKET_PIECES_MOST], *rest[PIECES];

	for (unsigned i = 0; i < PIECES; i++) /* of what lives a part is kept */
		rest[i] = take(1);
	for (unsigned length = 1; length <= POCKET_LENGTHS; length++) {
		unsigned most = POCKET_PIECES_MOST / length;
		for (unsigned i = 0; i < most; i++)
			l[i] = take(length);
		for (unsigned i = 0; i < most; i++)
			put(l[i]);
		assert_int_equal(pieces->granules, most * length);
		for (unsigned i = most; i-- > 0;)
			assert_ptr_equal(pocket_take(&pocket, POCKET_PIECES, length), l[i]);
		assert_true(pocket_is_empty(&pocket));
		for (unsigned i = 0; i < most; i++)
			large_release(l[i]);
	}
	for (unsigned i = 0; i < PIECES; i++)
		large_free(NULL, rest[i]);
}

static void stale_pieces_go(void **state)
{
	hak_settings.purge_delay_ms = 1;
	put_new(1);
	put_new(3);
	for (int i = 0; i < 500 && !pocket_is_empty(&pocket); i++) {
		sleep_ms(1);
		pocket_tick(&pocket);
	}
	assert_true(pocket_is_empty(&pocket));
	assert_int_equal(hak_space.large, 0);
}

static void fresh_pieces_stay(void **state)
{
	put_new(1);
	pocket_tick(&pocket);
	sleep_ms(5);
	pocket_tick(&pocket);
	assert_int_equal(pieces->granules, 1);
	hak_settings.purge_delay_ms = -1;
	sleep_ms(5);
	pocket_tick(&pocket);
	assert_int_equal(pieces->granules, 1);
}

static void nothing_kept_where_nothing_is(void **state)
{
	struct settings before = hak_settings;

	hak_settings.purge_delay_ms = 0;
	put_new(1);
	assert_true(pocket_is_empty(&pocket));
	hak_settings = before;
	hak_settings.bigcache_max = 0;
	put_new(1);
	assert_true(pocket_is_empty(&pocket));
	hak_settings = before;
	hak_settings.secure = 1;
	put_new(1);
	assert_true(pocket_is_empty(&pocket));
	hak_settings = before;
	hak_settings.background = true;
	put_new(1);
	assert_true(pocket_is_empty(&pocket));
	hak_settings = before;
	put_new(1);
	assert_int_equal(pieces->granules, 1);
}

/* Rather than that clean memory becomes resident; not where dirty memory serves. */
static void yields_to_other_uses(void **state)
{
	struct large *l[PIECES];

	for (unsigned i = 0; i < PIECES; i++)
		l[i] = take(1);
	purge_all(0);
	assert_int_equal(hak_space.dirty, 0);
	put(l[0]);
	put(l[1]);
	pocket_yield(&pocket, 1);
	assert_int_equal(pieces->granules, 1);
	for (unsigned i = 2; i < 10; i++)
		large_free(NULL, l[i]);
	assert_true(hak_space.dirty >= 8);
	pocket_yield(&pocket, 1);
	assert_int_equal(pieces->granules, 1);
	pocket_yield(&pocket, 8);
	assert_true(pocket_is_empty(&pocket));
	pocket_yield(&pocket, 8);
	for (unsigned i = 10; i < PIECES; i++)
		large_free(NULL, l[i]);
}

static void flushed_heap_keeps_nothing(void **state)
{
	static struct bin bins[SC_COUNT];
	struct heap *h = heap_acquire(bins, false);

	heap_leave(h);
	assert_true(large_free(&h->pocket, take(1)));
	assert_false(pocket_is_empty(&h->pocket));
	heap_flush(h);
	assert_true(pocket_is_empty(&h->pocket));
	assert_int_equal(hak_space.large, 0);
	assert_true(large_free(&h->pocket, take(1)));
	heap_retire(h);
	assert_int_equal(hak_space.large, 0);
}

static void check_finds_what_is_wrong(void **state)
{
	put_new(2);
	assert_null(pocket_check(&pocket));
	pieces->granules++;
	assert_non_null(pocket_check(&pocket));
	pieces->granules--;
	atomic_store(&pocket.rows->piece[POCKET_ROW_2]->state, LARGE_LIVE);
	assert_non_null(pocket_check(&pocket));
	atomic_store(&pocket.rows->piece[POCKET_ROW_2]->state, LARGE_FREED);
	assert_null(pocket_check(&pocket));
}

/* ---- spans ---- */

/* Not out of the pocket. */
static struct large *take_span(unsigned granules)
{
	bool zero;
	struct large *l = large_alloc(NULL, granules * GRANULE - 100, 16, &zero);

	assert_non_null(l);
	assert_null(l->span.ss);
	assert_int_equal(l->span.granules, granules);
	return l;
}

static struct large *take_kept(unsigned granules)
{
	return pocket_take(&pocket, POCKET_SPANS, granules);
}

static void freed_span_serves_next_request(void **state)
{
	struct large *l = take_span(12);
	uintptr_t base = base_of(l);
	uint64_t hits = hak_bigcache_stats.hits;
	bool zero;

	put_written(l);
	assert_int_equal(spans->granules, 12);
	assert_int_equal(space_big(), 12);
	assert_true(bigcache_is_empty());
	l = large_alloc(&pocket, LARGE_BIG_MIN + 1, 16, &zero);
	assert_true(base_of(l) == base && !zero);
	assert_ptr_equal(large_of(base), l);
	assert_int_equal(hak_bigcache_stats.hits, hits);
	assert_true(pocket_is_empty(&pocket));
	large_clear(l, 0, l->usable);
	assert_int_equal(((char *)l->span.base)[0], 0);
	assert_int_equal(((char *)l->span.base)[l->usable - 1], 0);
	large_free(NULL, l);
	assert_int_equal(space_big(), 0);
}

static void span_serves_two_thirds_but_not_less(void **state)
{
	struct large *l = take_span(24);

	put(l);
	assert_null(take_kept(12));
	assert_null(take_kept(28));
	assert_null(take_kept(POCKET_SPAN_LAST));
	assert_null(take_kept(POCKET_SPAN_LAST + LARGE_BIG_STEP));
	assert_ptr_equal(take_kept(16), l);
	pocket_put(&pocket, l);
	assert_ptr_equal(take_kept(24), l);
	pocket_put(&pocket, l);
}

/* Pieces and spans of eight granules are two things. */
static void sorts_are_kept_apart(void **state)
{
	struct large *piece = take(POCKET_LENGTHS), *span = take_span(POCKET_SPAN_FIRST);

	put(piece);
	put(span);
	assert_ptr_equal(take_kept(POCKET_SPAN_FIRST), span);
	assert_ptr_equal(pocket_take(&pocket, POCKET_PIECES, POCKET_LENGTHS), piece);
	pocket_put(&pocket, span);
	pocket_put(&pocket, piece);
}

static void longer_spans_are_bigcaches(void **state)
{
	put(take_span(POCKET_SPAN_LAST));
	assert_int_equal(spans->granules, POCKET_SPAN_LAST);
	put(take_span(POCKET_SPAN_LAST + LARGE_BIG_STEP));
	assert_int_equal(spans->granules, POCKET_SPAN_LAST);
	assert_false(bigcache_is_empty());
}

static void spans_are_bounded_by_what_lives(void **state)
{
	struct large *l[SPANS];

	for (unsigned i = 0; i < SPANS; i++)
		l[i] = take_span(16);
	for (unsigned i = 0; i < SPANS; i++) {
		size_t most = space_big() / PART_BIG;
		put(l[i]);
		assert_true(spans->granules <= (most > POCKET_SPAN_LAST ? most : POCKET_SPAN_LAST));
	}
	assert_true(spans->granules >= POCKET_SPAN_LAST - 16);
	assert_int_equal(space_big(), spans->granules);
	assert_int_equal(hak_space.pocketed, spans->granules);
	assert_true(hak_space.kept > 0);
}

/* The short ways do not say what they keep and take, but before BigCache is asked for anything it knows. */
static void spans_of_the_short_ways_are_told_later(void **state)
{
	struct large *l[2], *longer;
	bool zero;

	for (unsigned i = 0; i < 2; i++)
		l[i] = take_span(16);
	put(l[0]);
	assert_true(large_win(l[1]));
	assert_true(pocket_keep(&pocket, l[1]));
	assert_int_equal(spans->granules, 2 * 16);
	assert_int_equal(hak_space.pocketed, 16);
	assert_null(pocket_check(&pocket));
	assert_null(pocket_fetch(&pocket, POCKET_SPANS, 32));
	assert_int_equal(hak_space.pocketed, 2 * 16);
	for (unsigned i = 0; i < 2; i++) {
		l[i] = take_kept(16);
		large_start(l[i], l[i]->size, l[i]->usable);
	}
	assert_int_equal(hak_space.pocketed, 2 * 16);
	longer = large_alloc(&pocket, 32 * GRANULE, 16, &zero);
	assert_int_equal(hak_space.pocketed, 0);
	large_free(NULL, longer);
	for (unsigned i = 0; i < 2; i++)
		large_free(NULL, l[i]);
}

/* Else BigCache would keep less for nothing, for as long as the heap has no thread, or its thread no large block. */
static void pocket_emptied_by_the_short_ways_is_told_of(void **state)
{
	void (*const come_by[])(struct pocket *) = {pocket_tick, pocket_release};

	for (unsigned i = 0; i < 2; i++) {
		struct large *l = take_span(16);
		put(l);
		l = take_kept(16);
		large_start(l, l->size, l->usable);
		assert_int_equal(hak_space.pocketed, 16);
		come_by[i](&pocket);
		assert_int_equal(hak_space.pocketed, 0);
		l->home = NULL; /* it goes to BigCache */
		large_free(NULL, l);
	}
}

/* What is in the pocket comes off what BigCache may keep. */
static void spans_and_bigcache_share(void **state)
{
	struct large *l[SPANS], *spare;
	size_t kept[2];

	/* Several times: misses let BigCache have more for a while. */
	for (int round = 0; round < 8; round++) {
		bool pocketed = round % 2 != 0;
		for (unsigned i = 0; i < SPANS; i++)
			l[i] = take_span(64);
		spare = take_span(32);
		if (pocketed)
			put(spare);
		else
			large_free(NULL, spare);
		for (unsigned i = 0; i < SPANS; i++)
			large_free(NULL, l[i]);
		kept[pocketed] = hak_space.kept;
		pocket_release(&pocket);
		bigcache_release(0);
	}
	assert_int_equal(kept[1], kept[0] - 32);
}

static void threads_share_spans(void **state)
{
	size_t before = hak_space.threads;

	hak_space.threads = 4;
	put(take_span(12)); /* a fourth of 36 is less */
	assert_true(pocket_is_empty(&pocket));
	bigcache_release(0);
	put(take_span(POCKET_SPAN_FIRST));
	assert_int_equal(spans->granules, POCKET_SPAN_FIRST);
	hak_space.threads = before;
}

/* To the system, not to BigCache, where they would be new again. */
static void stale_spans_go(void **state)
{
	hak_settings.purge_delay_ms = 1;
	put(take_span(8));
	put(take_span(12));
	for (int i = 0; i < 500 && !pocket_is_empty(&pocket); i++) {
		sleep_ms(1);
		pocket_tick(&pocket);
	}
	assert_true(pocket_is_empty(&pocket));
	assert_true(bigcache_is_empty());
	assert_int_equal(space_big(), 0);
}

/* A request that neither finds takes what both have. */
static void spans_join_those_in_bigcache(void **state)
{
	struct large *l[2], *both;
	bool zero;

	hak_settings.purge_delay_ms = 60000;
	both = take_span(32);
	large_free(NULL, both);
	l[0] = take_span(16); /* out of the same, which is cut */
	l[1] = take_span(16);
	assert_true(base_of(l[1]) == base_of(l[0]) + 16 * GRANULE);
	put(l[0]);
	large_free(NULL, l[1]);
	assert_int_equal(spans->granules, 16);
	both = large_alloc(&pocket, 32 * GRANULE, 16, &zero);
	assert_ptr_equal(both->span.base, l[0]->span.base);
	assert_true(pocket_is_empty(&pocket));
	assert_null(bigcache_check());
	large_free(NULL, both);
}

static void spans_are_bigcaches_where_it_is_set(void **state)
{
	hak_settings.bigcache_l25 = false;
	put(take_span(8));
	put(take_span(POCKET_SPAN_LAST));
	assert_true(pocket_is_empty(&pocket));
	hak_settings.bigcache_l25 = true;
	hak_settings.limit = HAK_GIB;
	put(take_span(8));
	assert_true(pocket_is_empty(&pocket));
	hak_settings.limit = 0;
	hak_settings.bigcache_max = HAK_GIB;
	put(take_span(8));
	assert_true(pocket_is_empty(&pocket));
	hak_settings.bigcache_max = BIGCACHE_AUTO;
	put(take_span(8));
	assert_int_equal(spans->granules, 8);
}

static void check_finds_what_is_wrong_with_spans(void **state)
{
	struct large *l = take_span(8);

	put(l);
	assert_null(pocket_check(&pocket));
	large_set_keeper(l, KEPT_BIGCACHE);
	assert_non_null(pocket_check(&pocket));
	large_set_keeper(l, KEPT_POCKET);
	spans->granules += LARGE_BIG_STEP;
	assert_non_null(pocket_check(&pocket));
	spans->granules -= LARGE_BIG_STEP;
	assert_null(pocket_check(&pocket));
}

/* ---- blocks that come home ---- */

/* As the heap of the pocket makes them. */
static struct large *make(struct pocket *p, size_t granules)
{
	bool zero;
	struct large *l = large_alloc(p, granules * GRANULE - 100, 16, &zero);

	assert_non_null(l);
	return l;
}

static void check_both(const struct pocket *other)
{
	assert_null(pocket_check(&pocket));
	assert_null(pocket_check(other));
	assert_int_equal(hak_space.pocketed, pocket_spans(&pocket) + pocket_spans(other));
}

/* A fork child knows what there is, whoever was giving it back; and what a handler's fork has stopped amid being sent is
   counted when that goes on. */
static void recounted_arrivals_are_those_that_are_there(void **state)
{
	struct arrivals *a = &pocket.arrivals[POCKET_PIECES];
	struct large *l = make(&pocket, 1);
	int32_t counted;

	assert_true(large_free(NULL, l));
	counted = atomic_load(&a->granules);
	assert_int_equal(counted, 1);
	atomic_store(&a->granules, 4);
	pocket_recount(&pocket);
	assert_int_equal(atomic_load(&a->granules), 1);
	atomic_store(&a->granules, 0);
	pocket_recount(&pocket);
	assert_int_equal(atomic_load(&a->granules), 0);
	atomic_store(&a->granules, counted);
	pocket_relieve(&pocket, false);
	assert_null(pocket_check(&pocket));
}

/* Frees it by a thread that has no heap, and makes the next one. */
static void comes_home(size_t granules)
{
	static const struct pocket none;
	struct large *l = make(&pocket, granules), *again;
	uintptr_t base = base_of(l);

	assert_true(large_free(NULL, l));
	assert_false(large_free(NULL, l));
	assert_null(large_of(base));
	assert_true(pocket_is_empty(&pocket) && !pocket_expects_none(&pocket));
	check_both(&none);
	again = make(&pocket, granules);
	assert_ptr_equal(again, l);
	assert_ptr_equal(large_of(base), l);
	assert_true(pocket_expects_none(&pocket));
	check_both(&none);
	assert_true(bigcache_is_empty());
	put(again);
	pocket_release(&pocket);
	bigcache_release(0);
}

static void block_freed_elsewhere_serves_next_request(void **state)
{
	comes_home(2);
	comes_home(POCKET_SPAN_FIRST);
	assert_int_equal(hak_space.large, 0);
	assert_int_equal(space_big(), 0);
}

/* What there is room for stays with the thread that frees. */
static void only_what_finds_no_room_goes_home(void **state)
{
	static struct pocket other;
	struct large *l[POCKET_PIECES_MOST + 2], *rest[PIECES];

	for (unsigned i = 0; i < PIECES; i++) /* of what lives a part is kept */
		rest[i] = take(1);
	for (unsigned i = 0; i < POCKET_PIECES_MOST + 1; i++)
		l[i] = make(&pocket, 1);
	for (unsigned i = 0; i < POCKET_PIECES_MOST + 1; i++)
		put(l[i]);
	assert_int_equal(hak_space.large, PIECES + POCKET_PIECES_MOST); /* here it is at home */
	pocket_release(&pocket);
	for (unsigned i = 0; i < POCKET_PIECES_MOST + 2; i++)
		l[i] = make(&pocket, 1);
	for (unsigned i = 0; i < POCKET_PIECES_MOST + 2; i++)
		assert_true(large_free(&other, l[i]));
	check_both(&other);
	assert_int_equal(other.shelf[POCKET_PIECES].granules, POCKET_PIECES_MOST);
	assert_ptr_equal(make(&pocket, 1), l[POCKET_PIECES_MOST]);
	assert_ptr_equal(make(&pocket, 1), l[POCKET_PIECES_MOST + 1]);
	assert_true(pocket_expects_none(&pocket));
	/* Who takes one out makes it its own. */
	assert_ptr_equal(pocket_take(&other, POCKET_PIECES, 1)->home, &other);
	large_release(l[POCKET_PIECES_MOST]);
	large_release(l[POCKET_PIECES_MOST + 1]);
	large_release(l[POCKET_PIECES_MOST - 1]);
	for (unsigned i = 0; i < PIECES; i++)
		large_free(NULL, rest[i]);
	pocket_release(&other);
	pocket_shut(&other);
}

static void what_comes_home_is_bounded(void **state)
{
	struct large *l[PIECES];

	for (unsigned i = 0; i < PIECES; i++)
		l[i] = make(&pocket, 1);
	for (unsigned i = 0; i < PIECES; i++)
		assert_true(large_free(NULL, l[i]));
	assert_null(pocket_check(&pocket));
	assert_int_equal(hak_space.large, pieces->most);
	pocket_release(&pocket);
	assert_int_equal(hak_space.large, 0);
}

static void what_finds_no_room_at_home_waits_there(void **state)
{
	struct arrivals *a = &pocket.arrivals[POCKET_PIECES];
	struct large *l[PIECES], *longer;

	for (unsigned i = 0; i < PIECES; i++)
		l[i] = make(&pocket, 1);
	for (unsigned i = 0; i < POCKET_PIECES_MOST; i++)
		put(l[i]);
	assert_true(large_free(NULL, l[POCKET_PIECES_MOST]));
	longer = make(&pocket, 2);
	assert_ptr_equal(arrivals_list(a), l[POCKET_PIECES_MOST]);
	assert_null(pocket_check(&pocket));
	for (unsigned i = 0; i <= POCKET_PIECES_MOST; i++)
		l[i] = make(&pocket, 1);
	assert_null(arrivals_list(a));
	large_release(longer);
	for (unsigned i = 0; i < PIECES; i++)
		large_free(&pocket, l[i]);
}

/* Those for which there is no room do not stay. */
static void what_came_home_ages_like_the_rest(void **state)
{
	struct large *l[PIECES];

	for (unsigned i = 0; i < PIECES; i++)
		l[i] = make(&pocket, 1);
	for (unsigned i = 0; i < POCKET_PIECES_MOST + 3; i++)
		assert_true(large_free(NULL, l[i]));
	pocket_tick(&pocket);
	assert_int_equal(pieces->granules, POCKET_PIECES_MOST);
	assert_int_equal(hak_space.large, PIECES - 3);
	hak_settings.purge_delay_ms = 1;
	for (int i = 0; i < 500 && !pocket_expects_none(&pocket); i++) {
		sleep_ms(1);
		pocket_tick(&pocket);
	}
	assert_int_equal(hak_space.large, PIECES - POCKET_PIECES_MOST - 3);
	for (unsigned i = POCKET_PIECES_MOST + 3; i < PIECES; i++)
		large_free(&pocket, l[i]);
}

static void nothing_comes_home_to_nobody(void **state)
{
	struct large *first, *second;

	pocket_shut(&pocket);
	first = make(&pocket, 1);
	second = make(&pocket, 1);
	assert_true(large_free(NULL, first));
	pocket_shut(&pocket);
	assert_int_equal(hak_space.large, 1);
	assert_true(large_free(NULL, second));
	assert_int_equal(hak_space.large, 0);
	/* Nor where nothing is to be kept. */
	hak_settings.secure = 1;
	first = make(&pocket, 1);
	assert_true(large_free(NULL, first));
	assert_int_equal(hak_space.large, 0);
	/* Nor is it taken in where nobody comes by. */
	hak_settings.secure = 0;
	first = make(NULL, 1);
	assert_true(large_free(NULL, first));
	assert_int_equal(hak_space.large, 0);
}

/* Whoever comes by gives back what came home to a thread that sleeps since. */
static void what_came_home_to_a_sleeper_is_given_back(void **state)
{
	struct large *piece = make(&pocket, 1), *other = make(&pocket, 1), *span = make(&pocket, POCKET_SPAN_FIRST);
	uint64_t invited;

	assert_true(large_free(NULL, piece));
	assert_true(large_free(NULL, span));
	assert_true(pocket_relieve(&pocket, true));
	assert_int_equal(hak_space.large, 2);
	invited = atomic_fetch_sub(&pocket.arrivals[POCKET_PIECES].invited, 2 * OS_CYCLES_A_MOMENT);
	assert_true(pocket_relieve(&pocket, true)); /* the span is there still */
	assert_int_equal(hak_space.large, 1);
	assert_int_equal(space_big(), POCKET_SPAN_FIRST);
	assert_true(large_free(NULL, other));
	assert_int_equal(hak_space.large, 0);
	assert_false(pocket_relieve(&pocket, false));
	assert_int_equal(space_big() + hak_space.pocketed, 0);
	assert_null(pocket_check(&pocket));
	atomic_store(&pocket.arrivals[POCKET_PIECES].invited, invited);
}

static void free_elsewhere(struct large *l)
{
	assert_true(large_free(NULL, l));
	assert_int_equal(hak_space.large, 1);
}

static void other_threads_look_after_sleepers(void **state)
{
	static struct bin bins[2][SC_COUNT];
	struct heap *sleeper = heap_acquire(bins[0], false), *other = heap_acquire(bins[1], false);

	heap_leave(sleeper);
	heap_leave(other);
	free_elsewhere(make(&sleeper->pocket, 1));
	release_memory(other, 0); /* at once, if memory is asked for */
	assert_int_equal(hak_space.large, 0);
	free_elsewhere(make(&sleeper->pocket, 1));
	heap_tick(other);
	assert_int_equal(hak_space.large, 1);
	for (int i = 0; i < 500 && hak_space.large != 0; i++) {
		sleep_ms(10);
		heap_tick(other);
	}
	assert_int_equal(hak_space.large, 0);
	heap_retire(sleeper);
	heap_retire(other);
}

static void check_finds_what_is_wrong_with_arrivals(void **state)
{
	struct arrivals *a = &pocket.arrivals[POCKET_PIECES];
	struct large *l = make(&pocket, 2);

	assert_true(large_free(NULL, l));
	assert_null(pocket_check(&pocket));
	a->granules++;
	assert_non_null(pocket_check(&pocket));
	a->granules--;
	large_set_keeper(l, KEPT_NOT);
	assert_non_null(pocket_check(&pocket));
	large_set_keeper(l, KEPT_POCKET);
	assert_null(pocket_check(&pocket));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(freed_piece_serves_next_request, start),
		cmocka_unit_test_setup(touched_bytes_are_remembered, start),
		cmocka_unit_test_setup(piece_serves_two_thirds_but_not_less, start),
		cmocka_unit_test_setup(shortest_that_fits_is_taken_newest_first, start),
		cmocka_unit_test_setup(bounded_by_what_lives, start),
		cmocka_unit_test_setup(threads_share, start),
		cmocka_unit_test_setup(oldest_goes_first, start),
		cmocka_unit_test_setup(row_has_room_for_all, start),
		cmocka_unit_test_setup(stale_pieces_go, start),
		cmocka_unit_test_setup(fresh_pieces_stay, start),
		cmocka_unit_test_setup(nothing_kept_where_nothing_is, start),
		cmocka_unit_test_setup(yields_to_other_uses, start),
		cmocka_unit_test_setup(flushed_heap_keeps_nothing, start),
		cmocka_unit_test_setup(check_finds_what_is_wrong, start),
		cmocka_unit_test_setup(freed_span_serves_next_request, start),
		cmocka_unit_test_setup(span_serves_two_thirds_but_not_less, start),
		cmocka_unit_test_setup(sorts_are_kept_apart, start),
		cmocka_unit_test_setup(longer_spans_are_bigcaches, start),
		cmocka_unit_test_setup(spans_are_bounded_by_what_lives, start),
		cmocka_unit_test_setup(spans_of_the_short_ways_are_told_later, start),
		cmocka_unit_test_setup(pocket_emptied_by_the_short_ways_is_told_of, start),
		cmocka_unit_test_setup(spans_and_bigcache_share, start),
		cmocka_unit_test_setup(threads_share_spans, start),
		cmocka_unit_test_setup(stale_spans_go, start),
		cmocka_unit_test_setup(spans_join_those_in_bigcache, start),
		cmocka_unit_test_setup(spans_are_bigcaches_where_it_is_set, start),
		cmocka_unit_test_setup(check_finds_what_is_wrong_with_spans, start),
		cmocka_unit_test_setup(block_freed_elsewhere_serves_next_request, start),
		cmocka_unit_test_setup(only_what_finds_no_room_goes_home, start),
		cmocka_unit_test_setup(what_comes_home_is_bounded, start),
		cmocka_unit_test_setup(what_finds_no_room_at_home_waits_there, start),
		cmocka_unit_test_setup(what_came_home_ages_like_the_rest, start),
		cmocka_unit_test_setup(nothing_comes_home_to_nobody, start),
		cmocka_unit_test_setup(what_came_home_to_a_sleeper_is_given_back, start),
		cmocka_unit_test_setup(other_threads_look_after_sleepers, start),
		cmocka_unit_test_setup(recounted_arrivals_are_those_that_are_there, start),
		cmocka_unit_test_setup(check_finds_what_is_wrong_with_arrivals, start),
	};

	return UNIT_RUN(tests);
}
