/* SPDX-License-Identifier: MIT */
/*
 * Correct programs that look as guilty as a correct program can: whatever blocks hold when they are
 * freed, nobody may be accused. Judged by quiet.c.
 */
#include "cases.h"
#include "../random.h"

#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SLOTS = 4096 };

/* Writes what a guilty block might hold into `words` words of `p`; NULL: leaves it as it came. */
typedef void (*disguise)(uint64_t *p, size_t words);

static uint64_t seed = 0x9e3779b97f4a7c15;

static void *slots[SLOTS];

/* Mostly tiny, now and then up to 64 KiB, rarely more. */
static size_t next_size(void)
{
	uint64_t r = next_random(&seed);

	if (r % 4096 == 0)
		return 16 + r / 4096 % (2 << 20);
	if (r % 64 == 0)
		return 16 + r / 64 % (64 << 10);
	return 16 + r / 64 % (r & 1 ? 112 : 1008);
}

/* `count` blocks come and go, at most SLOTS at a time. */
static void come_and_go(size_t count, disguise write)
{
	for (size_t i = 0; i < count; i++) {
		void **slot = &slots[next_random(&seed) % SLOTS];
		size_t size = next_size();

		free(*slot);
		*slot = malloc(size);
		CHECK(*slot);
		if (write)
			write(*slot, size / 8 < 8 ? size / 8 : 8);
	}
	for (size_t i = 0; i < SLOTS; i++) {
		free(slots[i]);
		slots[i] = NULL;
	}
}

static void never_written(void)
{
	come_and_go(3000000, NULL);
}

static void write_random(uint64_t *p, size_t words)
{
	while (words--)
		p[words] = next_random(&seed);
}

static void random_contents(void)
{
	come_and_go(3000000, write_random);
}

/* Random addresses close to the block: aligned, odd, in its page, in its 4 GiB. */
static void write_near(uint64_t *p, size_t words)
{
	static const uint64_t spans[] = {0xffffffff, 0xffff, 0x1fffff, 0xfff};
	uint64_t here = (uint64_t)(uintptr_t)p;

	while (words--) {
		uint64_t r = next_random(&seed), span = spans[r >> 62];

		p[words] = (here & ~span) | (r & span & (r >> 61 & 1 ? ~0ull : ~15ull));
	}
}

static void near_addresses(void)
{
	come_and_go(3000000, write_near);
}

static void write_blocks(uint64_t *p, size_t words)
{
	while (words--)
		p[words] = (uint64_t)(uintptr_t)slots[next_random(&seed) % SLOTS];
}

static void block_addresses(void)
{
	come_and_go(3000000, write_blocks);
}

static void write_itself(uint64_t *p, size_t words)
{
	for (size_t i = 0; i < words; i++)
		p[i] = (uint64_t)(uintptr_t)p | i;
}

static void own_address(void)
{
	come_and_go(1000000, write_itself);
}

static void write_pattern(uint64_t *p, size_t words)
{
	static const uint64_t patterns[] = {0, 1, 16, ~0ull, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa,
		0x0101010101010101, 0xdeadbeefdeadbeef, 0x00000000ffffffff, 0xffffffff00000000};

	memset(p, 0, words * 8);
	while (words--)
		p[words] = patterns[next_random(&seed) % (sizeof patterns / sizeof *patterns)];
}

static void fixed_patterns(void)
{
	come_and_go(1000000, write_pattern);
}

/* Memory of freed blocks may have been unmapped, which is no fault of the allocator's. */
static void read_freed(void *to, const void *from, size_t size)
{
	struct iovec local = {to, size}, remote = {(void *)(uintptr_t)from, size};

	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)size)
		memset(to, 0, size);
}

/* What free blocks hold, seen by the ill-mannered but innocent: a block that holds the exact words
   of a free one looks free itself. */
static void copies_of_freed_memory(void)
{
	enum { COUNT = 256, ROUNDS = 100 };
	static const size_t sizes[] = {16, 48, 128, 512, 1024, 3000, 12 << 10};
	static uint64_t copies[COUNT][2];

	for (size_t round = 0; round < ROUNDS; round++) {
		size_t size = sizes[round % (sizeof sizes / sizeof *sizes)];
		const void *freed[COUNT];

		for (size_t i = 0; i < 2 * COUNT; i++)
			CHECK((slots[i] = malloc(size)));
		for (size_t i = 0; i < COUNT; i++)
			free((void *)(uintptr_t)(freed[i] = slots[2 * i]));
		for (size_t i = 0; i < COUNT; i++)
			read_freed(copies[i], freed[i], sizeof copies[i]);
		for (size_t i = 0; i < COUNT; i++)
			memcpy(slots[2 * i + 1], copies[i], 16);
		for (size_t i = 0; i < COUNT; i++)
			free(slots[2 * i + 1]);
		for (size_t i = 0; i < COUNT; i++)
			CHECK((slots[i] = malloc(size)));
		for (size_t i = 0; i < COUNT; i++)
			memcpy(slots[i], copies[next_random(&seed) % COUNT], 16);
		for (size_t i = 0; i < COUNT; i++)
			free(slots[i]);
	}
	memset(slots, 0, sizeof slots);
}

/* Memory that held the links of one size is handed out in another. */
static void recycled_memory(void)
{
	static const size_t sizes[] = {16, 48, 1024, 32, 80, 8192, 16, 4096, 112, 12 << 10, 64};
	enum { ROUNDS = 8, COUNT = sizeof sizes / sizeof *sizes };
	static void *blocks[(4 << 20) / 16];

	for (size_t round = 0; round < ROUNDS * COUNT; round++) {
		size_t size = sizes[round % COUNT], count = ((size_t)4 << 20) / size;

		for (size_t i = 0; i < count; i++)
			CHECK((blocks[i] = malloc(size)));
		for (size_t i = 0; i < count; i++)
			free(blocks[round % 2 ? i : count - 1 - i]);
	}
}

static void resized(void)
{
	for (size_t i = 0; i < 400000; i++) {
		void **slot = &slots[next_random(&seed) % SLOTS];
		size_t size = next_size();

		*slot = realloc(*slot, size);
		CHECK(*slot);
		write_near(*slot, 2);
	}
	come_and_go(0, NULL);
}

static void *free_all(void *blocks)
{
	for (void **p = blocks; p < (void **)blocks + SLOTS; p++)
		free(*p);
	return NULL;
}

static void freed_by_thread(disguise write)
{
	for (size_t round = 0; round < 60; round++) {
		pthread_t thread;

		for (size_t i = 0; i < SLOTS; i++) {
			size_t size = next_size();

			CHECK((slots[i] = malloc(size)));
			if (write)
				write(slots[i], 2);
		}
		CHECK(pthread_create(&thread, NULL, free_all, slots) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
}

static void near_addresses_by_thread(void)
{
	freed_by_thread(write_near);
}

static void never_written_by_thread(void)
{
	freed_by_thread(NULL);
}

/* Every length of list a cache can have, freed in both orders. */
static void every_count(void)
{
	for (size_t count = 1; count < 1000; count++) {
		size_t size = next_size();

		for (size_t i = 0; i < count; i++)
			CHECK((slots[i] = malloc(size % 1024)));
		for (size_t i = 0; i < count; i++)
			free(slots[count % 2 ? i : count - 1 - i]);
	}
}

static void large_blocks(void)
{
	for (size_t i = 0; i < 200000; i++) {
		void **slot = &slots[next_random(&seed) % 64];

		free(*slot);
		*slot = malloc((next_random(&seed) % (4 << 20)) >> next_random(&seed) % 8);
		CHECK(*slot);
		if (malloc_usable_size(*slot) >= 16)
			write_near(*slot, 2);
	}
	come_and_go(0, NULL);
}

static void aligned_blocks(void)
{
	for (size_t i = 0; i < 300000; i++) {
		void **slot = &slots[next_random(&seed) % 512];

		free(*slot);
		CHECK(posix_memalign(slot, (size_t)16 << next_random(&seed) % 10, next_size()) == 0);
		write_near(*slot, 2);
	}
	come_and_go(0, NULL);
}

static void open_and_free(char *stack)
{
	CHECK(mprotect(stack, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE) == 0);
	free(stack);
}

/* As coroutines do whose stacks grow down to a page that is shut; some of them stay while others' memory is used anew. */
static void shut_pages(void)
{
	enum { STACKS = 1000, KEPT = 11 };
	static char *stacks[STACKS];
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t length = page; length <= 8 * page; length *= 2) {
		for (size_t i = 0; i < STACKS; i++) {
			CHECK(posix_memalign((void **)&stacks[i], page, length) == 0);
			CHECK(mprotect(stacks[i], page, PROT_NONE) == 0);
		}
		for (size_t i = 0; i < STACKS; i++)
			if (i % KEPT != 0)
				open_and_free(stacks[i]);
		come_and_go(100000, NULL);
		for (size_t i = 0; i < STACKS; i += KEPT)
			open_and_free(stacks[i]);
	}
}

static void null_and_empty(void)
{
	for (size_t i = 0; i < 100000; i++) {
		free(NULL);
		free(malloc(0));
		free(calloc(0, 8));
		CHECK(realloc(malloc(10), 0) == NULL);
	}
}

static int read_data(struct dl_phdr_info *info, size_t size, void *sum)
{
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const volatile char *start = (const char *)info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_W && segment->p_flags & PF_R)
			for (size_t at = 0; at < segment->p_memsz; at += 512)
				*(unsigned *)sum += (unsigned char)start[at];
	}
	return 0;
}

/* As garbage collectors and leak checkers do: the data of every library, while the heap is large. */
static void data_are_read(void)
{
	unsigned sum = 0;

	for (size_t i = 0; i < 100000; i++)
		CHECK(malloc(100));
	dl_iterate_phdr(read_data, &sum);
	CHECK(sum != 0);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"data_of_libraries_are_read", data_are_read},
		{"blocks_never_written_pass", never_written},
		{"blocks_of_random_contents_pass", random_contents},
		{"blocks_holding_near_addresses_pass", near_addresses},
		{"blocks_holding_block_addresses_pass", block_addresses},
		{"blocks_holding_own_address_pass", own_address},
		{"blocks_of_fixed_patterns_pass", fixed_patterns},
		{"copies_of_freed_memory_pass", copies_of_freed_memory},
		{"recycled_memory_passes", recycled_memory},
		{"resized_blocks_pass", resized},
		{"blocks_freed_by_thread_pass", near_addresses_by_thread},
		{"blocks_never_written_freed_by_thread_pass", never_written_by_thread},
		{"blocks_in_every_count_pass", every_count},
		{"large_blocks_pass", large_blocks},
		{"aligned_blocks_pass", aligned_blocks},
		{"blocks_with_shut_pages_pass", shut_pages},
		{"null_and_empty_blocks_pass", null_and_empty},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
