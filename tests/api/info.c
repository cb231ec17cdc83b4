/* SPDX-License-Identifier: MIT */
/* The functions that tell about the allocator, or tune it. */
#include "common.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void malloc_trim_live_blocks_kept(void **state)
{
	enum { COUNT = 4000, SIZE = 4000 };
	void **blocks = malloc(COUNT * sizeof(*blocks));

	assert_non_null(blocks);
	for (unsigned i = 0; i < COUNT; i++) {
		blocks[i] = malloc(SIZE);
		assert_non_null(blocks[i]);
		fill(blocks[i], SIZE, i);
	}
	for (unsigned i = 0; i < COUNT; i++)
		if (i % 16)
			free(blocks[i]);
	int result = malloc_trim(0);
	assert_true(result == 0 || result == 1);
	for (unsigned i = 0; i < COUNT; i += 16) {
		assert_true(is_filled(blocks[i], SIZE, i));
		free(blocks[i]);
	}
	free(blocks);
}

static void malloc_trim_freed_memory_given_back(void **state)
{
	enum { COUNT = 16000, SIZE = 4000 };
	void **blocks = malloc(COUNT * sizeof(*blocks));
	size_t before = resident_bytes();

	assert_non_null(blocks);
	for (unsigned i = 0; i < COUNT; i++) {
		blocks[i] = malloc(SIZE);
		assert_non_null(blocks[i]);
		memset(blocks[i], 1, SIZE);
	}
	assert_true(resident_bytes() > before + 32 * MIB);
	for (unsigned i = 0; i < COUNT; i++)
		free(blocks[i]);
	malloc_trim(0);
	assert_true(resident_bytes() < before + 8 * MIB);
	free(blocks);
}

/* Bytes in use: as in glibc, hblkhd has the blocks with mappings of their own, uordblks the others. */
static size_t in_use(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void mallinfo2_large_block_counted(void **state)
{
	if (!has_stats())
		skip();
	size_t before = in_use();
	void *block = malloc(64 * MIB);

	assert_non_null(block);
	assert_true(in_use() >= before + 64 * MIB);
	assert_true(in_use() < before + 72 * MIB);
	free(block);
	assert_true(in_use() < before + 1 * MIB);
}

static void mallinfo2_small_blocks_counted(void **state)
{
	enum { COUNT = 5000, SIZE = 2000 };
	if (!has_stats())
		skip();
	void **blocks = malloc(COUNT * sizeof(*blocks));
	size_t before = in_use();

	assert_non_null(blocks);
	for (unsigned i = 0; i < COUNT; i++)
		blocks[i] = malloc(SIZE);
	assert_true(in_use() >= before + COUNT * SIZE - 64 * KIB);
	for (unsigned i = 0; i < COUNT; i++)
		free(blocks[i]);
	free(blocks);
}

static void mallinfo_as_mallinfo2(void **state)
{
	/* Through find_function, since the header calls it deprecated. */
	struct mallinfo (*mallinfo_function)(void) = find_function("mallinfo");
	struct mallinfo narrow = mallinfo_function();
	struct mallinfo2 wide = mallinfo2();

	assert_int_equal((unsigned)narrow.arena, (unsigned)wide.arena);
	assert_int_equal((unsigned)narrow.ordblks, (unsigned)wide.ordblks);
	assert_int_equal((unsigned)narrow.smblks, (unsigned)wide.smblks);
	assert_int_equal((unsigned)narrow.hblks, (unsigned)wide.hblks);
	assert_int_equal((unsigned)narrow.usmblks, (unsigned)wide.usmblks);
	assert_int_equal((unsigned)narrow.fsmblks, (unsigned)wide.fsmblks);
	assert_int_equal((unsigned)narrow.hblkhd, (unsigned)wide.hblkhd);
	assert_int_equal((unsigned)narrow.uordblks, (unsigned)wide.uordblks);
	assert_int_equal((unsigned)narrow.fordblks, (unsigned)wide.fordblks);
}

static void mallopt_known_parameter_accepted(void **state)
{
	static const int parameters[][2] = {
		{M_TRIM_THRESHOLD, 1 << 20}, {M_MMAP_THRESHOLD, 1 << 20}, {M_MMAP_MAX, 1000},
		{M_TOP_PAD, 0}, {M_ARENA_MAX, 1}, {M_ARENA_TEST, 1},
	};

	for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
		assert_int_equal(mallopt(parameters[i][0], parameters[i][1]), 1);
		void *small = malloc(100), *large = malloc(4 * MIB);
		assert_true(small && large);
		free(small);
		free(large);
	}
}

static void mallopt_perturb_calloc_still_zero(void **state)
{
	assert_int_equal(mallopt(M_PERTURB, 0xa5), 1);
	for (size_t i = 0; i < sizes_count; i += 3) {
		free(malloc(sizes[i]));
		void *block = calloc(1, sizes[i]);
		assert_non_null(block);
		assert_true(is_zero(block, sizes[i]));
		fill(block, sizes[i], 1);
		void *grown = realloc(block, 2 * sizes[i]);
		assert_non_null(grown);
		assert_true(is_filled(grown, sizes[i], 1));
		free(grown);
	}
	assert_int_equal(mallopt(M_PERTURB, 0), 1);
}

/* What malloc_stats writes to descriptor `fd`, up to `size` - 1 bytes of it, as a string. */
static void capture_stats(int fd, char *text, size_t size)
{
	FILE *file = tmpfile();
	int saved = dup(fd);

	assert_true(file && saved >= 0);
	fflush(NULL);
	assert_int_equal(dup2(fileno(file), fd), fd);
	malloc_stats();
	fflush(NULL);
	assert_int_equal(dup2(saved, fd), fd);
	close(saved);
	rewind(file);
	text[fread(text, 1, size - 1, file)] = 0;
	fclose(file);
}

static void malloc_stats_text_on_stderr_only(void **state)
{
	char text[4096];

	capture_stats(STDERR_FILENO, text, sizeof(text));
	assert_true(strlen(text) > 0);
	assert_non_null(strchr(text, '\n'));
	int saved = dup(STDERR_FILENO);
	FILE *null = fopen("/dev/null", "we");
	assert_true(saved >= 0 && null);
	assert_int_equal(dup2(fileno(null), STDERR_FILENO), STDERR_FILENO);
	fclose(null);
	capture_stats(STDOUT_FILENO, text, sizeof(text));
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(malloc_trim_live_blocks_kept),
		cmocka_unit_test(malloc_trim_freed_memory_given_back),
		cmocka_unit_test(mallinfo2_large_block_counted),
		cmocka_unit_test(mallinfo2_small_blocks_counted),
		cmocka_unit_test(mallinfo_as_mallinfo2),
		cmocka_unit_test(malloc_stats_text_on_stderr_only),
		cmocka_unit_test(mallopt_known_parameter_accepted),
		cmocka_unit_test(mallopt_perturb_calloc_still_zero),
	};

	return RUN_TESTS(tests);
}
