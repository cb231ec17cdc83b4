/* SPDX-License-Identifier: MIT */
#include "front/large.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/settings.h"
#include "common.h"
#include "front/alloc.h"
#include "front/bigcache.h"
#include "front/pocket.h"
#include "front/quarantine.h"
#include "observe/check.h"
#include "os/os.h"
#include "slab/size_class.h"
#include "space/pagemap.h"
#include "space/purge.h"

enum { SLOTS = 24, ROUNDS = 1500 };

enum { PIECES = 7, PIECE = 4 }; /* of granules, side by side in one SuperSlab */

static int start_empty(void **state)
{
	hak_settings.bigcache_max = BIGCACHE_AUTO;
	bigcache_release(0);
	purge_all(0);
	return hak_space.live + hak_space.big + hak_space.large + hak_space.idle == 0 ? 0 : -1;
}

static struct large *take(size_t size)
{
	bool zero;
	struct large *l = large_alloc(NULL, size, 16, &zero);

	assert_non_null(l);
	if (zero)
		assert_true(bytes_are(l->span.base, l->usable, 0));
	return l;
}

static uintptr_t base_of(const struct large *l)
{
	return (uintptr_t)l->span.base;
}

static bool is_tagged(const struct large *l)
{
	for (size_t i = 0; i < l->span.granules; i++) {
		struct pagemap_entry e = pagemap_lookup(base_of(l) + i * GRANULE);
		if (e.tag != TAG_LARGE || e.desc != l)
			return false;
	}
	return true;
}

static void alloc_any_size_usable_and_tagged(void **state)
{
	static const size_t sizes[] = {SC_MAX_SIZE + 1, 65535, 65536, 65537, LARGE_BIG_MIN - 1,
		LARGE_BIG_MIN, LARGE_BIG_MIN + 1, LARGE_L2_MIN, 5 * HAK_MIB + 3};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct large *l = take(sizes[i]);
		assert_true(l->usable >= sizes[i] && l->usable - sizes[i] < os_facts.page_size);
		assert_int_equal(l->usable, large_good_size(sizes[i]));
		assert_true(is_tagged(l));
		assert_int_equal(l->span.ss == NULL, l->usable >= LARGE_BIG_MIN);
		assert_ptr_equal(large_of(base_of(l)), l);
		assert_ptr_equal(large_of(base_of(l) + l->usable - 1), l);
		assert_null(large_of(base_of(l) + l->usable));
		memset(l->span.base, 1, l->usable);
		assert_true(large_free(NULL, l));
		assert_null(large_of(base_of(l)));
		bigcache_release(0);
		assert_int_equal(hak_space.live + hak_space.big + hak_space.large, 0);
	}
}

static void alloc_any_alignment_aligned(void **state)
{
	bool zero;

	for (size_t align = 16; align <= 16 * HAK_MIB; align *= 2)
		for (size_t size = 1; size <= HAK_MIB; size += 300000) {
			struct large *l = large_alloc(NULL, size, align, &zero);
			assert_non_null(l);
			assert_int_equal(base_of(l) % align, 0);
			assert_true(l->usable >= size);
			large_free(NULL, l);
		}
}

static void alloc_impossible_size_null(void **state)
{
	bool zero;

	assert_int_equal(large_good_size(SIZE_MAX), 0);
	assert_int_equal(large_good_size(PTRDIFF_MAX), 0);
	assert_null(large_alloc(NULL, SIZE_MAX, 16, &zero));
	assert_null(large_alloc(NULL, PTRDIFF_MAX, 16, &zero));
	assert_null(large_alloc(NULL, (size_t)1 << 62, 16, &zero));
	assert_null(large_alloc(NULL, 1, (size_t)1 << 63, &zero));
	assert_int_equal(hak_space.big, 0);
}

static void block_freed_twice_refused(void **state)
{
	struct large *l = take(HAK_MIB);

	assert_true(large_free(NULL, l));
	assert_false(large_free(NULL, l));
	assert_int_equal(hak_space.big, 0);
}

static void resize_in_superslab_takes_and_gives_neighbours(void **state)
{
	struct large *a = take(100000), *b = take(100000);

	assert_true(base_of(b) == base_of(a) + 2 * GRANULE);
	memset(a->span.base, 7, a->usable);
	assert_true(large_resize(a, 2 * GRANULE, true));
	assert_false(large_resize(a, 2 * GRANULE + 1, true));
	large_free(NULL, b);
	assert_true(large_resize(a, 300000, true));
	assert_true(bytes_are(a->span.base, 100000, 7));
	assert_true(is_tagged(a));
	assert_int_equal(a->span.granules, 5);
	assert_true(large_resize(a, 40000, true));
	assert_int_equal(hak_space.live, 1);
	assert_int_equal(pagemap_tag(base_of(a) + GRANULE), TAG_FREE);
	assert_true(bytes_are(a->span.base, 40000, 7));
	large_free(NULL, a);
}

/* The rest of a block's last granule, if it is worth counting, is idle until the block grows into it, or another does
   that gets the granule out of a pocket. */
static void rest_of_granule_is_idle_until_it_is_used(void **state)
{
	enum { SMALL = 36 * 1024, FULL = 60 * 1024 };
	static struct pocket pocket;
	struct large *l = take(SMALL);
	bool zero;

	assert_int_equal(hak_space.idle, GRANULE - SMALL);
	assert_true(large_resize(l, SMALL + os_facts.page_size, true));
	assert_int_equal(hak_space.idle, 0);
	large_free(NULL, l);
	purge_all(0);

	l = take(SMALL);
	assert_true(large_free(&pocket, l));
	assert_ptr_equal(large_alloc(&pocket, SMALL, 16, &zero), l);
	assert_int_equal(hak_space.idle, GRANULE - SMALL);
	assert_true(large_free(&pocket, l));
	assert_ptr_equal(large_alloc(&pocket, FULL, 16, &zero), l);
	assert_int_equal(hak_space.idle, 0);
	large_free(NULL, l);
	pocket_release(&pocket);
}

static struct large *last; /* at the SuperSlab's end, where it cannot grow */

/* What that many pieces had, which were written to. */
static uintptr_t leave_pieces(void)
{
	struct large *piece[PIECES];

	for (unsigned i = 0; i < PIECES; i++) {
		piece[i] = take(PIECE * GRANULE);
		assert_true(base_of(piece[i]) == base_of(piece[0]) + i * PIECE * GRANULE);
		memset(piece[i]->span.base, 5, piece[i]->usable);
	}
	last = take(PIECE * GRANULE);
	uintptr_t base = base_of(piece[0]);
	assert_true(base_of(last) + PIECE * GRANULE == base + SUPERSLAB);
	for (unsigned i = 0; i < PIECES; i++)
		large_free(NULL, piece[i]);
	assert_int_equal(hak_space.dirty, PIECES * PIECE);
	return base;
}

/* As realloc does: what the last piece is to be copied to. */
static struct large *take_copy(size_t size)
{
	assert_false(large_resize(last, size, false));
	assert_false(large_move(last, size, false));
	return take(size);
}

static void big_block_takes_the_place_of_pieces(void **state)
{
	uintptr_t base = leave_pieces();
	size_t most = PIECES * PIECE * GRANULE, mapped = os_mapped();
	bool zero;

	assert_false(large_resize(last, most - 100, false));
	struct large *l = large_alloc(NULL, most - 100, 16, &zero);

	assert_non_null(l);
	assert_true(base_of(l) == base);
	assert_false(zero);
	assert_true(is_tagged(l));
	assert_int_equal(l->usable, most);
	assert_int_equal(hak_space.dirty, 0);
	assert_int_equal(hak_space.big, 0);
	assert_int_equal(hak_space.large, SUPERSLAB_GRANULES);
	assert_int_equal(os_mapped(), mapped);
	large_free(NULL, last);
	large_clear(l, 0, l->usable);
	assert_true(bytes_are(l->span.base, most, 0));
	assert_true(large_resize(l, LARGE_BIG_MIN, true)); /* the rest is free again */
	assert_int_equal(hak_space.large, LARGE_BIG_MIN / GRANULE);
	assert_int_equal(hak_space.live, hak_space.large);
	assert_true(large_resize(l, LARGE_L2_MIN, true)); /* to the SuperSlab's end */
	assert_false(large_resize(l, LARGE_L2_MIN + 1, true));
	assert_false(large_move(l, LARGE_L2_MIN + 1, false));
	assert_true(large_free(NULL, l));
	assert_false(large_free(NULL, l));
	assert_true(bigcache_is_empty());
	assert_int_equal(hak_space.large, 0);
}

/* Where it grew out of no other, where more is dirty, but not side by side, where all is clean, or beyond what a SuperSlab
   is aligned to. */
static void big_block_else_has_a_mapping_of_its_own(void **state)
{
	uintptr_t base = leave_pieces();
	bool zero;
	struct large *big = take(PIECES * PIECE * GRANULE);

	assert_null(big->span.ss);
	large_free(NULL, big);
	bigcache_release(0);
	big = take_copy(PIECES * PIECE * GRANULE);
	assert_non_null(big->span.ss);
	large_free(NULL, big);
	big = take(PIECES * PIECE * GRANULE); /* only once */
	assert_null(big->span.ss);
	large_free(NULL, big);
	bigcache_release(0);

	struct large *first = take(PIECE * GRANULE), *hole = take(PIECE * GRANULE), *aligned;
	assert_true(base_of(hole) == base + PIECE * GRANULE);
	large_free(NULL, first);
	big = take_copy((5 * PIECE + 1) * GRANULE);
	assert_null(big->span.ss);
	assert_int_equal(hak_space.superslabs, 1);
	large_free(NULL, big);
	bigcache_release(0);
	assert_false(large_resize(last, HAK_MIB, false));
	aligned = large_alloc(NULL, HAK_MIB, 2 * GRANULE, &zero);
	assert_non_null(aligned);
	assert_null(aligned->span.ss);
	large_free(NULL, aligned);
	bigcache_release(0);
	purge_all(GRANULE); /* unmaps nothing */
	assert_int_equal(hak_space.dirty, 0);
	big = take_copy(HAK_MIB);
	assert_null(big->span.ss);
	large_free(NULL, big);
	bigcache_release(0);
	big = take_copy(LARGE_L2_MIN + 1);
	assert_null(big->span.ss);
	large_free(NULL, big);
	large_free(NULL, hole);
	large_free(NULL, last);
}

/* Which is resident as well, and costs less. */
static void what_bigcache_keeps_comes_first(void **state)
{
	struct large *big = take(HAK_MIB);

	large_free(NULL, big);
	leave_pieces();
	big = take_copy(HAK_MIB);
	assert_null(big->span.ss);
	large_free(NULL, big);
	large_free(NULL, last);
}

static void resize_big_counts_and_keeps_contents(void **state)
{
	struct large *l = take(6 * HAK_MIB);

	memset(l->span.base, 9, l->usable);
	assert_true(large_resize(l, 3 * HAK_MIB, true));
	assert_true(l->usable == 3 * HAK_MIB);
	assert_int_equal(hak_space.big, 48);
	assert_int_equal(hak_space.kept, 48);
	assert_int_equal(pagemap_tag(base_of(l) + 3 * HAK_MIB), TAG_LARGE_CACHED);
	assert_null(large_of(base_of(l) + 3 * HAK_MIB));
	assert_null(large_of(base_of(l) + 4 * HAK_MIB));
	assert_true(large_resize(l, 5 * HAK_MIB, true));
	assert_int_equal(hak_space.big, 80);
	assert_int_equal(hak_space.kept, 16);
	assert_true(is_tagged(l));
	assert_true(bytes_are(l->span.base, 3 * HAK_MIB, 9));
	assert_true(l->touched >= 5 * HAK_MIB);
	assert_false(large_resize(l, SIZE_MAX, true));
	large_free(NULL, l);
}

/* Where BigCache keeps nothing what is given up goes back to the system, and growth is new. */
static void resize_big_without_bigcache_unmaps(void **state)
{
	struct large *l = take(8 * HAK_MIB);

	hak_settings.bigcache_max = 0;
	memset(l->span.base, 9, l->usable);
	assert_true(large_resize(l, 3 * HAK_MIB, true));
	assert_int_equal(hak_space.big, 48);
	assert_int_equal(pagemap_tag(base_of(l) + 3 * HAK_MIB), TAG_NONE);
	if (large_resize(l, 6 * HAK_MIB, true)) {
		assert_int_equal(hak_space.big, 96);
		assert_true(bytes_are((char *)l->span.base + 3 * HAK_MIB, 3 * HAK_MIB, 0));
	}
	assert_true(is_tagged(l));
	assert_true(bytes_are(l->span.base, 3 * HAK_MIB, 9));
	large_free(NULL, l);
}

/* It must be known to be cleared, and what is kept is not looked at again. */
static void end_of_hardened_block_is_not_kept(void **state)
{
	struct large *l = take(6 * HAK_MIB);

	hak_settings.secure = 1;
	assert_true(large_resize(l, 3 * HAK_MIB, true));
	hak_settings.secure = 0;
	assert_int_equal(hak_space.kept, 0);
	assert_int_equal(pagemap_tag(base_of(l) + 3 * HAK_MIB), TAG_NONE);
	large_free(NULL, l);
}

/* What there is of memory bounds what a block may grow to by far, not what it may grow to from much. */
static void sparse_block_beyond_memory_moves(void **state)
{
	size_t memory = os_facts.memory;
	struct large *l = take(64 * HAK_MIB);

	os_facts.memory = 16 * HAK_MIB;
	assert_false(large_move(l, 200 * HAK_MIB, false));
	assert_true(large_move(l, 100 * HAK_MIB, false));
	assert_true(is_tagged(l));
	os_facts.memory = memory;
	large_free(NULL, l);
}

/* It goes on in new memory behind that, or moves, with all of it. */
static void growth_begins_with_what_is_kept_behind(void **state)
{
	struct large *l = take(6 * HAK_MIB);

	memset(l->span.base, 9, l->usable);
	assert_true(large_resize(l, 3 * HAK_MIB, true));
	if (!large_resize(l, 10 * HAK_MIB, false))
		assert_true(large_move(l, 10 * HAK_MIB, false));
	assert_int_equal(hak_space.kept, 0);
	assert_true(is_tagged(l));
	assert_int_equal(hak_space.big, l->span.granules);
	assert_true(bytes_are(l->span.base, 6 * HAK_MIB, 9));
	assert_true(bytes_are((char *)l->span.base + 6 * HAK_MIB, 4 * HAK_MIB, 0));
	large_free(NULL, l);
}

/* What was moved to where it is the system keeps apart from what is mapped before it, and lengthens and moves only the one
   or the other. `kept`: how much of it is kept there. */
static struct large *take_before_moved(size_t size, size_t kept)
{
	size_t max = hak_settings.bigcache_max;
	struct large *moved, *l;

	bigcache_release(0);
	moved = take(5 * HAK_MIB);
	memset(moved->span.base, 9, moved->usable);
	assert_true(large_move(moved, 6 * HAK_MIB, true));
	l = take(size);
	memset(l->span.base, 9, HAK_MIB);
	if (base_of(l) + (l->span.granules << GRANULE_SHIFT) != base_of(moved)) {
		large_free(NULL, l);
		large_free(NULL, moved);
		skip(); /* the system placed them otherwise */
	}
	hak_settings.bigcache_max = 0;
	assert_true(large_resize(moved, kept, true));
	hak_settings.bigcache_max = max;
	large_free(NULL, moved);
	assert_int_equal(hak_space.kept * GRANULE, kept);
	return l;
}

static void assert_grows_in_its_memory(struct large *l, size_t size)
{
	if (!large_resize(l, size, false))
		assert_true(large_move(l, size, false));
	assert_true(is_tagged(l));
	assert_int_equal(hak_space.big, l->span.granules);
	assert_true(bytes_are(l->span.base, HAK_MIB, 9));
	large_free(NULL, l);
	assert_null(bigcache_check());
}

static void growth_does_not_begin_with_what_makes_it_a_copy(void **state)
{
	/* No little of what is there, but no help. */
	assert_grows_in_its_memory(take_before_moved(8 * HAK_MIB, 2 * HAK_MIB), 40 * HAK_MIB);
}

/* It would have to be copied then, the next time, for little. */
static void long_block_does_not_grow_by_little_that_is_kept(void **state)
{
	struct large *l = take_before_moved(64 * HAK_MIB, 2 * HAK_MIB);

	if (!large_resize(l, 65 * HAK_MIB, false))
		assert_true(large_move(l, 65 * HAK_MIB, false));
	assert_int_equal(hak_space.kept * GRANULE, 2 * HAK_MIB);
	assert_grows_in_its_memory(l, 200 * HAK_MIB);
}

/* Three that lie side by side, the first of them lowest; false: the system placed them otherwise. */
static bool take_row(struct large *row[3])
{
	bigcache_release(0);
	for (unsigned i = 3; i-- > 0;) {
		row[i] = take(2 * HAK_MIB);
		memset(row[i]->span.base, 9, row[i]->usable);
	}
	return base_of(row[1]) == base_of(row[0]) + 2 * HAK_MIB && base_of(row[2]) == base_of(row[1]) + 2 * HAK_MIB;
}

/* However many spans that is; of the last no more than it needs, and the descriptors are there for others. */
static void growth_joins_what_is_kept_behind(void **state)
{
	struct large *row[3], *first;

	if (!take_row(row))
		skip();
	large_free(NULL, row[1]);
	large_free(NULL, row[2]);
	assert_true(large_resize(row[0], 4 * HAK_MIB + os_facts.page_size, false));
	assert_int_equal(row[0]->span.granules, 68);
	assert_true(row[0]->touched >= 68 * GRANULE); /* not what it uses, but what is not zero */
	assert_int_equal(hak_space.kept, 28);
	first = large_new_descriptor();
	assert_ptr_equal(first, row[1]);
	large_put_descriptor(first);
	assert_true(is_tagged(row[0]));
	large_free(NULL, row[0]);
	assert_null(bigcache_check());
}

static void growth_where_it_is_that_fails_changes_nothing(void **state)
{
	struct large *row[3];

	if (!take_row(row))
		skip();
	large_free(NULL, row[1]);
	assert_false(large_resize(row[0], 6 * HAK_MIB, true)); /* the third is in the way */
	assert_int_equal(row[0]->span.granules, 32);
	assert_int_equal(hak_space.kept, 32);
	assert_int_equal(hak_space.big, 64);
	assert_null(bigcache_check());
	large_free(NULL, row[0]);
	large_free(NULL, row[2]);
}

/* A little is not worth copying the rest, and what must stay where it is is not copied. */
static void growth_is_copied_where_much_is_kept(void **state)
{
	struct large *l = take(6 * HAK_MIB), *kept = take(4 * HAK_MIB);
	size_t max = hak_settings.bigcache_max;

	hak_settings.bigcache_max = 0;
	assert_true(large_resize(l, 2 * HAK_MIB, true)); /* what lies behind is free */
	hak_settings.bigcache_max = max;
	large_free(NULL, kept);
	assert_int_equal(hak_space.kept, 64);
	assert_false(large_resize(l, 4 * HAK_MIB, false));
	assert_false(large_move(l, 4 * HAK_MIB, false));
	assert_int_equal(l->span.granules, 32);
	assert_true(large_resize(l, 5 * HAK_MIB / 2, false));
	assert_true(large_resize(l, 4 * HAK_MIB, true));
	assert_int_equal(hak_space.kept, 64);
	large_free(NULL, l);
}

/* New memory comes in front of what is kept, where that is free. */
static void long_block_takes_a_shorter_span_and_new_memory(void **state)
{
	struct large *l = take(6 * HAK_MIB);
	uintptr_t base = base_of(l);
	bool zero;

	hak_settings.bigcache_max = 4 * HAK_MIB;
	memset(l->span.base, 9, l->usable);
	large_free(NULL, l);
	assert_int_equal(hak_space.kept, 4 * HAK_MIB / GRANULE); /* what came first was evicted */
	l = large_alloc(NULL, 6 * HAK_MIB - GRANULE - 1, 16, &zero);
	assert_true(base_of(l) == base);
	assert_int_equal(hak_space.kept, 0);
	assert_int_equal(hak_space.big, 6 * HAK_MIB / GRANULE);
	assert_true(is_tagged(l));
	assert_false(zero);
	assert_true(l->touched >= 6 * HAK_MIB);
	assert_true(bytes_are(l->span.base, 2 * HAK_MIB, 0));
	assert_true(bytes_are((char *)l->span.base + 2 * HAK_MIB, 4 * HAK_MIB, 9));
	large_free(NULL, l);
}

static void long_block_takes_what_joins(void **state)
{
	struct large *l = take(6 * HAK_MIB), *half[2];
	uintptr_t base = base_of(l);

	hak_settings.bigcache_max = 4 * HAK_MIB;
	large_free(NULL, l);
	for (unsigned i = 0; i < 2; i++)
		half[i] = take(2 * HAK_MIB);
	for (unsigned i = 0; i < 2; i++)
		large_free(NULL, half[i]);
	l = take(6 * HAK_MIB);
	assert_true(base_of(l) == base);
	assert_int_equal(hak_space.kept, 0);
	large_free(NULL, l);
}

/* The span goes back to where it was. */
static void long_block_with_no_room_in_front_of_a_span_is_new(void **state)
{
	struct large *l = take(6 * HAK_MIB), *other;
	uintptr_t base = base_of(l);
	size_t mapped;
	void *room;

	hak_settings.bigcache_max = 4 * HAK_MIB;
	large_free(NULL, l);
	room = os_map((void *)base, GRANULE);
	assert_true((uintptr_t)room == base);
	mapped = os_mapped();
	other = take(6 * HAK_MIB);
	assert_true(os_mapped() == mapped + 6 * HAK_MIB);
	assert_true(base_of(other) != base);
	assert_true(is_tagged(other));
	assert_int_equal(hak_space.kept, 4 * HAK_MIB / GRANULE);
	assert_int_equal(hak_space.big, 6 * HAK_MIB / GRANULE);
	l = take(4 * HAK_MIB);
	assert_true(base_of(l) == base + 2 * HAK_MIB);
	os_unmap(room, GRANULE);
	large_free(NULL, l);
	large_free(NULL, other);
}

/* One that was made when there was no room for the granules that its like have beside. */
static void block_without_spare_granules_shrinks(void **state)
{
	enum { SIZE = 600 << 10, LEAST = 10 };
	bool zero;

	large_free(NULL, take(SIZE)); /* descriptors are there */
	bigcache_release(0);
	hak_settings.limit = os_mapped() + LEAST * GRANULE;
	struct large *l = large_alloc(NULL, SIZE, 16, &zero);
	hak_settings.limit = os_mapped();
	bool done = l != NULL && large_resize(l, SIZE - 10000, true);
	hak_settings.limit = 0;
	assert_non_null(l);
	assert_int_equal(l->span.granules, LEAST);
	assert_true(done);
	assert_int_equal(l->span.granules, LEAST);
	large_free(NULL, l);
}

/* A block in a span that is longer than it need be gives nothing of it back when it grows, and does when it shrinks. */
static void growth_within_the_span_keeps_it_whole(void **state)
{
	static struct pocket pocket;
	struct large *l = take(3 * HAK_MIB);
	size_t granules = l->span.granules;
	bool zero;

	large_free(NULL, l);
	l = take(2 * HAK_MIB);
	assert_int_equal(l->span.granules, granules);
	for (size_t size = 2 * HAK_MIB; size <= 3 * HAK_MIB; size += GRANULE) {
		assert_true(large_resize(l, size, true));
		assert_int_equal(l->span.granules, granules);
		assert_int_equal(hak_space.big, granules);
	}
	assert_true(large_resize(l, 2 * HAK_MIB, true));
	assert_int_equal(l->span.granules, 2 * HAK_MIB / GRANULE);
	large_free(NULL, l);

	l = take(3 * GRANULE);
	assert_true(large_free(&pocket, l));
	l = large_alloc(&pocket, 2 * GRANULE, 16, &zero);
	assert_non_null(l);
	granules = l->span.granules;
	assert_true(large_resize(l, 2 * GRANULE + 1, true));
	assert_int_equal(l->span.granules, max_size(granules, 3));
	large_free(NULL, l);
	pocket_release(&pocket);
}

/* An eighth of a large block is much. */
static void little_of_much_is_given_up(void **state)
{
	struct large *l = take(128 * HAK_MIB);

	assert_true(large_resize(l, 125 * HAK_MIB, true));
	assert_int_equal(l->span.granules, 128 * HAK_MIB / GRANULE);
	assert_true(large_resize(l, 120 * HAK_MIB, true));
	assert_int_equal(l->span.granules, 120 * HAK_MIB / GRANULE);
	large_free(NULL, l);
}

/* To less than half, so that the next as long finds all of it; unless that is much, or there is no memory for a copy. */
static void block_that_shrinks_to_little_is_copied(void **state)
{
	static const struct { size_t from, to; } shrinks[] = {
		{ 96 << 10, (48 << 10) - 1 }, { 2 * HAK_MIB, HAK_MIB - 1 }, { 64 * HAK_MIB, 4 * HAK_MIB - 1 },
	};

	for (unsigned i = 0; i < sizeof shrinks / sizeof shrinks[0]; i++) {
		struct large *l = take(shrinks[i].from);
		size_t granules = l->span.granules;
		void *block = l->span.base;

		assert_false(block_resize(block, shrinks[i].to, false));
		assert_null(block_move(block, shrinks[i].to, false));
		assert_int_equal(l->usable, shrinks[i].from);
		assert_int_equal(l->span.granules, granules);
		assert_true(block_resize(block, shrinks[i].to + 1, false));
		assert_in_range(l->span.granules, 1, large_granules(shrinks[i].to + 1));
		assert_true(block_resize(block, 1, true));
		assert_in_range(l->usable, SC_MAX_SIZE + 1, GRANULE);
		large_free(NULL, l);
	}
}

static void move_big_takes_contents_along(void **state)
{
	struct large *l = take(3 * HAK_MIB), *small = take(100000);
	uintptr_t from = base_of(l);

	memset(l->span.base, 5, l->usable);
	assert_false(large_move(small, HAK_MIB, false));
	assert_true(large_move(l, 40 * HAK_MIB, false));
	assert_true(base_of(l) != from && l->usable >= 40 * HAK_MIB);
	assert_true(is_tagged(l));
	assert_true(bytes_are(l->span.base, 3 * HAK_MIB, 5));
	assert_true(bytes_are((char *)l->span.base + 3 * HAK_MIB, HAK_MIB, 0));
	assert_int_equal(hak_space.big, l->span.granules);
	assert_int_equal(pagemap_tag(from), TAG_LARGE_GONE);
	assert_int_equal(pagemap_tag(from + GRANULE), TAG_NONE);
	large_free(NULL, small);
	large_free(NULL, l);
}

/* Where many such are in use a copy is cheaper; there may be no memory for one. */
static void move_of_one_among_many_only_if_it_must(void **state)
{
	enum { OTHERS = 40 };
	struct large *other[OTHERS], *l = take(HAK_MIB);

	for (int i = 0; i < OTHERS; i++)
		other[i] = take(HAK_MIB);
	memset(l->span.base, 5, l->usable);
	uintptr_t from = base_of(l);
	assert_false(large_move(l, 3 * HAK_MIB / 2, false));
	assert_int_equal(base_of(l), from);
	assert_true(large_move(l, 3 * HAK_MIB / 2, true));
	assert_true(l->usable >= 3 * HAK_MIB / 2 && bytes_are(l->span.base, HAK_MIB, 5));
	large_free(NULL, l);
	for (int i = 0; i < OTHERS; i++)
		large_free(NULL, other[i]);
}

static bool forks_amid_moves, refuses_moves;
static unsigned forks;

/* A child has other things to do than to move the block. */
static void fork_and_check(void)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(check_heap() == 0 ? 0 : 1);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	forks++;
}

enum os_move_result __wrap_os_move(void *addr, size_t old_size, size_t new_size, void *target, bool must);
enum os_move_result __real_os_move(void *addr, size_t old_size, size_t new_size, void *target, bool must);
enum os_move_result __wrap_os_move(void *addr, size_t old_size, size_t new_size, void *target, bool must)
{
	enum os_move_result result = MOVE_REFUSED;

	if (forks_amid_moves)
		fork_and_check();
	if (!refuses_moves)
		result = __real_os_move(addr, old_size, new_size, target, must);
	if (forks_amid_moves)
		fork_and_check();
	return result;
}

static void fork_child_finds_no_block_that_is_half_moved(void **state)
{
	struct large *l = take(3 * HAK_MIB);
	uintptr_t from = base_of(l);

	forks_amid_moves = true;
	for (int i = 0; i < 2; i++) {
		refuses_moves = i == 0;
		assert_int_equal(large_move(l, 40 * HAK_MIB, false), i == 1);
		assert_int_equal(base_of(l) != from, i == 1);
		assert_ptr_equal(large_of(base_of(l)), l);
		assert_int_equal(check_heap(), 0);
	}
	forks_amid_moves = refuses_moves = false;
	assert_int_equal(forks, 4);
	assert_true(large_free(NULL, l));
	assert_int_equal(hak_space.big, 0);
}

static bool is_resident(void *page)
{
	unsigned char in_core = 0;

	assert_int_equal(mincore(page, os_facts.page_size, &in_core), 0);
	return (in_core & 1) != 0;
}

/* New pages would cost the program more, unless they are so many that it may never use them. */
static void block_cleared_keeps_its_pages_unless_very_long(void **state)
{
	static const size_t sizes[] = {HAK_MIB, 16 * HAK_MIB, 17 * HAK_MIB};
	struct large *much = take(64 * HAK_MIB); /* no small heap */

	for (unsigned i = 0; i < 3; i++) {
		struct large *l = take(sizes[i]);
		char *last_page = (char *)l->span.base + sizes[i] - os_facts.page_size;

		memset(l->span.base, 7, sizes[i]);
		l->touched = l->usable; /* as in one that was kept */
		large_clear(l, 0, l->usable);
		assert_true(is_resident(last_page) == (sizes[i] <= 16 * HAK_MIB));
		assert_true(bytes_are(l->span.base, sizes[i], 0));
		assert_true(large_free(NULL, l));
	}
	assert_true(large_free(NULL, much));
}

/* What is claimed to be zero is; what is not can be made so. */
static void blocks_random_use_zero_never_lies(void **state)
{
	static struct large *blocks[SLOTS];
	uint64_t seed = 12;

	for (int i = 0; i < ROUNDS; i++) {
		struct large **slot = &blocks[next_random(&seed) % SLOTS], *l = *slot;
		size_t size = SC_MAX_SIZE + 1 + next_random(&seed) % (i % 16 == 0 ? 4 * HAK_MIB : 700000);
		bool zero;
		if (l == NULL) {
			*slot = l = large_alloc(NULL, size, 16, &zero);
			if (!zero)
				large_clear(l, 0, l->usable);
			assert_true(bytes_are(l->span.base, l->usable, 0));
			memset(l->span.base, i | 1, min_size(size, 3 * GRANULE));
		} else if (next_random(&seed) % 4 != 0 || !large_resize(l, size, true)) {
			assert_true(large_free(NULL, l));
			*slot = NULL;
		} else {
			memset((char *)l->span.base + l->usable - 100, 3, 100);
		}
		if (i % 100 == 0)
			purge_all(0);
	}
	for (int i = 0; i < SLOTS; i++)
		if (blocks[i] != NULL)
			large_free(NULL, blocks[i]);
	bigcache_release(0);
	assert_int_equal(hak_space.live + hak_space.big + hak_space.large, 0);
}

/* Of memory that is locked the system drops no page. */
static void hardened_block_shrunk_and_freed_locked_leaves_zeros(void **state)
{
	struct large *l;

	hak_settings.secure = 1;
	l = take(HAK_MIB);
	if (mlock(l->span.base, l->usable) == 0) {
		memset(l->span.base, 7, l->usable);
		assert_true(large_resize(l, HAK_MIB - 40000, true));
		large_free(NULL, l);
		assert_int_equal((hak_space.kept * GRANULE), HAK_MIB);
		l = take(HAK_MIB); /* which looks */
	}
	munlock(l->span.base, l->usable);
	large_free(NULL, l);
	hak_settings.secure = 0;
}

/* Their first pages would otherwise become resident one after the other, wherever a span was cut. */
static void big_blocks_of_like_sizes_begin_alike(void **state)
{
	struct large *l = take(900 << 10);
	uintptr_t base = base_of(l);

	large_free(NULL, l);
	l = take(1000 << 10);
	assert_int_equal(base_of(l), base);
	assert_int_equal(hak_space.kept, 0);
	large_free(NULL, l);
}

/* Else what smaller blocks left and what BigCache keeps would both stay as much as they ever were. */
static void big_block_lies_where_much_is_dirty_beside_others(void **state)
{
	enum { SPANS = 5, FLOOR = PURGE_FLOOR / GRANULE };
	struct span spans[SPANS];
	struct large *others, *l;

	purge_all(0);
	others = take(PURGE_FLOOR + GRANULE);
	for (unsigned i = 0; i < SPANS; i++)
		assert_true(span_alloc(SUPERSLAB_GRANULES, SPAN_ROOMY, 0, &spans[i]));
	for (unsigned i = 0; i < SPANS; i++) {
		l = take(LARGE_BIG_MIN);
		assert_int_equal(l->span.ss != NULL, hak_space.dirty > FLOOR);
		large_free(NULL, l);
		bigcache_release(0);
		span_free(&spans[i], SUPERSLAB);
	}
	l = take(LARGE_BIG_MIN);
	assert_true(hak_space.dirty > FLOOR && l->span.ss != NULL);
	large_free(NULL, l);
	/* By itself it had better come and go in BigCache. */
	large_free(NULL, others);
	bigcache_release(0);
	l = take(LARGE_BIG_MIN);
	assert_true(hak_space.dirty > FLOOR && l->span.ss == NULL);
	large_free(NULL, l);
	bigcache_release(0);
	purge_all(0);
}

static void big_block_near_limit_has_no_more_than_it_needs(void **state)
{
	size_t needed = LARGE_BIG_MIN / GRANULE + 1;
	struct large *l;

	large_put_descriptor(large_new_descriptor()); /* not one that must be mapped then */
	hak_settings.limit = os_mapped() + needed * GRANULE;
	l = take(LARGE_BIG_MIN + 1);
	hak_settings.limit = 0;
	assert_int_equal(l->span.granules, needed);
	large_free(NULL, l);
}

static void alloc_without_superslabs_served(void **state)
{
	struct large *l;

	hak_settings.use_superslab = false;
	l = take(100000);
	assert_true(is_tagged(l));
	memset(l->span.base, 1, l->usable);
	large_free(NULL, l);
	hak_settings.use_superslab = true;
	assert_int_equal(hak_space.live + hak_space.big, 0);
}

/* Those that get one, of blocks that are made and freed. */
static unsigned count_guarded(struct large **blocks, unsigned count)
{
	unsigned guarded = 0;

	for (unsigned i = 0; i < count; i++) {
		blocks[i] = take(i % 4 == 0 ? LARGE_BIG_MIN : 40000);
		assert_true(is_tagged(blocks[i]));
		assert_int_equal(blocks[i]->span.ss == NULL, blocks[i]->guard != 0 || i % 4 == 0);
		guarded += blocks[i]->guard != 0;
	}
	for (unsigned i = 0; i < count; i++)
		assert_true(large_free(NULL, blocks[i]));
	quarantine_flush_large();
	bigcache_release(0);
	assert_int_equal(hak_space.guards + hak_space.live + hak_space.big + hak_space.large, 0);
	return guarded;
}

/* A program wrote to it after free: nobody gets it again, not even when it is tried again. */
static void breached_block_is_never_given_back(void **state)
{
	struct large *l = take(100 << 10);

	assert_true(l->span.ss != NULL);
	size_t granules = l->span.granules, live = hak_space.live;
	l->is_shut = l->is_breached = true;
	large_give_up(l);
	large_retry();
	assert_int_equal(hak_space.live, live);
	assert_true(granules > 0);
	l->is_shut = l->is_breached = false;
	large_give_up(l);
	assert_int_equal(hak_space.live, live - granules);
}

static void guards_used_up_and_given_back_serve_again(void **state)
{
	enum { MORE_THAN_ALL = GUARDS_MOST + 1000 };
	static struct large *blocks[MORE_THAN_ALL];

	hak_settings.secure = 3;
	assert_int_equal(count_guarded(blocks, MORE_THAN_ALL), GUARDS_MOST);
	assert_int_equal(count_guarded(blocks, MORE_THAN_ALL), GUARDS_MOST);
	hak_settings.secure = 0;
}

/* Then a copy has an eighth more room, which is as inaccessible as the guard. */
static void growth_between_guards_is_copied_now_and_then(void **state)
{
	enum { FIRST = 8 * HAK_MIB, LAST = 32 * HAK_MIB, STEP = GRANULE, COPIES_MOST = 13 };
	unsigned copies = 0;

	hak_settings.secure = 3;
	struct large *l = take(FIRST);
	for (size_t size = FIRST; size <= LAST; size += STEP) {
		if (!large_resize(l, size, false)) {
			struct large *copy = take(size);
			assert_true(large_free(NULL, l));
			l = copy;
			copies++;
		}
		assert_true(l->guard != 0 && l->usable >= size && is_tagged(l));
		assert_true(os_is_readable((char *)l->span.base + size - 1));
		assert_false(os_is_readable((char *)l->span.base + l->usable));
	}
	assert_in_range(copies, 1, COPIES_MOST);
	assert_true(large_free(NULL, l));
	quarantine_flush_large();
	hak_settings.secure = 0;
	assert_int_equal(hak_space.guards + hak_space.big + hak_space.large, 0);
}

static void alloc_without_address_space_cut_from_bigcache(void **state)
{
	struct large *l = take(8 * HAK_MIB);

	large_free(NULL, l);
	large_put_descriptor(large_new_descriptor()); /* not one that must be mapped then */
	hak_settings.use_superslab = false; /* some may be left */
	hak_settings.limit = os_mapped();
	l = take(100000);
	hak_settings.limit = 0;
	hak_settings.use_superslab = true;
	assert_true(l->span.ss == NULL && is_tagged(l));
	assert_int_equal(hak_space.big + hak_space.kept, 8 * HAK_MIB / GRANULE);
	assert_null(bigcache_check());
	large_free(NULL, l);
	assert_null(bigcache_check());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(alloc_any_size_usable_and_tagged, start_empty),
		cmocka_unit_test_setup(alloc_any_alignment_aligned, start_empty),
		cmocka_unit_test_setup(alloc_impossible_size_null, start_empty),
		cmocka_unit_test_setup(block_freed_twice_refused, start_empty),
		cmocka_unit_test_setup(resize_in_superslab_takes_and_gives_neighbours, start_empty),
		cmocka_unit_test_setup(rest_of_granule_is_idle_until_it_is_used, start_empty),
		cmocka_unit_test_setup(big_block_takes_the_place_of_pieces, start_empty),
		cmocka_unit_test_setup(big_block_else_has_a_mapping_of_its_own, start_empty),
		cmocka_unit_test_setup(what_bigcache_keeps_comes_first, start_empty),
		cmocka_unit_test_setup(resize_big_counts_and_keeps_contents, start_empty),
		cmocka_unit_test_setup(resize_big_without_bigcache_unmaps, start_empty),
		cmocka_unit_test_setup(end_of_hardened_block_is_not_kept, start_empty),
		cmocka_unit_test_setup(sparse_block_beyond_memory_moves, start_empty),
		cmocka_unit_test_setup(growth_begins_with_what_is_kept_behind, start_empty),
		cmocka_unit_test_setup(growth_does_not_begin_with_what_makes_it_a_copy, start_empty),
		cmocka_unit_test_setup(long_block_does_not_grow_by_little_that_is_kept, start_empty),
		cmocka_unit_test_setup(growth_joins_what_is_kept_behind, start_empty),
		cmocka_unit_test_setup(growth_where_it_is_that_fails_changes_nothing, start_empty),
		cmocka_unit_test_setup(growth_is_copied_where_much_is_kept, start_empty),
		cmocka_unit_test_setup(long_block_takes_a_shorter_span_and_new_memory, start_empty),
		cmocka_unit_test_setup(long_block_takes_what_joins, start_empty),
		cmocka_unit_test_setup(long_block_with_no_room_in_front_of_a_span_is_new, start_empty),
		cmocka_unit_test_setup(block_without_spare_granules_shrinks, start_empty),
		cmocka_unit_test_setup(little_of_much_is_given_up, start_empty),
		cmocka_unit_test_setup(block_that_shrinks_to_little_is_copied, start_empty),
		cmocka_unit_test_setup(growth_within_the_span_keeps_it_whole, start_empty),
		cmocka_unit_test_setup(move_big_takes_contents_along, start_empty),
		cmocka_unit_test_setup(move_of_one_among_many_only_if_it_must, start_empty),
		cmocka_unit_test_setup(fork_child_finds_no_block_that_is_half_moved, start_empty),
		cmocka_unit_test_setup(block_cleared_keeps_its_pages_unless_very_long, start_empty),
		cmocka_unit_test_setup(blocks_random_use_zero_never_lies, start_empty),
		cmocka_unit_test_setup(hardened_block_shrunk_and_freed_locked_leaves_zeros, start_empty),
		cmocka_unit_test_setup(big_blocks_of_like_sizes_begin_alike, start_empty),
		cmocka_unit_test_setup(big_block_lies_where_much_is_dirty_beside_others, start_empty),
		cmocka_unit_test_setup(big_block_near_limit_has_no_more_than_it_needs, start_empty),
		cmocka_unit_test_setup(alloc_without_superslabs_served, start_empty),
		cmocka_unit_test_setup(breached_block_is_never_given_back, start_empty),
		cmocka_unit_test_setup(guards_used_up_and_given_back_serve_again, start_empty),
		cmocka_unit_test_setup(growth_between_guards_is_copied_now_and_then, start_empty),
		cmocka_unit_test_setup(alloc_without_address_space_cut_from_bigcache, start_empty),
	};

	return UNIT_RUN(tests);
}
