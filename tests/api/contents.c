/* SPDX-License-Identifier: MIT */
/* What is in a block: calloc's zeros in whatever memory, and the bytes malloc_usable_size promises. */
#include "common.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* Leaves dirty memory behind that the next blocks of `size` bytes are likely made of. */
static void dirty_memory(size_t size)
{
	enum { COUNT = 8 };
	void *blocks[COUNT];
	int count = size > 16 * MIB ? 1 : COUNT;

	for (int i = 0; i < count; i++) {
		blocks[i] = malloc(size);
		assert_non_null(blocks[i]);
		stain(blocks[i], malloc_usable_size(blocks[i]));
	}
	for (int i = 0; i < count; i++)
		free(blocks[i]);
}

static void calloc_dirty_reuse_zero(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		for (int round = 0; round < 3; round++) {
			dirty_memory(sizes[i]);
			void *block = round % 2 ? calloc(sizes[i], 1) : calloc(1, sizes[i]);
			assert_non_null(block);
			assert_true(is_aligned(block, 16));
			assert_true(is_zero(block, sizes[i]));
			memset(block, 0xdb, sizes[i]);
			free(block);
		}
	}
}

/* Memory that was used in blocks of one size and comes back in blocks of another. */
static void calloc_dirty_reuse_by_other_size_zero(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		for (size_t j = 0; j < sizes_count; j += 7)
			if (sizes[j] <= 1 * MIB)
				dirty_memory(sizes[j]);
		void *block = calloc(1, sizes[i]);
		assert_non_null(block);
		assert_true(is_zero(block, sizes[i]));
		free(block);
	}
}

static void calloc_elements_product_usable(void **state)
{
	for (size_t count = 1; count < 100; count += 7) {
		unsigned char *block = calloc(count, 37);
		assert_non_null(block);
		assert_true(is_zero(block, count * 37));
		memset(block, 1, count * 37);
		free(block);
	}
}

static void calloc_zero_factor_gives_block(void **state)
{
	void *a = calloc(0, 0), *b = calloc(0, hidden(SIZE_MAX)), *c = calloc(hidden(SIZE_MAX), 0);

	assert_non_null(a);
	assert_non_null(b);
	assert_non_null(c);
	assert_ptr_not_equal(a, b);
	assert_ptr_not_equal(b, c);
	free(a);
	free(b);
	free(c);
}

static void usable_size_any_block_writable_to_the_end(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		void *below = malloc(sizes[i]), *block = malloc(sizes[i]), *above = malloc(sizes[i]);
		assert_true(below && block && above);
		fill(below, malloc_usable_size(below), 1);
		fill(above, malloc_usable_size(above), 2);
		size_t usable = malloc_usable_size(block);
		assert_true(usable >= sizes[i]);
		stain(block, usable);
		assert_true(malloc_usable_size(block) == usable);
		assert_true(is_filled(below, malloc_usable_size(below), 1));
		assert_true(is_filled(above, malloc_usable_size(above), 2));
		free(below);
		free(block);
		free(above);
	}
}

static void usable_size_null_zero(void **state)
{
	assert_int_equal(malloc_usable_size(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calloc_dirty_reuse_zero),
		cmocka_unit_test(calloc_dirty_reuse_by_other_size_zero),
		cmocka_unit_test(calloc_elements_product_usable),
		cmocka_unit_test(calloc_zero_factor_gives_block),
		cmocka_unit_test(usable_size_any_block_writable_to_the_end),
		cmocka_unit_test(usable_size_null_zero),
	};

	return RUN_TESTS(tests);
}
