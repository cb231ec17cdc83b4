/* SPDX-License-Identifier: MIT */
/* hakmem.h: hak_zalloc and hak_rezalloc, zero to the end of the block. */
#include "common.h"

#include <stdlib.h>
#include <string.h>

#include <hakmem.h>

/* Leaves dirty memory behind that blocks of `size` bytes are likely made of. */
static void dirty_memory(size_t size)
{
	enum { COUNT = 4 };
	void *blocks[COUNT];

	for (int i = 0; i < COUNT; i++) {
		blocks[i] = hak_malloc(size);
		assert_non_null(blocks[i]);
		stain(blocks[i], hak_usable_size(blocks[i]));
	}
	for (int i = 0; i < COUNT; i++)
		hak_free(blocks[i]);
}

static void zalloc_dirty_reuse_zero_to_the_end(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		if (sizes[i] <= 4 * MIB)
			dirty_memory(sizes[i]);
		void *block = hak_zalloc(sizes[i]);
		assert_non_null(block);
		assert_true(is_zero(block, hak_usable_size(block)));
		hak_free(block);
	}
}

/* A block from hak_zalloc and what the program has done to it: the first `kept` bytes hold the
   pattern, no byte from `written` on was ever written. */
struct zeroed {
	unsigned char *block;
	size_t kept, written;
};

static void resize_and_check(struct zeroed *zeroed, size_t size, size_t writes)
{
	zeroed->block = hak_rezalloc(zeroed->block, size);
	assert_non_null(zeroed->block);
	size_t usable = hak_usable_size(zeroed->block);
	assert_true(usable >= size);
	if (zeroed->kept > size)
		zeroed->kept = size;
	assert_true(is_filled(zeroed->block, zeroed->kept, 1));
	if (usable > zeroed->written)
		assert_true(is_zero(zeroed->block + zeroed->written, usable - zeroed->written));
	if (writes > usable)
		writes = usable;
	fill(zeroed->block, writes, 1);
	zeroed->kept = writes;
	if (zeroed->written < writes)
		zeroed->written = writes;
}

static void rezalloc_any_pair_of_sizes_unwritten_bytes_zero(void **state)
{
	for (size_t from = 0; from < sizes_count && sizes[from] <= 4 * MIB; from += 3)
		for (size_t to = 0; to < sizes_count && sizes[to] <= 4 * MIB; to += 4) {
			struct zeroed zeroed = {NULL, 0, 0};
			if (sizes[from] + sizes[to] < 64 * KIB) {
				dirty_memory(sizes[from]);
				dirty_memory(sizes[to]);
			}
			resize_and_check(&zeroed, sizes[from], sizes[from] / 2);
			resize_and_check(&zeroed, sizes[to], sizes[from] / 3);
			resize_and_check(&zeroed, sizes[from], 0);
			hak_free(zeroed.block);
		}
}

static void rezalloc_random_walk_unwritten_bytes_zero(void **state)
{
	uint64_t random = 0x5eed;

	for (int walk = 0; walk < 60; walk++) {
		struct zeroed zeroed = {NULL, 0, 0};
		for (int step = 0; step < 40; step++) {
			size_t size = random_next(&random) % ((size_t)2 << random_next(&random) % 20) + 1;
			if (step % 8 == 0)
				dirty_memory(size);
			resize_and_check(&zeroed, size, random_next(&random) % 200);
		}
		hak_free(zeroed.block);
	}
}

/* What a block of a hundred megabytes grows by costs nothing until it is written to. */
static void rezalloc_much_more_not_resident(void **state)
{
	unsigned char *block = hak_zalloc(MIB);

	assert_non_null(block);
	memset(block, 0x5a, MIB);
	size_t before = resident_bytes();
	block = hak_rezalloc(block, 100 * MIB + 1);
	assert_non_null(block);
	assert_true(resident_bytes() < before + 40 * MIB);
	size_t usable = hak_usable_size(block);
	assert_true(block[MIB - 1] == 0x5a && is_zero(block + MIB, MIB));
	assert_true(is_zero(block + usable - MIB, MIB));
	stain(block, usable);
	block = hak_rezalloc(block, 80 * MIB + 1);
	assert_non_null(block);
	block = hak_rezalloc(block, 100 * MIB);
	assert_non_null(block);
	assert_true(block[80 * MIB] == STAIN && is_zero(block + 80 * MIB + 1, hak_usable_size(block) - 80 * MIB - 1));
	hak_free(block);
}

static void rezalloc_zero_size_frees(void **state)
{
	assert_null(hak_rezalloc(hak_zalloc(100), 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zalloc_dirty_reuse_zero_to_the_end),
		cmocka_unit_test(rezalloc_any_pair_of_sizes_unwritten_bytes_zero),
		cmocka_unit_test(rezalloc_random_walk_unwritten_bytes_zero),
		cmocka_unit_test(rezalloc_much_more_not_resident),
		cmocka_unit_test(rezalloc_zero_size_frees),
	};

	return RUN_TESTS(tests);
}
