/* SPDX-License-Identifier: MIT */
/* hakmem.h: whose memory an address is, and giving memory back. */
#include "common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <hakmem.h>

static int some_global;

static void owns_foreign_pointer_no(void **state)
{
	int local;
	static const uintptr_t wild[] = {
		1, 8, 0xfff, 0x1000, 0xdeadbeef, 0xdeadbeefdeadbeef, 0x00007fffffffffff,
		0x0000800000000000, 0x0000ffffffffffff, 0x0001000000000000, 0x0080000000000000,
		0x00ffffffffffffff, 0x0100000000000000, 0x7fffffffffffffff, 0x8000000000000000,
		0xffff800000000000, 0xfffffffffffffff0, UINTPTR_MAX,
	};
	void *mapped = mmap(NULL, 4 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(mapped != MAP_FAILED);
	assert_int_equal(hak_owns(NULL), 0);
	assert_int_equal(hak_owns(&local), 0);
	assert_int_equal(hak_owns(&some_global), 0);
	assert_int_equal(hak_owns("literal"), 0);
	assert_int_equal(hak_owns((const void *)(uintptr_t)&owns_foreign_pointer_no), 0);
	for (size_t offset = 0; offset < 4 * MIB; offset += 4 * KIB)
		assert_int_equal(hak_owns((char *)mapped + offset), 0);
	munmap(mapped, 4 * MIB);
	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++)
		assert_int_equal(hak_owns((const void *)wild[i]), 0);
	/* One address in each 1/65536 of the address space, canonical or not; none is a block. */
	for (uintptr_t high = 0; high < 0x10000; high++)
		assert_int_equal(hak_owns((const void *)(high << 48 | 0x12345670)), 0);
}

static void owns_block_of_any_size_yes(void **state)
{
	for (size_t i = 0; i < sizes_count; i++) {
		if (is_unwrapped(sizes[i]))
			continue;
		char *block = hak_malloc(sizes[i]), *aligned = hak_aligned_alloc(64 * KIB, sizes[i]);
		assert_true(block && aligned);
		assert_int_equal(hak_owns(block), 1);
		assert_int_equal(hak_owns(block + sizes[i] / 2), 1);
		assert_int_equal(hak_owns(block + hak_usable_size(block) - 1), 1);
		assert_int_equal(hak_owns(aligned), 1);
		/* The same address with a bit set that no pointer has. */
		assert_int_equal(hak_owns((void *)((uintptr_t)block | (uintptr_t)1 << 62)), 0);
		hak_free(block);
		hak_free(aligned);
	}
}

static void trim_freed_memory_given_back(void **state)
{
	enum { COUNT = 16000, SIZE = 4000 };
	void **blocks = hak_malloc(COUNT * sizeof(*blocks));
	size_t before = resident_bytes();

	assert_non_null(blocks);
	for (int i = 0; i < COUNT; i++) {
		blocks[i] = hak_malloc(SIZE);
		assert_non_null(blocks[i]);
		memset(blocks[i], 1, SIZE);
	}
	for (int i = 0; i < COUNT; i++)
		hak_free(blocks[i]);
	errno = ODD_ERRNO;
	hak_trim(0);
	assert_int_equal(errno, ODD_ERRNO);
	assert_true(resident_bytes() < before + 8 * MIB);
	hak_free(blocks);
}

static void trim_result_tells_if_any_was_given_back(void **state)
{
	void *block = hak_malloc(4 * MIB);

	assert_non_null(block);
	memset(block, 1, 4 * MIB);
	hak_free(block);
	assert_int_equal(hak_trim(hidden(SIZE_MAX)), 0);
	assert_in_range(hak_trim(0), 0, 1);
	hak_trim(0);
	assert_int_equal(hak_trim(0), 0);
}

/* Slabs that become free memory are not given back by that, where they do not have mappings of their own. */
static void trim_of_small_blocks_tells_if_any_was_given_back(void **state)
{
	enum { COUNT = 5000 };
	static void *blocks[COUNT];
	static struct hak_stats before, after;

	for (int i = 0; i < COUNT; i++) {
		assert_non_null(blocks[i] = hak_malloc(500));
		memset(blocks[i], 1, 500);
	}
	for (int i = 0; i < COUNT; i++)
		hak_free(blocks[i]);
	assert_int_equal(hak_stats_get(&before, sizeof before), 0);
	int any = hak_trim(hidden(SIZE_MAX));
	assert_int_equal(hak_stats_get(&after, sizeof after), 0);
	assert_int_equal(any, after.purged > before.purged || after.mapped < before.mapped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owns_foreign_pointer_no),
		cmocka_unit_test(owns_block_of_any_size_yes),
		cmocka_unit_test(trim_freed_memory_given_back),
		cmocka_unit_test(trim_result_tells_if_any_was_given_back),
		cmocka_unit_test(trim_of_small_blocks_tells_if_any_was_given_back),
	};

	return RUN_TESTS(tests);
}
