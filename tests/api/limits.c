/* SPDX-License-Identifier: MIT */
/* Sizes that cannot be served, memory that is not there, and errno. */
#include "common.h"

#include "../memcheck.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static void *by_calloc(size_t size) { return calloc(1, size); }
static void *by_calloc_swapped(size_t size) { return calloc(size, 1); }
static void *by_realloc(size_t size) { return realloc(NULL, size); }
static void *by_reallocarray(size_t size) { return reallocarray(NULL, size, 1); }
static void *by_aligned_alloc(size_t size) { return aligned_alloc(64, size); }
static void *by_aligned_alloc_page(size_t size) { return aligned_alloc(4096, size); }
static void *by_aligned_alloc_large(size_t size) { return aligned_alloc(4 * MIB, size); }
static void *by_memalign(size_t size) { return memalign(16, size); }
static void *by_memalign_odd(size_t size) { return memalign(hidden(48), size); }

/* Every way to a new block that tells of failure in errno. */
static const struct way {
	const char *name;
	void *(*allocate)(size_t size);
} ways[] = {
	{"malloc", malloc}, {"calloc", by_calloc}, {"calloc swapped", by_calloc_swapped},
	{"realloc", by_realloc}, {"reallocarray", by_reallocarray}, {"valloc", valloc},
	{"pvalloc", pvalloc}, {"aligned_alloc 64", by_aligned_alloc},
	{"aligned_alloc 4096", by_aligned_alloc_page}, {"aligned_alloc 4M", by_aligned_alloc_large},
	{"memalign 16", by_memalign}, {"memalign 48", by_memalign_odd},
};
static const size_t ways_count = sizeof(ways) / sizeof(ways[0]);

static void new_block_huge_size_enomem(void **state)
{
	for (size_t way = 0; way < ways_count; way++)
		for (size_t i = 0; i < huge_sizes_count; i++) {
			errno = ODD_ERRNO;
			void *block = ways[way].allocate(hidden(huge_sizes[i]));
			if (block || errno != ENOMEM)
				fail_msg("%s of %#zx: %p, errno %d", ways[way].name, huge_sizes[i], block, errno);
		}
}

static void new_block_any_size_errno_kept(void **state)
{
	for (size_t way = 0; way < ways_count; way++)
		for (size_t i = 0; i < sizes_count; i++) {
			errno = ODD_ERRNO;
			void *block = ways[way].allocate(sizes[i]);
			if (!block || errno != ODD_ERRNO)
				fail_msg("%s of %zu: %p, errno %d", ways[way].name, sizes[i], block, errno);
			((volatile char *)block)[sizes[i] - 1] = 1;
			free(block);
			assert_int_equal(errno, ODD_ERRNO);
		}
}

static void free_many_blocks_errno_kept(void **state)
{
	enum { COUNT = 500 };
	void *blocks[COUNT];

	for (size_t i = 0; i < sizes_count && sizes[i] <= 128 * KIB; i++) {
		for (int j = 0; j < COUNT; j++)
			blocks[j] = malloc(sizes[i]);
		errno = ODD_ERRNO;
		for (int j = 0; j < COUNT; j++)
			free(blocks[j]);
		free(NULL);
		assert_int_equal(errno, ODD_ERRNO);
	}
}

static void posix_memalign_huge_size_enomem(void **state)
{
	int here;
	void *const before = &here;
	void *block = before;

	for (size_t alignment = 8; alignment <= 64 * MIB; alignment *= 8)
		for (size_t i = 0; i < huge_sizes_count; i++) {
			errno = ODD_ERRNO;
			assert_int_equal(posix_memalign(&block, alignment, hidden(huge_sizes[i])), ENOMEM);
			assert_int_equal(errno, ENOMEM); /* not asked for by the standard, but libc's does so */
			assert_ptr_equal(block, before);
		}
}

static void realloc_huge_size_enomem_and_block_kept(void **state)
{
	for (size_t i = 0; i < sizes_count; i += 3) {
		void *block = malloc(sizes[i]);
		assert_non_null(block);
		fill(block, sizes[i], 1);
		for (size_t j = 0; j < huge_sizes_count; j++) {
			errno = ODD_ERRNO;
			assert_null(realloc(block, hidden(huge_sizes[j])));
			assert_int_equal(errno, ENOMEM);
			errno = ODD_ERRNO;
			assert_null(reallocarray(block, hidden(huge_sizes[j]), 1));
			assert_int_equal(errno, ENOMEM);
		}
		assert_true(is_filled(block, sizes[i], 1));
		assert_true(malloc_usable_size(block) >= sizes[i]);
		free(block);
	}
}

static void product_overflow_enomem(void **state)
{
	static const size_t factors[][2] = {
		{SIZE_MAX, 2}, {2, SIZE_MAX}, {SIZE_MAX, SIZE_MAX}, {SIZE_MAX / 2 + 1, 2},
		{(size_t)1 << 32, (size_t)1 << 32}, {((size_t)1 << 32) + 1, (size_t)1 << 32},
		{SIZE_MAX / 16 + 2, 16}, {SIZE_MAX / 2 + 2, 2}, {3, SIZE_MAX / 3 + 1},
		{((size_t)1 << 33) - 1, ((size_t)1 << 31) + 7}, {PTRDIFF_MAX, 2},
	};

	for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
		errno = ODD_ERRNO;
		assert_null(calloc(hidden(factors[i][0]), hidden(factors[i][1])));
		assert_int_equal(errno, ENOMEM);
		errno = ODD_ERRNO;
		void *block = malloc(100);
		assert_non_null(block);
		fill(block, 100, 1);
		errno = ODD_ERRNO;
		void *resized = reallocarray(block, hidden(factors[i][0]), hidden(factors[i][1]));
		assert_int_equal(errno, ENOMEM);
		assert_true(!resized && is_filled(block, 100, 1));
		free(resized ? resized : block);
	}
}

static void realloc_any_size_errno_kept(void **state)
{
	void *block = NULL;

	errno = ODD_ERRNO;
	for (size_t i = 0; i < sizes_count; i++) {
		block = realloc(block, sizes[i]);
		assert_non_null(block);
		assert_int_equal(errno, ODD_ERRNO);
	}
	for (size_t i = sizes_count; i-- > 0;) {
		block = realloc(block, sizes[i]);
		assert_non_null(block);
		assert_int_equal(errno, ODD_ERRNO);
	}
	free(block);
}

/* Lets the address space grow by no more than `more` bytes; gives the limit that held. Under memcheck the test case
   ends here: the limit would hold for memcheck's own memory, too, and to get none ends memcheck. */
static rlim_t limit_address_space(size_t more)
{
	struct rlimit limit;

	if (on_memcheck())
		skip();
	assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
	rlim_t before = limit.rlim_cur;
	limit.rlim_cur = mapped_bytes() + more;
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	if (is_mappable(2 * more, PROT_NONE))
		skip();
	return before;
}

static void restore_address_space(rlim_t before)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
	limit.rlim_cur = before;
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

static void address_space_limit_enomem_then_full_service(void **state)
{
	void *block = malloc(1000);

	assert_non_null(block);
	fill(block, 1000, 1);
	rlim_t before = limit_address_space(64 * MIB);
	errno = 0;
	void *large = malloc(GIB);
	int malloc_errno = errno;
	void *grown = realloc(block, GIB);
	int realloc_errno = errno;
	restore_address_space(before);
	assert_null(large);
	assert_int_equal(malloc_errno, ENOMEM);
	assert_null(grown);
	assert_int_equal(realloc_errno, ENOMEM);
	assert_true(is_filled(block, 1000, 1));
	block = realloc(block, GIB);
	assert_non_null(block);
	assert_true(is_filled(block, 1000, 1));
	free(block);
}

/* So that a block does not grow where it is. NULL: there is something already. */
static void *occupy_behind(char *block)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), usable = malloc_usable_size(block);
	char *end = block + usable - (uintptr_t)(block + usable) % page, *last = end + 64 * page;

	for (; end <= last; end += page) {
		void *p = mmap(end, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (p == end)
			return p;
		if (p != MAP_FAILED)
			munmap(p, page);
	}
	return NULL;
}

/* There is memory for what it grows by, but for nothing beside it. */
static void data_limit_block_grows_by_what_is_left(void **state)
{
	const size_t old = 64 * MIB, new = 88 * MIB, left = 28 * MIB;
	struct rlimit all, limit;

	if (on_memcheck() || has_guards())
		skip();
	malloc_trim(0); /* what was freed would serve */
	char *block = malloc(old);
	assert_non_null(block);
	fill(block, 100, 1);
	fill(block + old - 100, 100, 2);
	void *behind = occupy_behind(block);
	assert_int_equal(getrlimit(RLIMIT_DATA, &all), 0);
	limit = all;
	limit.rlim_cur = data_bytes() + left;
	assert_int_equal(setrlimit(RLIMIT_DATA, &limit), 0);
	bool is_limited = !is_mappable(2 * left, PROT_READ | PROT_WRITE);
	char *grown = is_limited ? realloc(block, new) : block;
	assert_int_equal(setrlimit(RLIMIT_DATA, &all), 0);
	assert_non_null(grown);
	assert_true(is_filled(grown, 100, 1) && is_filled(grown + old - 100, 100, 2));
	free(grown);
	if (behind)
		munmap(behind, 1);
	if (!is_limited)
		skip();
}

/* Blocks of `size` bytes until there are no more, or 1 GiB, as a list through their first words. */
static void *exhaust(size_t size, size_t *totalp)
{
	void *list = NULL, *block;

	while (*totalp < GIB && (block = malloc(size)) != NULL) {
		*(void **)block = list;
		list = block;
		*totalp += size;
	}
	return list;
}

static void list_free(void *list)
{
	while (list) {
		void *next = *(void **)list;
		free(list);
		list = next;
	}
}

static void address_space_exhausted_enomem_then_full_service(void **state)
{
	for (size_t size = 64; size <= 4 * MIB; size *= 16) {
		size_t total = 0;
		rlim_t before = limit_address_space(64 * MIB);
		void *list = exhaust(size, &total);
		int last_errno = errno;
		list_free(list);
		void *again = malloc(size);
		restore_address_space(before);
		assert_int_equal(last_errno, ENOMEM);
		assert_true(total >= 16 * MIB);
		assert_non_null(again);
		free(again);
		void *large = malloc(256 * MIB);
		assert_non_null(large);
		free(large);
	}
}

/* A block that shrinks where it is, since there is no room for a smaller one. */
static void address_space_exhausted_shrinking_keeps_errno(void **state)
{
	size_t total = 0;
	char *block = malloc(30000);

	assert_non_null(block);
	fill(block, 100, 1);
	rlim_t before = limit_address_space(32 * MIB);
	void *list = exhaust(100, &total);
	errno = ODD_ERRNO;
	block = realloc(block, 100);
	int last_errno = errno;
	restore_address_space(before);
	list_free(list);
	assert_true(block && is_filled(block, 100, 1));
	assert_int_equal(last_errno, ODD_ERRNO);
	free(block);
}

/* There is no room for a small block, and the large one gives up what it has beyond that. */
static void address_space_exhausted_shrinking_gives_back(void **state)
{
	size_t total = 0;
	char *block = malloc(64 * MIB);

	assert_non_null(block);
	fill(block, 100, 1);
	rlim_t before = limit_address_space(32 * MIB);
	void *list = exhaust(100, &total);
	block = realloc(block, 100);
	void *large = malloc(32 * MIB);
	restore_address_space(before);
	list_free(list);
	assert_true(block && is_filled(block, 100, 1));
	assert_true(large || has_guards());
	free(large);
	free(block);
}

/* Large blocks where small ones were, of which a few are left. */
static void address_space_exhausted_large_blocks_among_small_ones(void **state)
{
	enum { SMALL = 2000, KEPT_EVERY = 750 }; /* less may be libc's */
	size_t total = 0, large = 0, i = 0;
	rlim_t before = limit_address_space(256 * MIB);
	void *list = exhaust(SMALL, &total), *kept = NULL;

	for (; list; i++) {
		void *next = *(void **)list;
		if (i % KEPT_EVERY == 0) {
			*(void **)list = kept;
			kept = list;
		} else {
			free(list);
		}
		list = next;
	}
	list = exhaust(100000, &large);
	list_free(list);
	list_free(kept);
	restore_address_space(before);
	assert_true(large >= total / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_block_huge_size_enomem),
		cmocka_unit_test(new_block_any_size_errno_kept),
		cmocka_unit_test(free_many_blocks_errno_kept),
		cmocka_unit_test(posix_memalign_huge_size_enomem),
		cmocka_unit_test(realloc_huge_size_enomem_and_block_kept),
		cmocka_unit_test(product_overflow_enomem),
		cmocka_unit_test(realloc_any_size_errno_kept),
		cmocka_unit_test(address_space_limit_enomem_then_full_service),
		cmocka_unit_test(data_limit_block_grows_by_what_is_left),
		cmocka_unit_test(address_space_exhausted_enomem_then_full_service),
		cmocka_unit_test(address_space_exhausted_shrinking_keeps_errno),
		cmocka_unit_test(address_space_exhausted_shrinking_gives_back),
		cmocka_unit_test(address_space_exhausted_large_blocks_among_small_ones),
	};

	return RUN_TESTS(tests);
}
