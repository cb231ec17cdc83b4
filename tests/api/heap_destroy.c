/* SPDX-License-Identifier: MIT */
/* hakmem.h, first-class heaps: how they end, and what is left of them. */
#include "heap_common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void destroy_null_does_nothing(void **state)
{
	hak_heap_destroy(NULL);
}

static void destroy_empty_heap_works(void **state)
{
	errno = ODD_ERRNO;
	hak_heap_destroy(new_heap());
	assert_int_equal(errno, ODD_ERRNO);
}

/* Blocks of all tiers worth about 64 MiB, all written to. */
static void populate(hak_heap_t *heap)
{
	size_t total = 0;

	for (size_t i = 0; total < 64 * MIB; i++) {
		size_t size = sizes[i % sizes_count];
		if (size > 8 * MIB)
			continue;
		void *block = hak_heap_malloc(heap, size);
		assert_non_null(block);
		memset(block, 1, size);
		total += size;
	}
}

static void destroy_full_heap_memory_given_back(void **state)
{
	hak_heap_t *warm = new_heap();

	populate(warm);
	hak_heap_destroy(warm);
	hak_trim(0);
	size_t before = resident_bytes();
	hak_heap_t *heap = new_heap();
	populate(heap);
	assert_true(resident_bytes() >= before + 56 * MIB);
	hak_heap_destroy(heap);
	hak_trim(0);
	assert_true(resident_bytes() < before + 4 * MIB);
}

static void destroy_full_heap_again_and_again_no_growth(void **state)
{
	for (int round = 0; round < 30; round++) {
		hak_heap_t *heap = new_heap();
		populate(heap);
		hak_heap_destroy(heap);
	}
	hak_trim(0);
	assert_true(resident_bytes() < 64 * MIB); /* 1.9 GB if they leaked */
	assert_true(mapped_bytes() < 4 * GIB);
}

static void destroy_other_heaps_untouched(void **state)
{
	hak_heap_t *doomed = new_heap(), *kept = new_heap();
	void *in_doomed[200], *in_kept[200], *in_none[200];

	for (unsigned i = 0; i < 200; i++) {
		size_t size = sizes[i % (sizes_count / 2)];
		in_doomed[i] = hak_heap_malloc(doomed, size);
		in_kept[i] = hak_heap_malloc(kept, size);
		in_none[i] = malloc(size);
		assert_true(in_doomed[i] && in_kept[i] && in_none[i]);
		memset(in_doomed[i], 0xff, size);
		fill(in_kept[i], size, i);
		fill(in_none[i], size, i + 1000);
	}
	hak_heap_destroy(doomed);
	populate(kept);
	for (unsigned i = 0; i < 200; i++) {
		size_t size = sizes[i % (sizes_count / 2)];
		assert_true(is_filled(in_kept[i], size, i));
		assert_true(is_filled(in_none[i], size, i + 1000));
		free(in_none[i]);
	}
	hak_heap_destroy(kept);
}

static void use_and_destroy(int round)
{
	hak_heap_t *heap = new_heap();

	for (unsigned i = 0; i < 20; i++) {
		size_t size = (size_t)1 << (i + (unsigned)round) % 16;
		void *block = hak_heap_malloc(heap, size);
		assert_non_null(block);
		memset(block, 1, size);
	}
	hak_heap_destroy(heap);
}

static void thousand_heaps_one_by_one_no_growth(void **state)
{
	for (int round = 0; round < 100; round++)
		use_and_destroy(round);
	size_t resident = resident_bytes(), mapped = mapped_bytes();
	for (int round = 0; round < 1000; round++)
		use_and_destroy(round);
	assert_true(resident_bytes() < resident + 4 * MIB);
	assert_true(mapped_bytes() < mapped + 64 * MIB);
}

static void thousand_heaps_at_once_disjoint(void **state)
{
	enum { COUNT = 1000 };
	hak_heap_t **heaps = malloc(COUNT * sizeof(*heaps));
	void **blocks = malloc(COUNT * sizeof(*blocks));

	assert_true(heaps && blocks);
	for (unsigned i = 0; i < COUNT; i++) {
		heaps[i] = new_heap();
		blocks[i] = hak_heap_malloc(heaps[i], 100 + i);
		assert_non_null(blocks[i]);
		fill(blocks[i], 100 + i, i);
	}
	for (unsigned i = 0; i < COUNT; i++)
		assert_true(is_filled(blocks[i], 100 + i, i));
	for (unsigned i = 0; i < COUNT; i += 2)
		hak_heap_destroy(heaps[i]);
	for (unsigned i = 1; i < COUNT; i += 2) {
		assert_true(is_filled(blocks[i], 100 + i, i));
		hak_heap_destroy(heaps[i]);
	}
	free(heaps);
	free(blocks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(destroy_null_does_nothing),
		cmocka_unit_test(destroy_empty_heap_works),
		cmocka_unit_test(destroy_full_heap_memory_given_back),
		cmocka_unit_test(destroy_full_heap_again_and_again_no_growth),
		cmocka_unit_test(destroy_other_heaps_untouched),
		cmocka_unit_test(thousand_heaps_one_by_one_no_growth),
		cmocka_unit_test(thousand_heaps_at_once_disjoint),
	};

	return RUN_TESTS(tests);
}
