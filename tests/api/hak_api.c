/* SPDX-License-Identifier: MIT */
/* hakmem.h, the malloc family by name: each function, its limits, and its place beside malloc. */
#include "common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <hakmem.h>

#define TOP ((size_t)PTRDIFF_MAX)

static void version_any_time_that_of_the_header(void **state)
{
	assert_string_equal(hak_version(), HAKMEM_VERSION);
}

static void hak_malloc_any_size_aligned_and_usable(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		void *block = hak_malloc(sizes[i]);
		assert_non_null(block);
		assert_true(is_aligned(block, 16));
		assert_true(hak_usable_size(block) >= sizes[i]);
		stain(block, hak_usable_size(block));
		hak_free(block);
	}
}

static void hak_malloc_zero_size_distinct_blocks(void **state)
{
	void *a = hak_malloc(0), *b = hak_malloc(0);

	assert_true(a && b && a != b);
	hak_free(a);
	hak_free(b);
	hak_free(NULL);
}

static void hak_calloc_dirty_reuse_zero(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		void *dirty = hak_malloc(sizes[i]);
		assert_non_null(dirty);
		stain(dirty, hak_usable_size(dirty));
		hak_free(dirty);
		void *block = hak_calloc(sizes[i], 1);
		assert_non_null(block);
		assert_true(is_zero(block, sizes[i]));
		hak_free(block);
	}
}

static void hak_realloc_up_and_down_contents_kept(void **state)
{
	void *block = hak_realloc(NULL, 1);

	assert_non_null(block);
	fill(block, 1, 1);
	for (size_t i = 1; i < sizes_count; i++) {
		block = hak_realloc(block, sizes[i]);
		assert_non_null(block);
		assert_true(is_filled(block, sizes[i - 1], 1));
		fill(block, sizes[i], 1);
	}
	for (size_t i = sizes_count - 1; i-- > 0;) {
		block = hak_realloc(block, sizes[i]);
		assert_non_null(block);
		assert_true(is_filled(block, sizes[i], 1));
	}
	errno = ODD_ERRNO;
	assert_null(hak_realloc(block, 0));
	assert_int_equal(errno, ODD_ERRNO);
}

static void hak_reallocarray_overflow_enomem_and_block_kept(void **state)
{
	void *block = hak_reallocarray(NULL, 10, 10);

	assert_non_null(block);
	fill(block, 100, 1);
	errno = ODD_ERRNO;
	void *resized = hak_reallocarray(block, hidden(SIZE_MAX / 2), 4);
	assert_int_equal(errno, ENOMEM);
	assert_true(!resized && is_filled(block, 100, 1));
	block = hak_reallocarray(block, 1000, 10);
	assert_true(block && is_filled(block, 100, 1));
	hak_free(block);
}

static void hak_aligned_alloc_any_power_of_two_aligned(void **state)
{
	for (size_t alignment = 1; alignment <= GIB; alignment *= 2)
		for (size_t size = 0; size <= 1 * MIB; size = size * 31 + 1) {
			void *block = hak_aligned_alloc(alignment, size);
			assert_non_null(block);
			assert_true(is_aligned(block, alignment) && is_aligned(block, 16));
			assert_true(hak_usable_size(block) >= size);
			fill(block, size, 1);
			hak_free_aligned_size(block, alignment, size);
		}
	hak_free_aligned_size(NULL, 64, 64);
}

static void hak_aligned_alloc_bad_alignment_einval(void **state)
{
	const size_t bad[] = {0, 3, 24, 4097, TOP, TOP + 1, SIZE_MAX};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = ODD_ERRNO;
		assert_null(hak_aligned_alloc(hidden(bad[i]), 100));
		assert_int_equal(errno, EINVAL);
	}
	errno = ODD_ERRNO;
	assert_null(hak_aligned_alloc(hidden(TOP / 2 + 1), 100));
	assert_int_equal(errno, ENOMEM);
}

static void hak_posix_memalign_any_outcome_errno_kept(void **state)
{
	int here;
	void *const before = &here;
	void *block = before;

	errno = ODD_ERRNO;
	assert_int_equal(hak_posix_memalign(&block, hidden(0), 100), EINVAL);
	assert_int_equal(hak_posix_memalign(&block, hidden(4), 100), EINVAL);
	assert_int_equal(hak_posix_memalign(&block, hidden(24), 100), EINVAL);
	for (size_t i = 0; i < huge_sizes_count; i++)
		assert_int_equal(hak_posix_memalign(&block, 64, hidden(huge_sizes[i])), ENOMEM);
	assert_ptr_equal(block, before);
	assert_int_equal(hak_posix_memalign(&block, 4096, 10), 0);
	assert_true(is_aligned(block, 4096));
	hak_free(block);
	assert_int_equal(errno, ODD_ERRNO);
}

static void hak_free_size_block_freed(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		hak_free_size(hak_malloc(sizes[i]), sizes[i]);
		hak_free_size(hak_zalloc(sizes[i]), sizes[i]);
	}
	hak_free_size(NULL, 10);
}

static void new_block_huge_size_enomem(void **state)
{
	for (size_t i = 0; i < huge_sizes_count; i++) {
		size_t size = hidden(huge_sizes[i]);
		errno = ODD_ERRNO;
		assert_null(hak_malloc(size));
		assert_int_equal(errno, ENOMEM);
		errno = ODD_ERRNO;
		assert_null(hak_calloc(1, size));
		assert_int_equal(errno, ENOMEM);
		errno = ODD_ERRNO;
		assert_null(hak_zalloc(size));
		assert_int_equal(errno, ENOMEM);
		errno = ODD_ERRNO;
		assert_null(hak_realloc(NULL, size));
		assert_int_equal(errno, ENOMEM);
		errno = ODD_ERRNO;
		assert_null(hak_rezalloc(NULL, size));
		assert_int_equal(errno, ENOMEM);
		errno = ODD_ERRNO;
		assert_null(hak_aligned_alloc(64, size));
		assert_int_equal(errno, ENOMEM);
		errno = ODD_ERRNO;
		assert_null(hak_alloc_at_least(size).ptr);
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(hak_alloc_at_least(size).size, 0);
	}
	errno = ODD_ERRNO;
	assert_null(hak_calloc(hidden(SIZE_MAX / 8 + 2), 8));
	assert_int_equal(errno, ENOMEM);
}

static void new_block_any_size_errno_kept(void **state)
{
	errno = ODD_ERRNO;
	for (size_t i = 0; i < sizes_count; i++) {
		hak_free(hak_malloc(sizes[i]));
		hak_free(hak_zalloc(sizes[i]));
		hak_free(hak_calloc(1, sizes[i]));
		hak_free(hak_aligned_alloc(256, sizes[i]));
		hak_free(hak_alloc_at_least(sizes[i]).ptr);
		hak_free(hak_rezalloc(hak_zalloc(1), sizes[i]));
		assert_int_equal(errno, ODD_ERRNO);
	}
}

static void both_families_blocks_of_one_allocator(void **state)
{
	void *block = hak_realloc(malloc(1500), 5000);

	assert_non_null(block);
	block = realloc(block, 9000);
	assert_non_null(block);
	hak_free(block);
	free(hak_malloc(100));
	free(hak_zalloc(100000));
	hak_free(malloc(2000));
	hak_free(calloc(3, 1000));
	hak_free(aligned_alloc(4096, 4096));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_any_time_that_of_the_header),
		cmocka_unit_test(hak_malloc_any_size_aligned_and_usable),
		cmocka_unit_test(hak_malloc_zero_size_distinct_blocks),
		cmocka_unit_test(hak_calloc_dirty_reuse_zero),
		cmocka_unit_test(hak_realloc_up_and_down_contents_kept),
		cmocka_unit_test(hak_reallocarray_overflow_enomem_and_block_kept),
		cmocka_unit_test(hak_aligned_alloc_any_power_of_two_aligned),
		cmocka_unit_test(hak_aligned_alloc_bad_alignment_einval),
		cmocka_unit_test(hak_posix_memalign_any_outcome_errno_kept),
		cmocka_unit_test(hak_free_size_block_freed),
		cmocka_unit_test(new_block_huge_size_enomem),
		cmocka_unit_test(new_block_any_size_errno_kept),
		cmocka_unit_test(both_families_blocks_of_one_allocator),
	};

	return RUN_TESTS(tests);
}
