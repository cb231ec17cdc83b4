/* SPDX-License-Identifier: MIT */
/* What each function of the malloc family does when all goes well. */
#include "common.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void malloc_any_size_aligned_and_writable(void **state)
{
	for (size_t size = 1; size <= 4 * KIB; size++) {
		void *block = malloc(size);
		assert_non_null(block);
		assert_true(is_aligned(block, 16));
		memset(block, 0xff, size);
		free(block);
	}
	for (size_t i = 0; i < sizes_count; i++) {
		void *block = malloc(sizes[i]);
		assert_non_null(block);
		assert_true(is_aligned(block, 16));
		fill(block, sizes[i], 1);
		assert_true(is_filled(block, sizes[i], 1));
		free(block);
	}
}

static void malloc_all_sizes_live_disjoint(void **state)
{
	void **blocks = calloc(sizes_count, sizeof(*blocks));

	assert_non_null(blocks);
	for (unsigned i = 0; i < sizes_count; i++) {
		blocks[i] = malloc(sizes[i]);
		assert_non_null(blocks[i]);
		fill(blocks[i], sizes[i], i);
	}
	for (unsigned i = 0; i < sizes_count; i++)
		assert_true(is_filled(blocks[i], sizes[i], i));
	for (unsigned i = 0; i < sizes_count; i++)
		free(blocks[i]);
	free(blocks);
}

static void malloc_many_small_live_disjoint(void **state)
{
	enum { COUNT = 20000 };
	void **blocks = malloc(COUNT * sizeof(*blocks));

	assert_non_null(blocks);
	for (unsigned i = 0; i < COUNT; i++) {
		blocks[i] = malloc(i % 1031);
		assert_non_null(blocks[i]);
		fill(blocks[i], i % 1031, i);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		assert_true(is_filled(blocks[i], i % 1031, i));
		free(blocks[i]);
	}
	free(blocks);
}

static void malloc_zero_size_distinct_blocks(void **state)
{
	enum { COUNT = 300 };
	void *blocks[COUNT];

	for (int i = 0; i < COUNT; i++) {
		blocks[i] = malloc(0);
		assert_non_null(blocks[i]);
		assert_true(is_aligned(blocks[i], 16));
		for (int j = 0; j < i; j++)
			assert_ptr_not_equal(blocks[i], blocks[j]);
	}
	for (int i = 0; i < COUNT; i++)
		free(blocks[i]);
}

static void free_null_does_nothing(void **state)
{
	free(NULL);
}

static void cfree_block_freed(void **state)
{
	void (*cfree_function)(void *) = find_function("cfree");

	cfree_function(malloc(100));
	cfree_function(NULL);
}

static void free_sized_block_freed(void **state)
{
	void (*free_sized_function)(void *, size_t) = find_function("free_sized");

	for (size_t i = 0; i < sizes_count; i++) {
		free_sized_function(malloc(sizes[i]), sizes[i]);
		free_sized_function(calloc(1, sizes[i]), sizes[i]);
		free_sized_function(realloc(malloc(1), sizes[i]), sizes[i]);
	}
	free_sized_function(malloc(0), 0);
	free_sized_function(NULL, 77);
}

static void free_aligned_sized_block_freed(void **state)
{
	void (*free_function)(void *, size_t, size_t) = find_function("free_aligned_sized");

	for (size_t alignment = 1; alignment <= 1 * MIB; alignment *= 2)
		for (size_t i = 0; i < sizes_count; i += 5)
			free_function(aligned_alloc(alignment, sizes[i]), alignment, sizes[i]);
	free_function(NULL, 64, 128);
}

static void libc_results_freed(void **state)
{
	char *text = NULL, *line = NULL;
	size_t size = 0;

	free(strdup("a string"));
	free(strndup("a longer string", 8));
	assert_true(asprintf(&text, "%0*d", 5000, 1) == 5000);
	FILE *file = fmemopen(text, 5000, "r");
	assert_non_null(file);
	assert_int_equal(getline(&line, &size, file), 5000);
	fclose(file);
	free(line);
	free(text);
	free(realpath("/", NULL));
}

static void libc_aliases_blocks_of_one_allocator(void **state)
{
	void *(*libc_malloc)(size_t) = find_function("__libc_malloc");
	void *(*libc_calloc)(size_t, size_t) = find_function("__libc_calloc");
	void *(*libc_realloc)(void *, size_t) = find_function("__libc_realloc");
	void *(*libc_memalign)(size_t, size_t) = find_function("__libc_memalign");
	void *(*libc_valloc)(size_t) = find_function("__libc_valloc");
	void *(*libc_pvalloc)(size_t) = find_function("__libc_pvalloc");
	void (*libc_free)(void *) = find_function("__libc_free");
	void *resized = libc_realloc(malloc(10), 3000);

	assert_non_null(resized);
	assert_true(malloc_usable_size(resized) >= 3000);
	free(resized);
	free(libc_malloc(100));
	free(libc_realloc(libc_calloc(10, 10), 20000));
	void *aligned = libc_memalign(512, 100), *page = libc_valloc(1), *pages = libc_pvalloc(1);
	assert_true(aligned && is_aligned(aligned, 512));
	assert_true(page && is_aligned(page, (size_t)getpagesize()));
	assert_true(pages && is_aligned(pages, (size_t)getpagesize()));
	free(aligned);
	free(page);
	free(pages);
	libc_free(malloc(2000));
	libc_free(NULL);
}

static void posix_memalign_alias_as_posix_memalign(void **state)
{
	int (*alias)(void **, size_t, size_t) = find_function("__posix_memalign");
	void *block = NULL;

	assert_int_equal(alias(&block, 256, 1000), 0);
	assert_true(block && is_aligned(block, 256));
	free(block);
	assert_int_equal(alias(&block, 24, 1000), EINVAL);
}

static void *malloc_every_size(void *blocks)
{
	for (unsigned i = 0; i < sizes_count; i++) {
		((void **)blocks)[i] = malloc(sizes[i]);
		if (((void **)blocks)[i])
			fill(((void **)blocks)[i], sizes[i], i);
	}
	return NULL;
}

static void free_by_other_thread_than_owner_works(void **state)
{
	void **blocks = calloc(sizes_count, sizeof(*blocks));
	pthread_t thread;

	assert_non_null(blocks);
	for (int round = 0; round < 4; round++) {
		assert_int_equal(pthread_create(&thread, NULL, malloc_every_size, blocks), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		for (unsigned i = 0; i < sizes_count; i++) {
			assert_non_null(blocks[i]);
			assert_true(is_filled(blocks[i], sizes[i], i));
			free(blocks[i]);
		}
	}
	free(blocks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(malloc_any_size_aligned_and_writable),
		cmocka_unit_test(malloc_all_sizes_live_disjoint),
		cmocka_unit_test(malloc_many_small_live_disjoint),
		cmocka_unit_test(malloc_zero_size_distinct_blocks),
		cmocka_unit_test(free_null_does_nothing),
		cmocka_unit_test(cfree_block_freed),
		cmocka_unit_test(free_sized_block_freed),
		cmocka_unit_test(free_aligned_sized_block_freed),
		cmocka_unit_test(libc_results_freed),
		cmocka_unit_test(libc_aliases_blocks_of_one_allocator),
		cmocka_unit_test(posix_memalign_alias_as_posix_memalign),
		cmocka_unit_test(free_by_other_thread_than_owner_works),
	};

	return RUN_TESTS(tests);
}
