/* SPDX-License-Identifier: MIT */
/* hakmem.h, first-class heaps: allocating in one. */
#include "heap_common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../memcheck.h"

static void heap_malloc_any_size_aligned_and_disjoint(void **state)
{
	hak_heap_t *heap = new_heap();
	void **blocks = hak_heap_calloc(heap, sizes_count, sizeof(*blocks));

	assert_non_null(blocks);
	for (unsigned i = 0; i < sizes_count; i++) {
		blocks[i] = hak_heap_malloc(heap, sizes[i]);
		assert_non_null(blocks[i]);
		assert_true(is_aligned(blocks[i], 16));
		assert_int_equal(hak_owns(blocks[i]), 1);
		assert_true(hak_usable_size(blocks[i]) >= sizes[i]);
		fill(blocks[i], sizes[i], i);
	}
	for (unsigned i = 0; i < sizes_count; i++)
		assert_true(is_filled(blocks[i], sizes[i], i));
	hak_heap_destroy(heap);
}

static void heap_zalloc_dirty_reuse_zero(void **state)
{
	hak_heap_t *heap = new_heap();

	for (size_t i = 0; i < sizes_count; i++) {
		void *dirty = hak_heap_malloc(heap, sizes[i]);
		assert_non_null(dirty);
		stain(dirty, hak_usable_size(dirty));
		hak_free(dirty);
		void *zeroed = hak_heap_zalloc(heap, sizes[i]), *counted = hak_heap_calloc(heap, sizes[i], 1);
		assert_true(zeroed && counted);
		assert_true(is_zero(zeroed, hak_usable_size(zeroed)));
		assert_true(is_zero(counted, sizes[i]));
		stain(counted, hak_usable_size(counted));
		hak_free(zeroed);
		free(counted);
	}
	hak_heap_destroy(heap);
}

/* What one heap leaves dirty is another's next memory. */
static void heap_zalloc_after_destroyed_heap_zero(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		hak_heap_t *heap = new_heap();
		void *dirty = hak_heap_malloc(heap, sizes[i]);
		assert_non_null(dirty);
		stain(dirty, hak_usable_size(dirty));
		hak_heap_destroy(heap);
		heap = new_heap();
		void *zeroed = hak_heap_zalloc(heap, sizes[i]);
		assert_non_null(zeroed);
		assert_true(is_zero(zeroed, hak_usable_size(zeroed)));
		hak_heap_destroy(heap);
	}
}

static void heap_realloc_up_and_down_contents_kept(void **state)
{
	hak_heap_t *heap = new_heap();
	void *block = hak_heap_realloc(heap, NULL, 1);

	assert_non_null(block);
	fill(block, 1, 1);
	for (size_t i = 1; i < sizes_count; i++) {
		block = hak_heap_realloc(heap, block, sizes[i]);
		assert_non_null(block);
		assert_true(is_filled(block, sizes[i - 1], 1));
		fill(block, sizes[i], 1);
	}
	for (size_t i = sizes_count - 1; i-- > 0;) {
		block = hak_heap_realloc(heap, block, sizes[i]);
		assert_non_null(block);
		assert_true(is_filled(block, sizes[i], 1));
	}
	assert_null(hak_heap_realloc(heap, block, 0));
	hak_heap_destroy(heap);
}

static void heap_realloc_foreign_block_contents_kept(void **state)
{
	hak_heap_t *heap = new_heap(), *other = new_heap();

	for (size_t i = 0; i < sizes_count; i++) {
		void *a = hak_malloc(sizes[i]), *b = hak_heap_malloc(other, sizes[i]);
		assert_true(a && b);
		fill(a, sizes[i], 1);
		fill(b, sizes[i], 2);
		a = hak_heap_realloc(heap, a, 2 * sizes[i]);
		b = hak_heap_realloc(heap, b, 2 * sizes[i]);
		assert_true(a && b);
		assert_true(is_filled(a, sizes[i], 1));
		assert_true(is_filled(b, sizes[i], 2));
		free(a);
		free(b);
	}
	hak_heap_destroy(other);
	hak_heap_destroy(heap);
}

static void plain_realloc_of_heap_block_contents_kept(void **state)
{
	hak_heap_t *heap = new_heap();

	for (size_t i = 0; i < sizes_count; i++) {
		void *block = hak_heap_malloc(heap, sizes[i]);
		assert_non_null(block);
		fill(block, sizes[i], 1);
		block = realloc(block, sizes[i] * 2);
		assert_non_null(block);
		assert_true(is_filled(block, sizes[i], 1));
		free(block);
	}
	hak_heap_destroy(heap);
}

static void heap_aligned_alloc_any_power_of_two_aligned(void **state)
{
	hak_heap_t *heap = new_heap();

	for (size_t alignment = 1; alignment <= 256 * MIB; alignment *= 2)
		for (size_t size = 0; size <= 1 * MIB; size = size * 31 + 1) {
			void *block = hak_heap_aligned_alloc(heap, alignment, size);
			assert_non_null(block);
			assert_true(is_aligned(block, alignment) && is_aligned(block, 16));
			fill(block, size, 1);
		}
	hak_heap_destroy(heap);
}

static void heap_impossible_request_fails_as_without_heap(void **state)
{
	hak_heap_t *heap = new_heap();
	void *block = hak_heap_malloc(heap, 100);

	assert_non_null(block);
	fill(block, 100, 1);
	for (size_t i = 0; i < huge_sizes_count; i++) {
		size_t size = hidden(huge_sizes[i]);
		errno = ODD_ERRNO;
		assert_null(hak_heap_malloc(heap, size));
		assert_int_equal(errno, ENOMEM);
		errno = ODD_ERRNO;
		assert_null(hak_heap_calloc(heap, size, 1));
		assert_null(hak_heap_calloc(heap, size, hidden(16)));
		assert_int_equal(errno, ENOMEM);
		errno = ODD_ERRNO;
		assert_null(hak_heap_zalloc(heap, size));
		assert_int_equal(errno, ENOMEM);
		errno = ODD_ERRNO;
		assert_null(hak_heap_realloc(heap, block, size));
		assert_int_equal(errno, ENOMEM);
		errno = ODD_ERRNO;
		assert_null(hak_heap_aligned_alloc(heap, 64, size));
		assert_int_equal(errno, ENOMEM);
	}
	errno = ODD_ERRNO;
	assert_null(hak_heap_aligned_alloc(heap, hidden(24), 100));
	assert_int_equal(errno, EINVAL);
	assert_true(is_filled(block, 100, 1));
	hak_heap_destroy(heap);
}

/* A block that has room behind it stays where it is. */
static void heap_realloc_grows_in_place(void **state)
{
	enum { COUNT = 20, SIZE = 80000, MORE = 120000 };
	hak_heap_t *heap = new_heap();
	unsigned stayed = 0;

	for (unsigned i = 0; i < COUNT; i++) {
		char *block = hak_heap_malloc(heap, SIZE), *longer;
		uintptr_t before = (uintptr_t)block;

		assert_non_null(block);
		fill(block, SIZE, i);
		longer = hak_heap_realloc(heap, block, MORE);
		assert_non_null(longer);
		assert_true(is_filled(longer, SIZE, i));
		assert_true(hak_usable_size(longer) >= MORE);
		stayed += (uintptr_t)longer == before;
		hak_free(longer);
	}
	assert_true(stayed > 0);
	hak_heap_destroy(heap);
}

/* One with a mapping of its own becomes shorter where it is, and what it gives up is given back. */
static void heap_realloc_shrinks_in_place(void **state)
{
	hak_heap_t *heap = new_heap();
	char *block = hak_heap_malloc(heap, 16 * MIB);
	uintptr_t before = (uintptr_t)block;

	assert_non_null(block);
	for (unsigned mib = 12; mib > 0; mib -= 4) {
		fill(block, mib * MIB, mib);
		block = hak_heap_realloc(heap, block, mib * MIB);
		assert_int_equal((uintptr_t)block, before);
		assert_true(is_filled(block, mib * MIB, mib));
		assert_true(hak_usable_size(block) < (mib + 1) * MIB);
	}
	hak_free(block);
	hak_heap_destroy(heap);
}

/* What was freed one by one is given back without a further call of the heap's. */
static void trim_gives_freed_blocks_of_heaps_back(void **state)
{
	enum { COUNT = 600000, SIZE = 100 };
	hak_heap_t *heap = new_heap();
	void **blocks = malloc(COUNT * sizeof *blocks);
	size_t before;

	assert_non_null(blocks);
	for (unsigned i = 0; i < COUNT; i++) {
		blocks[i] = hak_heap_malloc(heap, SIZE);
		assert_non_null(blocks[i]);
		memset(blocks[i], 1, SIZE);
	}
	before = resident_bytes();
	for (unsigned i = 0; i < COUNT; i++)
		hak_free(blocks[i]);
	hak_trim(0);
	assert_true(resident_bytes() + 50 * MIB < before);
	free(blocks);
	hak_heap_destroy(heap);
}

/* From now on nothing more is mapped. False: something still is, as under some emulators; then nothing has changed. */
static bool forbid_mapping(struct rlimit *before)
{
	assert_int_equal(getrlimit(RLIMIT_AS, before), 0);
	struct rlimit limit = *before;
	limit.rlim_cur = mapped_bytes();
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	if (!is_mappable(MIB, PROT_NONE))
		return true;
	assert_int_equal(setrlimit(RLIMIT_AS, before), 0);
	return false;
}

/* There is no room for a copy, and the large block gives up its end. */
static void heap_realloc_shrinks_without_memory_for_a_copy(void **state)
{
	enum { SIZE = 100000 };
	hak_heap_t *heap = new_heap();
	char *block = hak_heap_malloc(heap, 64 * MIB);
	struct rlimit all;
	void *next = NULL;

	assert_non_null(block);
	fill(block, SIZE, 1);
	if (on_memcheck() || !forbid_mapping(&all)) {
		hak_heap_destroy(heap);
		skip();
	}
	while (hak_heap_malloc(heap, SIZE))
		;
	block = hak_heap_realloc(heap, block, SIZE);
	if (block)
		next = hak_heap_malloc(heap, 32 * MIB);
	assert_int_equal(setrlimit(RLIMIT_AS, &all), 0);
	assert_true(block && is_filled(block, SIZE, 1));
	assert_true(next || has_guards());
	hak_heap_destroy(heap);
}

/* Near a limit: what the thread's own heap keeps ready for its next blocks is of use to another heap. */
static void no_memory_for_a_heap_is_none_for_the_thread(void **state)
{
	enum { BLOCKS = 12, SIZE = 1000000 };
	hak_heap_t *heap = new_heap();
	void *block[BLOCKS];
	struct rlimit all;
	int made = 0;

	if (on_memcheck())
		skip();
	for (int i = 0; i < BLOCKS; i++) {
		block[i] = malloc(SIZE);
		assert_non_null(block[i]);
	}
	size_t used = mapped_bytes();
	for (int i = 0; i < BLOCKS; i++)
		free(block[i]);
	if (mapped_bytes() + BLOCKS * SIZE / 2 < used)
		skip(); /* without BigCache nothing is kept ready */
	if (!forbid_mapping(&all)) {
		hak_heap_destroy(heap);
		skip();
	}
	while (made < 100 * BLOCKS && hak_heap_malloc(heap, SIZE))
		made++;
	void *more = malloc(SIZE);
	assert_int_equal(setrlimit(RLIMIT_AS, &all), 0);
	assert_in_range(made, 1, 100 * BLOCKS - 1);
	assert_null(more);
	hak_heap_destroy(heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heap_malloc_any_size_aligned_and_disjoint),
		cmocka_unit_test(heap_zalloc_dirty_reuse_zero),
		cmocka_unit_test(heap_zalloc_after_destroyed_heap_zero),
		cmocka_unit_test(heap_realloc_up_and_down_contents_kept),
		cmocka_unit_test(heap_realloc_foreign_block_contents_kept),
		cmocka_unit_test(plain_realloc_of_heap_block_contents_kept),
		cmocka_unit_test(heap_aligned_alloc_any_power_of_two_aligned),
		cmocka_unit_test(heap_impossible_request_fails_as_without_heap),
		cmocka_unit_test(heap_realloc_grows_in_place),
		cmocka_unit_test(heap_realloc_shrinks_in_place),
		cmocka_unit_test(heap_realloc_shrinks_without_memory_for_a_copy),
		cmocka_unit_test(trim_gives_freed_blocks_of_heaps_back),
		cmocka_unit_test(no_memory_for_a_heap_is_none_for_the_thread),
	};

	return RUN_TESTS(tests);
}
