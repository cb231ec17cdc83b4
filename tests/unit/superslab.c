/* SPDX-License-Identifier: MIT */
/* Where in which SuperSlab spans come from. */
#include "space/superslab.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/settings.h"
#include "common.h"
#include "os/os.h"
#include "space/pagemap.h"
#include "space/purge.h"

enum { MANY = 200 };

static int start_empty(void **state)
{
	purge_all(0);
	return hak_space.superslabs == 0 && hak_space.live == 0 ? 0 : -1;
}

static struct span take(size_t granules)
{
	struct span span;

	assert_true(span_alloc(granules, SPAN_DENSE, 0, &span));
	return span;
}

static void whole_superslab_is_aligned(void **state)
{
	struct span span = take(SUPERSLAB_GRANULES);
	bool zero;

	assert_int_equal((uintptr_t)span.base % SUPERSLAB, 0);
	assert_ptr_equal(span.base, (void *)span.ss->base);
	assert_int_equal(span.ss->free, 0);
	assert_false(span_extend(&span, SUPERSLAB_GRANULES + 1, &zero));
	span_free(&span, 0);
	assert_int_equal(span.ss->free, UINT32_MAX);
	assert_int_equal(span.ss->zero, UINT32_MAX);
}

/* Though a clean one lies before them. */
static void dirty_granules_reused_first(void **state)
{
	struct span a = take(1), b = take(1), again;

	span_free(&a, 0);
	span_free(&b, 1);
	assert_int_equal(hak_space.dirty, 1);
	again = take(1);
	assert_ptr_equal(again.base, b.base);
	assert_false(again.zero);
	assert_int_equal(hak_space.dirty, 0);
	span_free(&again, 0);
}

/* A hole that fits exactly is filled before a larger one is cut. */
static void shortest_run_that_fits_is_taken(void **state)
{
	struct span big = take(20), rest = take(12), hole, again;

	hole = take(32);
	span_shrink(&hole, 30);
	span_free(&big, 0);
	again = take(2);
	assert_ptr_equal(again.ss, hole.ss);
	assert_ptr_equal(again.base, (char *)hole.base + 30 * GRANULE);
	span_free(&again, 0);
	span_free(&hole, 0);
	span_free(&rest, 0);
}

static void extend_stopped_by_neighbour(void **state)
{
	struct span a = take(2), b = take(2);
	bool zero = false;

	assert_ptr_equal(b.base, (char *)a.base + 2 * GRANULE);
	assert_false(span_extend(&a, 3, &zero));
	span_free(&b, 0);
	assert_true(span_extend(&a, 4, &zero));
	assert_true(zero);
	assert_int_equal(hak_space.live, 4);
	span_free(&a, 4 * GRANULE);
	assert_int_equal(hak_space.dirty, 4);
}

static void extend_over_dirty_says_so(void **state)
{
	struct span a = take(1), b = take(1);
	bool zero = true;

	span_free(&b, 1);
	assert_true(span_extend(&a, 2, &zero));
	assert_false(zero);
	assert_int_equal(hak_space.dirty, 0);
	span_free(&a, 0);
}

static void touched_part_alone_is_dirty(void **state)
{
	struct span span = take(8);

	span_free(&span, 2 * GRANULE + 1);
	assert_int_equal(hak_space.dirty, 3);
	assert_int_equal(span.ss->free & ~span.ss->zero, 7u << __builtin_ctz(span.ss->free));
}

static void released_superslab_is_nobodys(void **state)
{
	struct span keep = take(1), span = take(SUPERSLAB_GRANULES);
	uintptr_t base = (uintptr_t)span.base;

	assert_int_equal(hak_space.superslabs, 2);
	span_free(&span, 0);
	assert_int_equal(pagemap_tag(base), TAG_FREE);
	purge_all(0);
	assert_int_equal(hak_space.superslabs, 1);
	for (unsigned i = 0; i < SUPERSLAB_GRANULES; i++)
		assert_int_equal(pagemap_tag(base + i * GRANULE), TAG_NONE);
	span_free(&keep, 0);
}

/* Does one mapping hold all of it, so that a huge page may? */
static bool is_in_one_mapping(uintptr_t base)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uintptr_t start, end;
	bool found = false;

	assert_non_null(maps);
	while (fscanf(maps, "%" SCNxPTR "-%" SCNxPTR "%*[^\n]", &start, &end) == 2)
		found |= start <= base && base + SUPERSLAB <= end;
	fclose(maps);
	return found;
}

static bool mappings_stay_apart(void)
{
	FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
	int mode = file != NULL ? fgetc(file) : '2';

	if (file != NULL)
		fclose(file);
	return mode != '2';
}

/* What a system that hands out huge pages unasked would make of the first touch. */
static void huge_page_fits_in_large_heaps_alone(void **state)
{
	static struct span spans[20];

	if (!mappings_stay_apart())
		skip();
	for (unsigned i = 0; i < 20; i++) {
		spans[i] = take(SUPERSLAB_GRANULES);
		if (i < 8 || i == 19)
			assert_int_equal(is_in_one_mapping(spans[i].ss->base), i == 19);
	}
	for (unsigned i = 0; i < 20; i++)
		span_free(&spans[i], 0);
}

/* Is the system told to put no huge page there? */
static bool is_advised_against(uintptr_t base)
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	char line[512];
	uintptr_t start, end;
	bool here = false, found = false;

	assert_non_null(smaps);
	while (fgets(line, sizeof line, smaps) != NULL)
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &start, &end) == 2)
			here = start <= base && base < end;
		else if (here && strncmp(line, "VmFlags:", 8) == 0)
			found = strstr(line, " nh") != NULL;
	fclose(smaps);
	return found;
}

/* Is there such advice, and does it show? An emulator may keep it to itself. */
static bool advice_shows(void)
{
	void *p = mmap(NULL, SUPERSLAB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	bool shows = madvise(p, SUPERSLAB, MADV_NOHUGEPAGE) == 0 && is_advised_against((uintptr_t)p);
	munmap(p, SUPERSLAB);
	return shows;
}

/* Nor may the system put one there unasked: what leaves pages unused would be resident as a whole. */
static void huge_page_never_fits_roomy_spans(void **state)
{
	enum { DENSE = 20, ROOMY = 12 };
	static struct span spans[DENSE + ROOMY];

	if (!mappings_stay_apart() || !advice_shows())
		skip();
	for (unsigned i = 0; i < DENSE; i++)
		spans[i] = take(SUPERSLAB_GRANULES);
	for (unsigned i = DENSE; i < DENSE + ROOMY; i++) {
		assert_true(span_alloc(SUPERSLAB_GRANULES, SPAN_ROOMY, 0, &spans[i]));
		assert_true(!is_in_one_mapping(spans[i].ss->base) || is_advised_against(spans[i].ss->base));
	}
	for (unsigned i = 0; i < DENSE + ROOMY; i++)
		span_free(&spans[i], 0);
}

/* Not where an emulator begins to map at low addresses, or looks for room above what it mapped last. */
static bool has_room_apart(void)
{
	struct span span = take(1); /* the first one decides */

	span_free(&span, 0);
	char *first = os_map(NULL, SUPERSLAB), *second = os_map(NULL, SUPERSLAB);
	assert_true(os_unmap(first, SUPERSLAB) && os_unmap(second, SUPERSLAB));
	return pagemap_apart() != 0 && second < first;
}

/* Pages of both sizes share no page directory. */
static void huge_pages_have_a_gib_of_their_own(void **state)
{
	enum { DENSE = 60, ROOMY = 20 };
	static struct span spans[DENSE + ROOMY];
	unsigned huge = 0;

	if (!has_room_apart())
		skip();
	for (unsigned i = 0; i < DENSE; i++) {
		spans[i] = take(SUPERSLAB_GRANULES);
		huge += spans[i].ss->huge;
	}
	for (unsigned i = DENSE; i < DENSE + ROOMY; i++)
		assert_true(span_alloc(SUPERSLAB_GRANULES, SPAN_ROOMY, 0, &spans[i]));
	assert_true(huge >= 20);
	for (unsigned i = 0; i < DENSE + ROOMY; i++)
		for (unsigned j = 0; j < i; j++)
			if (spans[i].ss->huge != spans[j].ss->huge)
				assert_true(spans[i].ss->base >> 30 != spans[j].ss->base >> 30);
	for (unsigned i = 0; i < DENSE; i++)
		assert_true(pagemap_near_index(spans[i].ss->base) < LEAF_GRANULES);
	for (unsigned i = 0; i < DENSE + ROOMY; i++)
		span_free(&spans[i], 0);
}

/* What describes addresses must not grow with time. `kept`: so many SuperSlabs stay. */
static void come_and_go_around(unsigned kept)
{
	enum { MOST = 120, ROUNDS = 40 };
	static struct span spans[MOST];
	uintptr_t low = UINTPTR_MAX;

	if (!has_room_apart())
		skip();
	for (unsigned i = 0; i < kept; i++)
		spans[i] = take(SUPERSLAB_GRANULES);
	for (unsigned round = 0; round < ROUNDS; round++) {
		uintptr_t lowest = UINTPTR_MAX;
		for (unsigned i = kept; i < MOST; i++) {
			spans[i] = take(SUPERSLAB_GRANULES);
			if (spans[i].ss->huge)
				lowest = min_size(lowest, spans[i].ss->base);
		}
		assert_true(lowest != UINTPTR_MAX);
		if (round == 0)
			low = lowest;
		assert_true(lowest >= low - HAK_GIB);
		for (unsigned i = kept; i < MOST; i++)
			span_free(&spans[i], 0);
		purge_all(0);
	}
	for (unsigned i = 0; i < kept; i++)
		span_free(&spans[i], 0);
}

static void huge_pages_that_come_and_go_stay_where_they_are(void **state)
{
	come_and_go_around(0);
}

static void huge_pages_that_come_and_go_beside_others_stay_where_they_are(void **state)
{
	come_and_go_around(40);
}

/* The next region for huge pages follows the last, though others could not be mapped in between. */
static void huge_pages_stay_in_their_gib_when_memory_runs_out(void **state)
{
	enum { MOST = 100 };
	static struct span spans[MOST];
	unsigned n = 0, before;

	if (!has_room_apart())
		skip();
	while (n < 40)
		spans[n++] = take(SUPERSLAB_GRANULES);
	hak_settings.limit = os_mapped();
	while (n < MOST && span_alloc(SUPERSLAB_GRANULES, SPAN_DENSE, 0, &spans[n]))
		n++;
	hak_settings.limit = 0;
	before = n;
	assert_true(n < MOST - 1 && spans[n - 1].ss->huge);
	spans[n++] = take(SUPERSLAB_GRANULES);
	assert_true(spans[before].ss->huge);
	assert_true(spans[before].ss->base >> 30 == spans[before - 1].ss->base >> 30);
	while (n > 0)
		span_free(&spans[--n], 0);
}

static void huge_page_fits_if_asked_for(void **state)
{
	struct span span;

	hak_settings.thp = THP_ALWAYS;
	span = take(SUPERSLAB_GRANULES);
	hak_settings.thp = THP_AUTO;
	assert_true(is_in_one_mapping(span.ss->base));
	span_free(&span, 0);
}

/* How the huge pages come, as far as is known, and how many came. */
static bool pages_are_slow;
static unsigned pages;

void __wrap_superslab_note_huge_page(bool was_slow);
void __real_superslab_note_huge_page(bool was_slow);
void __wrap_superslab_note_huge_page(bool was_slow)
{
	pages++;
	__real_superslab_note_huge_page(pages_are_slow);
}

/* What fills a heap large enough to ask for huge pages, and what comes then. */
static struct span filled[64];
static unsigned fills;

static bool is_next_huge(void)
{
	assert_true(fills < 64);
	filled[fills] = take(SUPERSLAB_GRANULES);
	return filled[fills++].ss->huge;
}

static void fill_large_heap(void)
{
	for (fills = 0; fills < 17;)
		is_next_huge();
	assert_true(is_next_huge());
}

static void empty_large_heap(void)
{
	while (fills > 0)
		span_free(&filled[--fills], 0);
}

/* Two come, and are slow. */
static void notice_slow_pages(void)
{
	pages_are_slow = true;
	assert_true(is_next_huge());
	assert_true(is_next_huge());
	pages_are_slow = false;
}

static void slow_huge_pages_are_not_asked_for_in_the_next_second(void **state)
{
	fill_large_heap();
	notice_slow_pages();
	assert_false(is_next_huge());
	assert_false(is_next_huge());
	sleep_ms(1000 + 50);
	pages_are_slow = true; /* still: it does not take two again */
	assert_true(is_next_huge());
	assert_false(is_next_huge());
	sleep_ms(1000 + 50);
	pages_are_slow = false;
	assert_true(is_next_huge());
	assert_true(is_next_huge());
	empty_large_heap();
}

static void one_slow_huge_page_means_nothing(void **state)
{
	fill_large_heap();
	for (int i = 0; i < 3; i++) {
		pages_are_slow = true;
		assert_true(is_next_huge());
		pages_are_slow = false;
		assert_true(is_next_huge());
	}
	empty_large_heap();
}

static void slow_huge_pages_come_if_always_asked_for(void **state)
{
	fill_large_heap();
	hak_settings.thp = THP_ALWAYS;
	notice_slow_pages();
	assert_true(is_next_huge());
	hak_settings.thp = THP_AUTO;
	assert_true(is_next_huge());
	empty_large_heap();
}

static void huge_page_comes_with_a_clean_superslab_alone(void **state)
{
	unsigned before;

	fill_large_heap();
	before = pages;
	assert_true(before > 0);
	span_free(&filled[17], SUPERSLAB);
	filled[17] = take(SUPERSLAB_GRANULES); /* dirty */
	assert_true(filled[17].ss->huge);
	assert_int_equal(pages, before);
	span_free(&filled[17], SUPERSLAB);
	purge_all(1); /* does not unmap what is empty then */
	filled[17] = take(SUPERSLAB_GRANULES / 2);
	assert_true(filled[17].ss->huge);
	assert_int_equal(pages, before + 1);
	filled[fills] = take(SUPERSLAB_GRANULES / 2);
	assert_ptr_equal(filled[fills++].ss, filled[17].ss);
	assert_int_equal(pages, before + 1);
	empty_large_heap();
}

static void clean_memory_without_huge_pages_first_while_they_are_slow(void **state)
{
	fill_large_heap();
	for (int slow = 0; slow < 2; slow++) {
		if (slow)
			notice_slow_pages();
		assert_false(filled[0].ss->huge);
		assert_true(filled[17].ss->huge);
		span_free(&filled[0], 0);
		span_free(&filled[17], 0);
		filled[slow ? 0 : 17] = take(SUPERSLAB_GRANULES);
		filled[slow ? 17 : 0] = take(SUPERSLAB_GRANULES);
	}
	assert_false(filled[0].ss->huge);
	assert_true(filled[17].ss->huge);
	sleep_ms(1000 + 50);
	empty_large_heap();
}

/* Where no more may be mapped. */
static void roomy_spans_rather_among_huge_pages_than_nowhere(void **state)
{
	static struct span roomy[MANY];
	unsigned count = 0, among = 0;
	struct span dense;

	hak_settings.thp = THP_ALWAYS;
	dense = take(1);
	assert_true(dense.ss->huge);
	hak_settings.limit = os_mapped();
	while (count < MANY && span_alloc(SUPERSLAB_GRANULES - 1, SPAN_ROOMY, 0, &roomy[count]))
		among += roomy[count++].ss == dense.ss;
	assert_true(count < MANY);
	assert_int_equal(among, 1);
	hak_settings.limit = 0;
	hak_settings.thp = THP_AUTO;
	while (count > 0)
		span_free(&roomy[--count], 0);
	span_free(&dense, 0);
}

/* Half of many spans freed, so that runs of all lengths are on file. */
static void rebuild_files_everything_again(void **state)
{
	static struct span spans[MANY];
	struct space_stats before;
	uint64_t seed = 8;

	for (unsigned i = 0; i < MANY; i++)
		spans[i] = take(1 + next_random(&seed) % 6);
	for (unsigned i = 0; i < MANY; i += 2)
		span_free(&spans[i], i % 4 == 0 ? GRANULE : 0);
	before = hak_space;
	superslab_rebuild();
	assert_int_equal(hak_space.live, before.live);
	assert_int_equal(hak_space.dirty, before.dirty);
	assert_int_equal(hak_space.superslabs, before.superslabs);
	for (unsigned i = 0; i < MANY; i += 2)
		spans[i] = take(1);
	assert_int_equal(hak_space.superslabs, before.superslabs);
	for (unsigned i = 0; i < MANY; i++)
		span_free(&spans[i], 0);
	assert_int_equal(hak_space.live, 0);
	assert_true(purge_all(0));
	assert_int_equal(hak_space.superslabs, 0);
}

/* A fork child may find a SuperSlab that was about to be unmapped, or that was new. */
static void rebuild_takes_what_has_no_tags_for_free(void **state)
{
	struct span used = take(1);
	struct superslab *ss = used.ss;

	pagemap_set_tag(ss->base + GRANULE, SUPERSLAB_GRANULES - 1, TAG_NONE);
	superslab_rebuild();
	assert_null(superslab_check());
	assert_int_equal(hak_space.live, 1);
	assert_int_equal(pagemap_tag(ss->base + GRANULE), TAG_FREE);
	pagemap_set_tag(ss->base, SUPERSLAB_GRANULES, TAG_NONE);
	ss->free = ss->zero = 0;
	superslab_rebuild();
	assert_null(superslab_check());
	assert_int_equal(hak_space.live, 0);
	assert_int_equal(hak_space.dirty, 0);
	assert_int_equal(pagemap_tag(ss->base), TAG_FREE);
	purge_all(0);
	assert_int_equal(hak_space.superslabs, 0);
}

static void emptied_again_and_again_maps_no_more(void **state)
{
	size_t mapped = 0;

	for (unsigned i = 0; i < MANY; i++) {
		struct span span = take(1);
		span_free(&span, 1);
		purge_all(0);
		assert_int_equal(hak_space.superslabs, 0);
		if (i == 0)
			mapped = os_mapped();
		assert_int_equal(os_mapped(), mapped);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(whole_superslab_is_aligned, start_empty),
		cmocka_unit_test_setup(dirty_granules_reused_first, start_empty),
		cmocka_unit_test_setup(shortest_run_that_fits_is_taken, start_empty),
		cmocka_unit_test_setup(extend_stopped_by_neighbour, start_empty),
		cmocka_unit_test_setup(extend_over_dirty_says_so, start_empty),
		cmocka_unit_test_setup(touched_part_alone_is_dirty, start_empty),
		cmocka_unit_test_setup(released_superslab_is_nobodys, start_empty),
		cmocka_unit_test_setup(huge_page_fits_in_large_heaps_alone, start_empty),
		cmocka_unit_test_setup(huge_page_never_fits_roomy_spans, start_empty),
		cmocka_unit_test_setup(huge_pages_have_a_gib_of_their_own, start_empty),
		cmocka_unit_test_setup(huge_pages_that_come_and_go_stay_where_they_are, start_empty),
		cmocka_unit_test_setup(huge_pages_that_come_and_go_beside_others_stay_where_they_are, start_empty),
		cmocka_unit_test_setup(huge_pages_stay_in_their_gib_when_memory_runs_out, start_empty),
		cmocka_unit_test_setup(huge_page_fits_if_asked_for, start_empty),
		cmocka_unit_test_setup(slow_huge_pages_are_not_asked_for_in_the_next_second, start_empty),
		cmocka_unit_test_setup(one_slow_huge_page_means_nothing, start_empty),
		cmocka_unit_test_setup(slow_huge_pages_come_if_always_asked_for, start_empty),
		cmocka_unit_test_setup(huge_page_comes_with_a_clean_superslab_alone, start_empty),
		cmocka_unit_test_setup(clean_memory_without_huge_pages_first_while_they_are_slow, start_empty),
		cmocka_unit_test_setup(roomy_spans_rather_among_huge_pages_than_nowhere, start_empty),
		cmocka_unit_test_setup(rebuild_files_everything_again, start_empty),
		cmocka_unit_test_setup(rebuild_takes_what_has_no_tags_for_free, start_empty),
		cmocka_unit_test_setup(emptied_again_and_again_maps_no_more, start_empty),
	};

	return UNIT_RUN(tests);
}
