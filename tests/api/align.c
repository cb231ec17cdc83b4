/* SPDX-License-Identifier: MIT */
/* Alignments: every power of two up to 1 GiB, and the bad ones. */
#include "common.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ALIGNMENT GIB
#define TOP_BIT ((size_t)1 << 63)

static const size_t bad_alignments[] = {
	0, 3, 5, 6, 12, 24, 48, 100, 4097, 3 * MIB, TOP_BIT + 8, SIZE_MAX,
};
static const size_t bad_count = sizeof(bad_alignments) / sizeof(bad_alignments[0]);

/* A glibc before 2.38 has aligned_alloc round a bad alignment up, as its memalign does. */
static bool aligned_alloc_is_lenient(void)
{
	return !on_hakmem() && strverscmp(gnu_get_libc_version(), "2.38") < 0;
}

/* Sizes below, at and above the alignment, none of them too large to be written. */
static size_t size_for(size_t alignment, int step)
{
	const size_t wanted[] = {0, 1, 100, alignment - 1, alignment, alignment + 1, 3 * alignment + 7};

	return wanted[step] > 2 * MIB ? 5000 + (size_t)step : wanted[step];
}

enum { SIZE_STEPS = 7 };

static void check_block(void *block, size_t alignment, size_t size)
{
	assert_non_null(block);
	assert_true(is_aligned(block, alignment));
	assert_true(is_aligned(block, 16));
	size_t usable = malloc_usable_size(block);
	assert_true(usable >= size);
	((char *)block)[usable - 1] = 1; /* not all of it: glibc's may be as large as the alignment */
	fill(block, size, 3);
	assert_true(is_filled(block, size, 3));
}

static void aligned_alloc_any_power_of_two_aligned(void **state)
{
	for (size_t alignment = 1; alignment <= MAX_ALIGNMENT; alignment *= 2)
		for (int step = 0; step < SIZE_STEPS; step++) {
			size_t size = size_for(alignment, step);
			void *block = aligned_alloc(alignment, size);
			check_block(block, alignment, size);
			free(block);
		}
}

static void memalign_any_power_of_two_aligned(void **state)
{
	for (size_t alignment = 1; alignment <= MAX_ALIGNMENT; alignment *= 2)
		for (int step = 0; step < SIZE_STEPS; step++) {
			size_t size = size_for(alignment, step);
			void *block = memalign(alignment, size);
			check_block(block, alignment, size);
			free(block);
		}
}

static void posix_memalign_any_power_of_two_aligned(void **state)
{
	for (size_t alignment = sizeof(void *); alignment <= MAX_ALIGNMENT; alignment *= 2)
		for (int step = 0; step < SIZE_STEPS; step++) {
			size_t size = size_for(alignment, step);
			void *block = NULL;
			assert_int_equal(posix_memalign(&block, alignment, size), 0);
			check_block(block, alignment, size);
			free(block);
		}
}

static void *first_of_thread(void *size)
{
	void *block = NULL;

	return posix_memalign(&block, sizeof(void *), *(size_t *)size) == 0 ? block : NULL;
}

/* As malloc's, though less is asked for: also the first block of a thread. */
static void small_alignment_any_size_fit_for_any_type(void **state)
{
	for (size_t size = 16; size < 4000; size += 8) {
		pthread_t thread;
		void *blocks[3];
		assert_int_equal(pthread_create(&thread, NULL, first_of_thread, &size), 0);
		assert_int_equal(pthread_join(thread, &blocks[0]), 0);
		assert_int_equal(posix_memalign(&blocks[1], sizeof(void *), size), 0);
		blocks[2] = memalign(1, size);
		for (int i = 0; i < 3; i++)
			check_block(blocks[i], 1, size);
		for (int i = 0; i < 3; i++)
			free(blocks[i]);
	}
}

static void aligned_alloc_any_tier_size_aligned(void **state)
{
	for (size_t i = 0; i < sizes_count; i++)
		for (size_t alignment = 32; alignment <= 4 * MIB; alignment *= 8) {
			void *block = aligned_alloc(alignment, sizes[i]);
			assert_non_null(block);
			assert_true(is_aligned(block, alignment));
			memset(block, 0xff, sizes[i] < 4 * KIB ? sizes[i] : 4 * KIB);
			((char *)block)[sizes[i] - 1] = 1;
			free(block);
		}
}

static void aligned_blocks_all_live_disjoint(void **state)
{
	enum { COUNT = 64 };
	void *blocks[COUNT];

	for (size_t alignment = 8; alignment <= 256 * KIB; alignment *= 2) {
		for (unsigned i = 0; i < COUNT; i++) {
			blocks[i] = memalign(alignment, 40 * i + 1);
			assert_non_null(blocks[i]);
			assert_true(is_aligned(blocks[i], alignment));
			fill(blocks[i], malloc_usable_size(blocks[i]), i);
		}
		for (unsigned i = 0; i < COUNT; i++)
			assert_true(is_filled(blocks[i], malloc_usable_size(blocks[i]), i));
		for (unsigned i = 0; i < COUNT; i++)
			free(blocks[i]);
	}
}

static void aligned_block_realloc_contents_kept(void **state)
{
	for (size_t alignment = 32; alignment <= 4 * MIB; alignment *= 2) {
		unsigned char *block = aligned_alloc(alignment, 3000);
		assert_non_null(block);
		fill(block, 3000, 9);
		for (size_t size = 1000; size <= 4 * MIB; size = size * 5 + 1) {
			block = realloc(block, size);
			assert_non_null(block);
			assert_true(is_filled(block, 1000, 9));
		}
		free(block);
	}
}

static void posix_memalign_zero_size_distinct_blocks(void **state)
{
	void *a = NULL, *b = NULL;

	assert_int_equal(posix_memalign(&a, 64, 0), 0);
	assert_int_equal(posix_memalign(&b, 64, 0), 0);
	assert_true(a && b && a != b);
	free(a);
	free(b);
}

static void aligned_alloc_bad_alignment_einval(void **state)
{
	if (aligned_alloc_is_lenient())
		skip();
	for (size_t i = 0; i < bad_count; i++) {
		errno = ODD_ERRNO;
		assert_null(aligned_alloc(hidden(bad_alignments[i]), 100));
		assert_int_equal(errno, EINVAL);
		errno = ODD_ERRNO;
		assert_null(aligned_alloc(hidden(bad_alignments[i]), 0));
		assert_int_equal(errno, EINVAL);
	}
}

static void posix_memalign_bad_alignment_einval(void **state)
{
	int here;
	void *const before = &here;
	void *block = before;

	for (size_t i = 0; i < bad_count; i++) {
		assert_int_equal(posix_memalign(&block, hidden(bad_alignments[i]), 100), EINVAL);
		assert_ptr_equal(block, before);
	}
	/* Powers of two, but no multiple of sizeof(void *). */
	for (size_t alignment = 1; alignment < sizeof(void *); alignment *= 2) {
		assert_int_equal(posix_memalign(&block, hidden(alignment), 100), EINVAL);
		assert_ptr_equal(block, before);
	}
}

static void memalign_odd_alignment_rounded_up(void **state)
{
	static const size_t pairs[][2] = {
		{0, 16}, {3, 16}, {17, 32}, {24, 32}, {33, 64}, {48, 64}, {100, 128}, {4097, 8192},
		{65537, 131072}, {3 * MIB, 4 * MIB},
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		for (size_t size = 1; size < 20000; size = size * 3 + 1) {
			void *block = memalign(hidden(pairs[i][0]), size);
			check_block(block, pairs[i][1], size);
			free(block);
		}
}

static void memalign_alignment_beyond_top_bit_einval(void **state)
{
	errno = ODD_ERRNO;
	assert_null(memalign(hidden(TOP_BIT + 1), 100));
	assert_int_equal(errno, EINVAL);
	errno = ODD_ERRNO;
	assert_null(memalign(hidden(SIZE_MAX), 100));
	assert_int_equal(errno, EINVAL);
}

/* Valid powers of two that no address space can hold. At 2^63 glibc answers ENOMEM or EINVAL,
   depending on its version and the function. */
static void alignment_beyond_address_space_fails(void **state)
{
	for (size_t alignment = (size_t)1 << 57; alignment; alignment *= 2) {
		bool is_top = alignment == TOP_BIT;
		void *block = NULL;
		errno = ODD_ERRNO;
		assert_null(memalign(hidden(alignment), 100));
		assert_true(errno == ENOMEM || (is_top && errno == EINVAL));
		errno = ODD_ERRNO;
		assert_null(aligned_alloc(hidden(alignment), 100));
		assert_true(errno == ENOMEM || (is_top && errno == EINVAL));
		int code = posix_memalign(&block, hidden(alignment), 100);
		assert_true(code == ENOMEM || (is_top && code == EINVAL));
		assert_null(block);
	}
}

static void valloc_any_size_page_aligned(void **state)
{
	size_t page = (size_t)getpagesize();

	for (size_t size = 0; size < 200000; size = size * 2 + 1) {
		void *block = valloc(size);
		check_block(block, page, size);
		free(block);
	}
}

static void pvalloc_any_size_whole_pages(void **state)
{
	size_t page = (size_t)getpagesize();

	for (size_t size = 0; size < 200000; size = size * 2 + 1) {
		void *block = pvalloc(size);
		check_block(block, page, (size + page - 1) / page * page);
		free(block);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aligned_alloc_any_power_of_two_aligned),
		cmocka_unit_test(memalign_any_power_of_two_aligned),
		cmocka_unit_test(posix_memalign_any_power_of_two_aligned),
		cmocka_unit_test(small_alignment_any_size_fit_for_any_type),
		cmocka_unit_test(aligned_alloc_any_tier_size_aligned),
		cmocka_unit_test(aligned_blocks_all_live_disjoint),
		cmocka_unit_test(aligned_block_realloc_contents_kept),
		cmocka_unit_test(posix_memalign_zero_size_distinct_blocks),
		cmocka_unit_test(aligned_alloc_bad_alignment_einval),
		cmocka_unit_test(posix_memalign_bad_alignment_einval),
		cmocka_unit_test(memalign_odd_alignment_rounded_up),
		cmocka_unit_test(memalign_alignment_beyond_top_bit_einval),
		cmocka_unit_test(alignment_beyond_address_space_fails),
		cmocka_unit_test(valloc_any_size_page_aligned),
		cmocka_unit_test(pvalloc_any_size_whole_pages),
	};

	return RUN_TESTS(tests);
}
