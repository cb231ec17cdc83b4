/* SPDX-License-Identifier: MIT */
#include "space/meta.h"

#include <string.h>

#include "base/bits.h"
#include "common.h"
#include "os/os.h"

enum { THREADS = 4, BLOCKS = 500 };

static unsigned char *blocks[THREADS][BLOCKS];

static size_t size_of(unsigned i)
{
	return 1 + i * 7 % 900;
}

/* First in the program: nothing is mapped yet. */
static void donated_stretch_is_used_first(void **state)
{
	size_t size = 16 * os_facts.page_size;
	char *stretch = os_map(NULL, size), *less = os_map(NULL, os_facts.page_size);
	char *p;

	meta_donate(stretch, size);
	meta_donate(less, os_facts.page_size);
	for (size_t used = 0; used + 128 <= size; used += 128) {
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(donated_stretch_is_used_first),
		cmocka_unit_test(alloc_any_size_zero_aligned_disjoint),
		cmocka_unit_test(alloc_more_than_is_mapped_at_a_time_served),
		cmocka_unit_test(alloc_by_threads_disjoint),
	};

	return UNIT_RUN(tests);
}
