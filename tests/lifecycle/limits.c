/* SPDX-License-Identifier: MIT */
/*
 * Memory that runs out, by RLIMIT_AS, RLIMIT_DATA and the number of mappings: every call gives
 * memory or ENOMEM, and once memory is back, full service.
 */
#include "work.h"
#include "../death/cases.h"
#include "../faults/read_number.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Blocks are kept in a list through their first words, so that keeping them takes no memory. */
struct block {
	struct block *next;
	size_t size;
};

static const size_t sizes[] = {16, 48, 200, 1000, 5000, 12 << 10, 40 << 10, 100 << 10, 600 << 10,
	3 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static struct block *push(struct block *list, void *ptr, size_t size)
{
	struct block *block = ptr;

	*block = (struct block){list, size};
	if (size > sizeof *block)
		work_mark(block + 1, size - sizeof *block);
	return block;
}

static void free_list(struct block *block)
{
	while (block) {
		struct block *next = block->next;

		if (block->size > sizeof *block)
			CHECK(work_is_marked(block + 1, block->size - sizeof *block));
		free(block);
		block = next;
	}
}

/* Allocates blocks of `size` until there is no more; returns the bytes they had in all. */
static size_t exhaust(struct block **list, size_t size)
{
	size_t total = 0;
	void *ptr;

	errno = 0;
	while ((ptr = malloc(size))) {
		*list = push(*list, ptr, size);
		total += size;
	}
	CHECK(errno == ENOMEM);
	errno = 0;
	ptr = calloc(1, size + (4 << 20));
	CHECK(ptr || errno == ENOMEM);
	free(ptr);
	return total;
}

/* A block stays what it was when realloc fails. */
static void fail_to_grow(void)
{
	void *ptr = malloc(64), *grown;

	if (!ptr)
		return;
	work_mark(ptr, 64);
	errno = 0;
	grown = realloc(ptr, 512 << 20);
	CHECK(!grown && errno == ENOMEM);
	work_give(ptr, 64);
}

/* Each size in turn gets what the one before gave back, and the second time as much as the first:
   nothing stays with a size that once had it. */
static void exhaust_each(size_t at_least)
{
	size_t totals[SIZES];

	for (size_t i = 0; i < 2 * SIZES; i++) {
		size_t which = i < SIZES ? i : 2 * SIZES - 1 - i;
		struct block *list = NULL;
		size_t total = exhaust(&list, sizes[which]);

		fail_to_grow();
		free_list(list);
		CHECK(total >= at_least);
		if (i < SIZES)
			totals[which] = total;
		CHECK(total >= totals[which] - totals[which] / 8);
	}
}

/* Some of each size stay allocated while others are exhausted. */
static void exhaust_mixed(size_t at_least)
{
	struct block *lists[SIZES] = {NULL};
	size_t total = 0;

	for (size_t i = SIZES; i-- > 0;)
		total += exhaust(&lists[i], sizes[i]);
	CHECK(total >= at_least);
	for (size_t i = 0; i < SIZES; i++)
		free_list(lists[i]);
	exhaust_each(at_least);
}

/* An ordinary user may have been given less, for good. */
static void limit(int resource, size_t bytes)
{
	int result = setrlimit(resource, &(struct rlimit){bytes, bytes});

	if (result != 0 && errno == EPERM)
		case_skip();
	CHECK(result == 0);
}

static void full_service(void)
{
	for (size_t i = 0; i < work_size_count; i++)
		work_give(work_take(work_sizes[i]), work_sizes[i]);
}

static void address_space(void)
{
	limit(RLIMIT_AS, (size_t)64 << 20);
	exhaust_each((size_t)28 << 20);
	exhaust_mixed((size_t)28 << 20);
	full_service();
}

static void data_segment(void)
{
	limit(RLIMIT_DATA, (size_t)20 << 20);
	exhaust_each((size_t)8 << 20);
	exhaust_mixed((size_t)8 << 20);
	full_service();
}

/* The limit holds from the very start of the program. */
static void restart_limited(int resource, size_t bytes, const char *name)
{
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);

	CHECK(length > 0);
	path[length] = '\0';
	limit(resource, bytes);
	execl(path, path, name, (char *)NULL);
	CHECK(!"exec");
}

static void address_space_from_start(void)
{
	restart_limited(RLIMIT_AS, (size_t)64 << 20, "address_space_limited_gives_enomem_then_serves");
}

static void data_segment_from_start(void)
{
	restart_limited(RLIMIT_DATA, (size_t)20 << 20, "data_limited_gives_enomem_then_serves");
}

/* Hardly anything is left beside the program itself. */
static void starve(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		struct block *list = NULL;

		exhaust(&list, sizes[i]);
		free_list(list);
	}
}

static size_t virtual_bytes(void)
{
	char text[32] = "";
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
	close(fd);
	return (size_t)strtol(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* As much address space as this user may have. Skips the case if that is not enough for full service. */
static struct rlimit widest(void)
{
	struct rlimit wide;

	CHECK(getrlimit(RLIMIT_AS, &wide) == 0);
	if (wide.rlim_max < virtual_bytes() + ((size_t)64 << 20))
		case_skip();
	wide.rlim_cur = wide.rlim_max;
	return wide;
}

static void hardly_any(void)
{
	struct rlimit wide = widest(), tight = wide;

	tight.rlim_cur = virtual_bytes() + (256 << 10);
	CHECK(setrlimit(RLIMIT_AS, &tight) == 0);
	starve();
	CHECK(setrlimit(RLIMIT_AS, &wide) == 0);
	work_all_sizes();
}

/* The first call of all fails already. */
static void none_at_first(void)
{
	struct rlimit wide = widest(), tight = wide;

	tight.rlim_cur = 0;
	CHECK(setrlimit(RLIMIT_AS, &tight) == 0);
	starve();
	CHECK(setrlimit(RLIMIT_AS, &wide) == 0);
	work_all_sizes();
}

static void *exhaust_in_thread(void *unused)
{
	for (size_t round = 0; round < 3; round++)
		for (size_t i = 0; i < SIZES; i++) {
			struct block *list = NULL;
			void *ptr;

			for (int n = 0; n < 20000 && (ptr = malloc(sizes[i])); n++)
				list = push(list, ptr, sizes[i]);
			free_list(list);
		}
	return NULL;
}

static void in_threads(void)
{
	pthread_attr_t small_stack;
	pthread_t threads[3];

	pthread_attr_init(&small_stack);
	pthread_attr_setstacksize(&small_stack, 256 << 10);
	limit(RLIMIT_AS, (size_t)80 << 20);
	for (size_t i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], &small_stack, exhaust_in_thread, NULL) == 0);
	for (size_t i = 0; i < 3; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	exhaust_each((size_t)20 << 20);
}

/* Splits one mapping until the process may have no more of them; returns it. */
static char *use_up_mappings(size_t *bytesp)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t pages = 2 * (size_t)read_mapping_limit(), i = 0;
	char *area;

	*bytesp = pages * page;
	area = mmap(NULL, *bytesp, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(area != MAP_FAILED);
	while (i < pages && mprotect(area + i * page, page, PROT_READ) == 0)
		i += 2;
	CHECK(i < pages);
	/* A split makes two, so one may be left. */
	while (mmap(NULL, page, i++ % 2 ? PROT_READ : PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) !=
		MAP_FAILED) {
	}
	return area;
}

/* Takes some of every size, frees them crosswise. */
static void try_all_sizes(void)
{
	static struct block *lists[2];
	size_t count = 0;

	for (size_t i = 0; i < SIZES; i++)
		for (size_t n = 0; n < (sizes[i] > 32 << 10 ? 20 : 3000); n++, count++) {
			void *ptr;

			errno = 0;
			ptr = malloc(sizes[i]);
			CHECK(ptr || errno == ENOMEM);
			if (ptr)
				lists[count % 2] = push(lists[count % 2], ptr, sizes[i]);
		}
	for (size_t i = 0; i < 2; i++) {
		free_list(lists[i]);
		lists[i] = NULL;
	}
}

static void mappings(void)
{
	struct work_set before;
	size_t bytes;
	char *area;

	work_keep(&before);
	area = use_up_mappings(&bytes);
	for (int round = 0; round < 3; round++)
		try_all_sizes();
	work_release(&before);
	for (int round = 0; round < 3; round++)
		try_all_sizes();
	CHECK(munmap(area, bytes) == 0);
	work_all_sizes();
	try_all_sizes();
}

/* The library begins when there is nothing left. */
static void mappings_at_first(void)
{
	size_t bytes;
	char *area = use_up_mappings(&bytes);

	try_all_sizes();
	CHECK(munmap(area, bytes) == 0);
	work_all_sizes();
}

/* Purging and freeing in the midst of large memory must not split it into ever more mappings. */
static size_t count_mappings(void)
{
	static char text[65536];
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t count = 0;
	ssize_t got;

	CHECK(fd >= 0);
	while ((got = read(fd, text, sizeof text)) > 0)
		for (ssize_t i = 0; i < got; i++)
			count += text[i] == '\n';
	close(fd);
	return count;
}

static void few_mappings(void)
{
	enum { COUNT = 40000 };
	static void *blocks[COUNT];

	if (getenv("TEST_SEPARATE_SLABS"))
		case_skip(); /* a build that maps each slab alone, to compare with */
	for (size_t i = 0; i < COUNT; i++)
		CHECK((blocks[i] = malloc(4096 + i % 8 * 8192)));
	for (size_t i = 0; i < COUNT; i++)
		*(volatile char *)blocks[i] = 1;
	for (size_t i = 0; i < COUNT; i += 2)
		free(blocks[i]);
	CHECK(count_mappings() < 5000);
	for (size_t i = 1; i < COUNT; i += 2)
		free(blocks[i]);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"address_space_limited_gives_enomem_then_serves", address_space},
		{"data_limited_gives_enomem_then_serves", data_segment},
		{"address_space_limited_from_start_serves", address_space_from_start},
		{"data_limited_from_start_serves", data_segment_from_start},
		{"address_space_nearly_none_gives_enomem_then_serves", hardly_any},
		{"address_space_none_at_first_gives_enomem_then_serves", none_at_first},
		{"address_space_limited_in_threads_serves", in_threads},
		{"mappings_used_up_give_enomem_then_serve", mappings},
		{"mappings_used_up_at_first_give_enomem_then_serve", mappings_at_first},
		{"mappings_stay_few_under_fragmentation", few_mappings},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
