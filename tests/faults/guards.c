/* SPDX-License-Identifier: MIT */
/*
 * More large blocks than the system allows a process mappings, at level 3 of HAKMEM_SECURE. All are served and
 * keep what is written to them, and when they are gone so is their address space; that, too, which the
 * system would not take back while there were too many mappings.
 */
#include "../death/cases.h"
#include "../lifecycle/work.h"
#include "../random.h"
#include "read_number.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	COUNT = 40000,
	AT_LIMIT = 1000,
	SLACK = 256 << 20, /* bytes: a region of SuperSlabs, quarantine, what describes the blocks; */
	LITTLE = 48 << 20, /* when they were few */
};

static struct block {
	char *ptr;
	size_t size;
} blocks[COUNT];

int hak_check(void) __attribute__((weak));

static uint64_t seed = 0x9e3779b97f4a7c15;

static size_t address_space(void)
{
	return (size_t)read_number("/proc/self/statm") * (size_t)sysconf(_SC_PAGESIZE);
}

/* Of two pages each at most. */
static bool fill(struct block *block, size_t least, size_t most)
{
	*block = (struct block){NULL, least + next_random(&seed) % (most - least + 1)};
	block->ptr = malloc(block->size);
	if (!block->ptr)
		return false;
	block->ptr[0] = block->ptr[block->size - 1] = (char)block->size;
	return true;
}

static void empty(struct block *block)
{
	if (!block->ptr)
		return;
	CHECK(block->ptr[0] == (char)block->size && block->ptr[block->size - 1] == (char)block->size);
	free(block->ptr);
	block->ptr = NULL;
}

static void look(void)
{
	if (hak_check)
		CHECK(hak_check() <= 0); /* -1: there is no memory to look with */
}

static void shuffle(size_t count)
{
	for (size_t i = count; i > 1; i--) {
		struct block *other = &blocks[next_random(&seed) % i], last = blocks[i - 1];

		blocks[i - 1] = *other;
		*other = last;
	}
}

/* Half of them are freed and made anew, so that they lie anyhow. */
static void use_many(size_t least, size_t most)
{
	for (size_t i = 0; i < COUNT; i++)
		CHECK(fill(&blocks[i], least, most));
	shuffle(COUNT);
	for (size_t i = 0; i < COUNT / 2; i++)
		empty(&blocks[i]);
	for (size_t i = 0; i < COUNT / 2; i++)
		CHECK(fill(&blocks[i], least, most));
	shuffle(COUNT);
	look();
	for (size_t i = 0; i < COUNT; i++)
		empty(&blocks[i]);
	look();
	malloc_trim(0);
}

static void skip_where_memory_is_promised_once(void)
{
	if (read_number("/proc/sys/vm/overcommit_memory") == 2)
		case_skip();
}

static void many(size_t least, size_t most)
{
	size_t before = address_space();

	skip_where_memory_is_promised_once();
	use_many(least, most);
	use_many(least, most);
	CHECK(address_space() < before + SLACK);
	work_all_sizes();
}

static void many_large(void)
{
	many(40 << 10, 100 << 10);
}

static void many_big(void)
{
	many(1536 << 10, 1536 << 10);
}

static void resize(struct block *block, size_t least, size_t most)
{
	size_t size = least + next_random(&seed) % (most - least + 1);
	char *ptr;

	if (!block->ptr)
		return;
	CHECK(block->ptr[0] == (char)block->size);
	ptr = realloc(block->ptr, size);
	CHECK(ptr && malloc_usable_size(ptr) == size);
	CHECK(ptr[0] == (char)block->size);
	*block = (struct block){ptr, size};
	ptr[0] = ptr[size - 1] = (char)size;
}

/* From guarded ones to others and back, and into what was left. */
static void many_resized(void)
{
	skip_where_memory_is_promised_once();
	for (size_t i = 0; i < COUNT; i++)
		CHECK(fill(&blocks[i], 33 << 10, 100 << 10));
	for (int round = 0; round < 3; round++) {
		shuffle(COUNT);
		for (size_t i = 0; i < COUNT / 2; i++)
			resize(&blocks[i], 20 << 10, 150 << 10);
		for (size_t i = COUNT / 4; i < COUNT / 2; i++) {
			empty(&blocks[i]);
			CHECK(fill(&blocks[i], 33 << 10, 2 << 20));
		}
	}
	for (size_t i = 0; i < COUNT; i++)
		empty(&blocks[i]);
	malloc_trim(0);
	work_all_sizes();
}

/* Others take all mappings but `left`. */
static char *take_mappings(size_t left, size_t *sizep)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 2 * (size_t)read_mapping_limit(), i = 0;
	char *area;

	area = mmap(NULL, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(area != MAP_FAILED);
	while (i < pages && mprotect(area + i * page, page, PROT_READ) == 0)
		i += 2;
	CHECK(i < pages && i > left);
	CHECK(mprotect(area, left * page, PROT_NONE) == 0);
	*sizep = pages * page;
	return area;
}

/* Of those that are freed while there is no mapping more, none is lost. */
static void freed_at_limit(size_t least, size_t most)
{
	size_t before, size;
	char *area;

	for (int round = 0; round < 4; round++) {
		area = take_mappings(1500, &size);
		before = address_space();
		for (size_t i = 0; i < COUNT / 8; i++)
			if (!fill(&blocks[i], least, most))
				CHECK(errno == ENOMEM);
		shuffle(COUNT / 8);
		look();
		for (size_t i = 0; i < COUNT / 8; i++)
			empty(&blocks[i]);
		CHECK(munmap(area, size) == 0);
		look();
		malloc_trim(0);
		CHECK(address_space() < before - size + LITTLE);
	}
	for (size_t i = 0; i < AT_LIMIT; i++)
		CHECK(fill(&blocks[i], least, most));
	for (size_t i = 0; i < AT_LIMIT; i++)
		empty(&blocks[i]);
	work_all_sizes();
}

static void large_freed_at_limit(void)
{
	freed_at_limit(40 << 10, 100 << 10);
}

static void big_freed_at_limit(void)
{
	freed_at_limit(600 << 10, 2 << 20);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"large_blocks_many_served_and_given_back", many_large},
		{"big_blocks_many_served_and_given_back", many_big},
		{"blocks_many_resized_served", many_resized},
		{"large_blocks_freed_at_limit_given_back", large_freed_at_limit},
		{"big_blocks_freed_at_limit_given_back", big_freed_at_limit},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
