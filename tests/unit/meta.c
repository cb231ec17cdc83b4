/* SPDX-License-Identifier: MIT */
#include "space/meta.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "common.h"
#include "os/os.h"
#include "space/pagemap.h"
#include "space/superslab.h"

enum { THREADS = 4, BLOCKS = 500 };

static unsigned char *blocks[THREADS][BLOCKS];

static size_t size_of(unsigned i)
{
	return 1 + i * 7 % 900;
}

/* What /proc/self/maps says of the page: 'n' nobody may touch it, 'w' we may write it,
   'r' otherwise mapped, '-' nothing is there. */
static char access_of(const void *addr)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512], mode[5] = "", found = '-';
	uintptr_t start, end;

	assert_non_null(maps);
	while (found == '-' && fgets(line, sizeof line, maps))
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &start, &end, mode) == 3 &&
		    (uintptr_t)addr >= start && (uintptr_t)addr < end)
			found = mode[1] == 'w' ? 'w' : mode[0] == 'r' ? 'r' : 'n';
	fclose(maps);
	return found;
}

/* First in the program: nothing is mapped yet. */
static void small_process_stays_in_the_librarys_data(void **state)
{
	size_t used = 0, size = 4 * os_facts.page_size;
	char *stretch = os_map(NULL, size);

	meta_donate(stretch, size);
	size_t piece = os_facts.page_size / 2; /* not so small that it has to lie in one page */

	for (; used + piece <= META_FIRST_BYTES; used += piece) {
		char *p = meta_alloc(piece);
		assert_ptr_equal(p, hak_meta_first.bytes + used);
		assert_true(bytes_are(p, piece, 0) && meta_has((uintptr_t)p + piece - 1));
		memset(p, 1, piece);
	}
	assert_int_equal(access_of(stretch), 'w'); /* no call was made for it */
	assert_true(bytes_are(hak_meta_first.gap, sizeof hak_meta_first.gap, 0));
	char *p = meta_alloc(1);
	assert_ptr_equal(p, stretch + os_facts.page_size);
	assert_int_equal(access_of(stretch), 'n');
	assert_int_equal(access_of(stretch + size - 1), 'n');
	assert_non_null(meta_alloc(size - 2 * os_facts.page_size - HAK_CACHE_LINE));
}

static void donated_stretch_is_used_next(void **state)
{
	size_t size = 16 * os_facts.page_size;
	char *stretch = os_map(NULL, size), *less = os_map(NULL, os_facts.page_size);
	char *p;

	meta_donate(stretch, size);
	meta_donate(less, os_facts.page_size);
	for (size_t used = 2 * os_facts.page_size; used + 128 <= size; used += 128) {
		p = meta_alloc(100);
		assert_true(p >= stretch && p + 100 <= stretch + size);
	}
	p = meta_alloc(100);
	assert_non_null(p);
	assert_false(p >= stretch && p < stretch + size);
}

static void alloc_any_size_zero_aligned_disjoint(void **state)
{
	size_t used = meta_used(), sum = 0;

	for (unsigned i = 0; i < BLOCKS; i++) {
		unsigned char *p = blocks[0][i] = meta_alloc(size_of(i));
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % HAK_CACHE_LINE, 0);
		assert_true(bytes_are(p, size_of(i), 0));
		if (size_of(i) <= os_facts.page_size / 4)
			assert_int_equal((uintptr_t)p / os_facts.page_size, ((uintptr_t)p + size_of(i) - 1) / os_facts.page_size);
		memset(p, 1 + (int)(i % 255), size_of(i));
		sum += align_up(size_of(i), HAK_CACHE_LINE);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		assert_true(bytes_are(blocks[0][i], size_of(i), (unsigned char)(1 + i % 255)));
	assert_int_equal(meta_used() - used, sum);
}

static void alloc_more_than_is_mapped_at_a_time_served(void **state)
{
	unsigned char *p = meta_alloc(3 * HAK_MIB + 1);

	assert_non_null(p);
	assert_true(bytes_are(p, 3 * HAK_MIB + 1, 0));
	assert_non_null(meta_alloc(1));
}

static void alloc_of_thread(unsigned index)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		unsigned char *p = blocks[index][i] = meta_alloc(size_of(i));
		CHECK(p != NULL && bytes_are(p, size_of(i), 0));
		memset(p, 1 + (int)index, size_of(i));
	}
}

static void alloc_by_threads_disjoint(void **state)
{
	run_threads(THREADS, alloc_of_thread);
	for (unsigned t = 0; t < THREADS; t++)
		for (unsigned i = 0; i < BLOCKS; i++)
			assert_true(bytes_are(blocks[t][i], size_of(i), (unsigned char)(1 + t)));
}

static void assert_guarded(const char *inside)
{
	size_t page = os_facts.page_size;
	const char *first = (const char *)align_down((uintptr_t)inside, page), *last = first;

	while (meta_has((uintptr_t)first - page))
		first -= page;
	while (meta_has((uintptr_t)last + page))
		last += page;
	assert_int_equal(access_of(inside), 'w');
	assert_int_equal(access_of(first), 'n');
	assert_int_equal(access_of(last), 'n');
}

static void metadata_lies_between_inaccessible_pages(void **state)
{
	const char *before, *after;

	/* The second region: the process is no longer small. */
	for (unsigned i = 0; i < 2 * SUPERSLAB_GRANULES + 1; i++) {
		struct span span;
		assert_true(span_alloc(1, SPAN_DENSE, 0, &span));
	}
	before = meta_alloc(64);
	after = meta_alloc(HAK_MIB);
	assert_guarded((const char *)blocks[0][0]);
	assert_guarded(before);
	assert_guarded(after);
	assert_guarded(meta_alloc(64));
}

static bool has_guard_within(const char *from, size_t size)
{
	for (size_t off = 0; off < size; off += os_facts.page_size)
		if (access_of(from + off) == 'r')
			return true;
	return false;
}

static void page_map_has_read_only_pages_behind_it(void **state)
{
	uintptr_t far = (uintptr_t)1 << 40, i;

	assert_true(has_guard_within(hak_near.guard, PAGEMAP_GUARD));
	assert_true(has_guard_within(hak_far.guard, PAGEMAP_GUARD));
	assert_true(pagemap_cover(far, 1));
	const struct pagemap_leaf *leaf = pagemap_leaf_of(far, &i);
	assert_int_equal(access_of((const char *)leaf - 1), 'n');
	assert_int_equal(access_of(leaf), 'w');
	assert_true(has_guard_within(leaf->guard, PAGEMAP_GUARD));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_process_stays_in_the_librarys_data),
		cmocka_unit_test(donated_stretch_is_used_next),
		cmocka_unit_test(alloc_any_size_zero_aligned_disjoint),
		cmocka_unit_test(alloc_more_than_is_mapped_at_a_time_served),
		cmocka_unit_test(alloc_by_threads_disjoint),
		cmocka_unit_test(metadata_lies_between_inaccessible_pages),
		cmocka_unit_test(page_map_has_read_only_pages_behind_it),
	};

	return UNIT_RUN(tests);
}
