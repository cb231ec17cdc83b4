/* SPDX-License-Identifier: MIT */
/*
 * Blocks of the libc's own malloc, as libraries that look their symbols up elsewhere (RTLD_DEEPBIND,
 * dlmopen's neighbours) bring them: free, realloc and malloc_usable_size must take them. On the
 * reference both are one allocator.
 */
#include "common.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/lib-names.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static void *(*libc_malloc)(size_t);
static void *(*libc_aligned)(size_t, size_t);

static int find_libc(void **state)
{
	void *libc = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);
	int (*libc_mallopt)(int, int) = libc ? dlsym(libc, "mallopt") : NULL;

	if (!libc_mallopt)
		return -1;
	libc_malloc = dlsym(libc, "malloc");
	libc_aligned = dlsym(libc, "memalign");
	/* A fixed threshold: glibc raises its own when mapped blocks are freed. */
	return libc_mallopt(M_MMAP_THRESHOLD, 64 * 1024) == 1 ? 0 : -1;
}

static void foreign_block_any_size_freed(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		void *plain = libc_malloc(sizes[i]), *aligned = libc_aligned(4096, sizes[i]);
		assert_true(plain && aligned);
		assert_true(malloc_usable_size(plain) >= sizes[i]);
		assert_true(malloc_usable_size(aligned) >= sizes[i]);
		errno = ODD_ERRNO;
		free(plain);
		free(aligned);
		assert_int_equal(errno, ODD_ERRNO);
	}
}

static void foreign_block_realloc_contents_kept(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		void *block = libc_malloc(sizes[i]);
		assert_non_null(block);
		fill(block, sizes[i], 1);
		block = realloc(block, 2 * sizes[i]);
		assert_non_null(block);
		assert_true(is_filled(block, sizes[i], 1));
		block = realloc(block, sizes[i]);
		assert_non_null(block);
		assert_true(is_filled(block, sizes[i], 1));
		free(block);
	}
}

static void foreign_block_realloc_to_zero_frees(void **state)
{
	size_t before = mapped_bytes();

	for (int i = 0; i < 2000; i++)
		assert_null(realloc(libc_malloc(100 * KIB), hidden(0)));
	assert_true(mapped_bytes() < before + 64 * MIB);
}

/* Where the program's allocator had a block, and gave the addresses back, the libc may have one now:
   what is remembered of the former block must not condemn the new one. */
static void foreign_block_in_released_space_freed(void **state)
{
	enum { COUNT = 4 };
	void *blocks[COUNT];

	for (size_t size = 64 * KIB; size <= 64 * MIB; size *= 2)
		for (int round = 0; round < 20; round++) {
			size_t wanted = size + (size_t)round * 4 * KIB;
			for (int i = 0; i < COUNT; i++)
				blocks[i] = malloc(wanted);
			for (int i = 0; i < COUNT; i++)
				free(blocks[i]);
			malloc_trim(0);
			for (int i = 0; i < COUNT; i++) {
				blocks[i] = round % 2 ? libc_malloc(wanted) : libc_aligned(64 * KIB, wanted);
				assert_non_null(blocks[i]);
				assert_true(malloc_usable_size(blocks[i]) >= wanted);
			}
			blocks[0] = realloc(blocks[0], wanted + 1);
			assert_non_null(blocks[0]);
			for (int i = 0; i < COUNT; i++)
				free(blocks[i]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(foreign_block_any_size_freed),
		cmocka_unit_test(foreign_block_realloc_contents_kept),
		cmocka_unit_test(foreign_block_realloc_to_zero_frees),
		cmocka_unit_test(foreign_block_in_released_space_freed),
	};

	return check_allocator() ? 1 : cmocka_run_group_tests(tests, find_libc, NULL);
}
