/* SPDX-License-Identifier: MIT */
/* hakmem.h: what a block really holds, or would, and growing it where it lies. */
#include "common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <hakmem.h>

#define TOP ((size_t)PTRDIFF_MAX)

static void usable_size_null_zero(void **state)
{
	assert_int_equal(hak_usable_size(NULL), 0);
}

static void good_size_any_size_that_of_the_block(void **state)
{
	for (size_t size = 0; size < 300 * KIB; size += size < 8 * KIB ? 1 : 509) {
		void *block = hak_malloc(size);
		assert_non_null(block);
		if (!is_unwrapped(size))
			assert_int_equal(hak_malloc_good_size(size), hak_usable_size(block));
		hak_free(block);
	}
	for (size_t i = 0; i < sizes_count; i++) {
		void *block = hak_malloc(sizes[i]);
		assert_non_null(block);
		if (!is_unwrapped(sizes[i]))
			assert_int_equal(hak_malloc_good_size(sizes[i]), hak_usable_size(block));
		hak_free(block);
	}
}

static void good_size_of_good_size_itself(void **state)
{
	for (size_t size = 0; size < 3 * GIB; size += size / 7 + 1) {
		size_t good = hak_malloc_good_size(size);
		assert_true(good >= size);
		assert_int_equal(hak_malloc_good_size(good), good);
	}
}

static void good_size_failing_size_as_it_is(void **state)
{
	for (size_t i = 0; i < huge_sizes_count; i++) {
		assert_true(hak_malloc_good_size(huge_sizes[i]) >= huge_sizes[i]);
		if (huge_sizes[i] > TOP)
			assert_int_equal(hak_malloc_good_size(huge_sizes[i]), huge_sizes[i]);
	}
}

static void alloc_at_least_any_size_tells_usable(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		struct hak_allocation got = hak_alloc_at_least(sizes[i]);
		assert_non_null(got.ptr);
		assert_true(got.size >= sizes[i]);
		assert_int_equal(got.size, hak_usable_size(got.ptr));
		memset(got.ptr, 0xff, got.size);
		hak_free(got.ptr);
	}
}

static void expand_within_usable_size_stays(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		void *block = hak_malloc(sizes[i]);
		assert_non_null(block);
		assert_ptr_equal(hak_expand(block, hak_usable_size(block)), block);
		assert_ptr_equal(hak_expand(block, 1), block);
		hak_free(block);
	}
}

static void expand_beyond_usable_size_in_place_or_not_at_all(void **state)
{
	for (size_t i = 0; i < sizes_count; i++)
		for (size_t more = 1; more < 8 * MIB; more = more * 9 + 1) {
			void *block = hak_malloc(sizes[i]);
			assert_non_null(block);
			size_t usable = hak_usable_size(block), wanted = usable + more;
			fill(block, sizes[i], 1);
			errno = ODD_ERRNO;
			void *expanded = hak_expand(block, wanted);
			assert_int_equal(errno, ODD_ERRNO);
			if (expanded) {
				assert_ptr_equal(expanded, block);
				assert_true(hak_usable_size(block) >= wanted);
				((char *)block)[wanted - 1] = 1;
			} else {
				assert_int_equal(hak_usable_size(block), usable);
			}
			assert_true(is_filled(block, sizes[i], 1));
			hak_free(block);
		}
}

/* A small request whose alignment makes a large block of it. */
static void expand_aligned_block_holds_what_was_asked(void **state)
{
	for (size_t wanted = 5000; wanted < 100000; wanted += 9000) {
		char *block = hak_aligned_alloc(64 * 1024, 10), *moved;

		assert_non_null(block);
		if (hak_expand(block, wanted)) {
			assert_true(hak_usable_size(block) >= wanted);
			fill(block, wanted, 1);
			moved = hak_realloc(block, 2 * wanted);
			assert_non_null(moved);
			assert_true(is_filled(moved, wanted, 1));
			block = moved;
		}
		hak_free(block);
	}
}

static void expand_impossible_null_and_errno_kept(void **state)
{
	void *block = hak_malloc(100);

	assert_non_null(block);
	errno = ODD_ERRNO;
	assert_null(hak_expand(NULL, 100));
	for (size_t i = 0; i < huge_sizes_count; i++)
		assert_null(hak_expand(block, hidden(huge_sizes[i])));
	assert_int_equal(errno, ODD_ERRNO);
	hak_free(block);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usable_size_null_zero),
		cmocka_unit_test(good_size_any_size_that_of_the_block),
		cmocka_unit_test(good_size_of_good_size_itself),
		cmocka_unit_test(good_size_failing_size_as_it_is),
		cmocka_unit_test(alloc_at_least_any_size_tells_usable),
		cmocka_unit_test(expand_within_usable_size_stays),
		cmocka_unit_test(expand_beyond_usable_size_in_place_or_not_at_all),
		cmocka_unit_test(expand_aligned_block_holds_what_was_asked),
		cmocka_unit_test(expand_impossible_null_and_errno_kept),
	};

	return RUN_TESTS(tests);
}
