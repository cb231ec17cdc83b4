/* SPDX-License-Identifier: MIT */
/* realloc: contents kept across every change of size, and the special sizes. */
#include "common.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Resizes to `size` a block whose first `kept` bytes are filled with `seed`, checks them, fills it. */
static void *resize_checked(void *block, size_t kept, size_t size, unsigned seed)
{
	block = realloc(block, size);
	assert_non_null(block);
	assert_true(is_aligned(block, 16));
	assert_true(malloc_usable_size(block) >= size);
	assert_true(is_filled(block, smaller(kept, size), seed));
	fill(block, size, seed + 1);
	return block;
}

static void realloc_up_and_down_all_sizes_contents_kept(void **state)
{
	void *block = NULL;
	size_t size = 0;
	unsigned seed = 0;

	for (size_t i = 0; i < sizes_count; i++, seed++) {
		block = resize_checked(block, size, sizes[i], seed);
		size = sizes[i];
	}
	for (size_t i = sizes_count; i-- > 0; seed++) {
		block = resize_checked(block, size, sizes[i], seed);
		size = sizes[i];
	}
	free(block);
}

static void realloc_any_pair_of_sizes_contents_kept(void **state)
{
	for (size_t from = 0; from < sizes_count && sizes[from] <= 2 * MIB + 1; from++)
		for (size_t to = 0; to < sizes_count && sizes[to] <= 2 * MIB + 1; to++) {
			if (sizes[from] + sizes[to] > 512 * KIB && (from + to) % 5)
				continue;
			void *block = malloc(sizes[from]);
			assert_non_null(block);
			fill(block, sizes[from], 1);
			block = resize_checked(block, sizes[from], sizes[to], 1);
			free(block);
		}
}

static void realloc_step_by_step_to_64_mib_contents_kept(void **state)
{
	void *block = NULL;
	size_t size = 0;

	for (size_t next = 1; next <= 64 * MIB; next = next + next / 8 + 1) {
		block = realloc(block, next);
		assert_non_null(block);
		assert_true(is_filled(block, smaller(size, 64), 5));
		assert_true(size < 64 || is_filled(block, size - size / 8, 5));
		fill(block, next, 5);
		size = next;
	}
	free(block);
}

static void realloc_two_growing_blocks_disjoint(void **state)
{
	void *a = NULL, *b = NULL;
	size_t size = 0;

	for (size_t next = 10; next <= 8 * MIB; size = next, next = next * 3 / 2) {
		a = resize_checked(a, size, next, 1);
		b = resize_checked(b, size, next, 101);
		fill(a, next, 1);
		fill(b, next, 101);
	}
	assert_true(is_filled(a, size, 1));
	assert_true(is_filled(b, size, 101));
	free(a);
	free(b);
}

static void realloc_to_usable_size_stays(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		if (sizes[i] > 64 * KIB && !on_hakmem())
			break; /* glibc moves a block that has its own mapping */
		void *block = malloc(sizes[i]);
		assert_non_null(block);
		uintptr_t before = (uintptr_t)block;
		block = realloc(block, malloc_usable_size(block));
		assert_int_equal((uintptr_t)block, before);
		free(block);
	}
}

static void realloc_null_gives_block(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		void *block = realloc(NULL, sizes[i]);
		assert_non_null(block);
		fill(block, sizes[i], 1);
		free(block);
	}
	void *empty = realloc(NULL, hidden(0));
	assert_non_null(empty);
	free(empty);
}

static void realloc_zero_size_frees(void **state)
{
	size_t before = mapped_bytes();

	for (int i = 0; i < 4000; i++) {
		errno = ODD_ERRNO;
		assert_null(realloc(malloc(100 * KIB), hidden(0)));
		assert_null(realloc(malloc(100), hidden(0)));
		assert_int_equal(errno, ODD_ERRNO);
	}
	assert_true(mapped_bytes() < before + 128 * MIB); /* 400 MB if they leaked */
}

/* Advice about some of its pages makes a block several mappings, which the system does not move as one. */
static void realloc_of_advised_pages_contents_kept_address_space_too(void **state)
{
	enum { ROUNDS = 60, SIZE = 8 * MIB };
	size_t before = mapped_bytes();

	for (int i = 0; i < ROUNDS; i++) {
		char *block = malloc(SIZE), *old = block;
		assert_non_null(block);
		fill(block, SIZE, 1);
		uintptr_t page = ((uintptr_t)block + 3 * MIB) & ~(uintptr_t)0xffff;
		assert_int_equal(madvise((void *)page, MIB, MADV_DONTDUMP), 0);
		block = realloc(block, 4 * SIZE);
		assert_non_null(block);
		assert_true(is_filled(block, SIZE, 1));
		if (block == old)
			madvise((void *)page, MIB, MADV_DODUMP);
		free(block);
	}
	assert_true(mapped_bytes() < before + 500 * MIB); /* 2 GiB if each left one mapped */
}

static void reallocarray_product_usable_and_kept(void **state)
{
	unsigned char *block = reallocarray(NULL, 10, 100);

	assert_non_null(block);
	fill(block, 1000, 1);
	block = reallocarray(block, 1000, 100);
	assert_non_null(block);
	assert_true(is_filled(block, 1000, 1));
	fill(block, 100000, 2);
	block = reallocarray(block, 7, 9);
	assert_non_null(block);
	assert_true(is_filled(block, 63, 2));
	free(block);
}

static void *grow_every_block(void *blocks)
{
	for (size_t i = 0; i < sizes_count; i++)
		((void **)blocks)[i] = realloc(((void **)blocks)[i], sizes[i] + sizes[i] / 2 + 1);
	return NULL;
}

static void realloc_by_other_thread_than_owner_contents_kept(void **state)
{
	void **blocks = calloc(sizes_count, sizeof(*blocks));
	pthread_t thread;

	assert_non_null(blocks);
	for (unsigned i = 0; i < sizes_count; i++) {
		blocks[i] = malloc(sizes[i]);
		assert_non_null(blocks[i]);
		fill(blocks[i], sizes[i], i);
	}
	assert_int_equal(pthread_create(&thread, NULL, grow_every_block, blocks), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (unsigned i = 0; i < sizes_count; i++) {
		assert_non_null(blocks[i]);
		assert_true(is_filled(blocks[i], sizes[i], i));
		free(blocks[i]);
	}
	free(blocks);
}

/* A random size, all magnitudes up to 4 MiB alike. */
static size_t random_size(uint64_t *statep)
{
	return (size_t)(random_next(statep) % ((uint64_t)2 << random_next(statep) % 22));
}

static void realloc_random_walk_contents_kept(void **state)
{
	enum { SLOTS = 150, STEPS = 20000 };
	void *blocks[SLOTS] = {NULL};
	size_t kept[SLOTS] = {0};
	uint64_t random = 0x5eed;

	for (int step = 0; step < STEPS; step++) {
		unsigned slot = (unsigned)(random_next(&random) % SLOTS);
		size_t size = random_size(&random) + 1;
		blocks[slot] = realloc(blocks[slot], size);
		assert_non_null(blocks[slot]);
		assert_true(is_filled(blocks[slot], smaller(kept[slot], size), slot));
		fill(blocks[slot], size, slot);
		kept[slot] = size;
	}
	for (unsigned slot = 0; slot < SLOTS; slot++) {
		assert_true(is_filled(blocks[slot], kept[slot], slot));
		free(blocks[slot]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(realloc_up_and_down_all_sizes_contents_kept),
		cmocka_unit_test(realloc_any_pair_of_sizes_contents_kept),
		cmocka_unit_test(realloc_step_by_step_to_64_mib_contents_kept),
		cmocka_unit_test(realloc_two_growing_blocks_disjoint),
		cmocka_unit_test(realloc_to_usable_size_stays),
		cmocka_unit_test(realloc_null_gives_block),
		cmocka_unit_test(realloc_zero_size_frees),
		cmocka_unit_test(realloc_of_advised_pages_contents_kept_address_space_too),
		cmocka_unit_test(reallocarray_product_usable_and_kept),
		cmocka_unit_test(realloc_by_other_thread_than_owner_contents_kept),
		cmocka_unit_test(realloc_random_walk_contents_kept),
	};

	return RUN_TESTS(tests);
}
