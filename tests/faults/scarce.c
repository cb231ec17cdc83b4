/* SPDX-License-Identifier: MIT */
/*
 * Close to the end of what the system gives: of mappings, of a cgroup's memory, of what may be
 * promised in all. Requests get memory or ENOMEM, and once there is more, full service.
 */
#include "../death/cases.h"
#include "../lifecycle/forks.h"
#include "../lifecycle/work.h"
#include "../random.h"
#include "read_number.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 300 };

static struct slot {
	void *ptr;
	size_t size;
} slots[SLOTS];

static uint64_t seed = 0x9e3779b97f4a7c15;

static void fill(struct slot *slot, void *ptr, size_t size)
{
	CHECK(ptr || errno == ENOMEM);
	*slot = (struct slot){ptr, size};
	if (ptr)
		work_mark(ptr, size);
}

static void step(struct slot *slot)
{
	size_t size = 1 + next_random(&seed) % ((size_t)16 << next_random(&seed) % 19);
	void *ptr;

	errno = 0;
	if (!slot->ptr) {
		fill(slot, next_random(&seed) % 3 ? malloc(size) : calloc(1, size), size);
		return;
	}
	CHECK(work_is_marked(slot->ptr, slot->size));
	if (next_random(&seed) % 3 == 0) {
		ptr = realloc(slot->ptr, size);
		if (ptr)
			fill(slot, ptr, size);
		else
			CHECK(errno == ENOMEM && work_is_marked(slot->ptr, slot->size));
		return;
	}
	free(slot->ptr);
	CHECK(errno == 0);
	slot->ptr = NULL;
}

static void churn(int count)
{
	while (count--)
		step(&slots[next_random(&seed) % SLOTS]);
}

static void finish(void)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (slots[i].ptr) {
			work_give(slots[i].ptr, slots[i].size);
			slots[i].ptr = NULL;
		}
}

/* ---- mappings ---- */

/* In a child that may have `left` mappings more: every other page between was made one. */
static void churn_with_mappings(char *area, size_t page, long left)
{
	pid_t child = fork();

	if (child == 0) {
		for (long i = 0; i < left / 2; i++)
			CHECK(mprotect(area + (size_t)(2 * i) * page, page, PROT_NONE) == 0);
		seed += (uint64_t)left;
		churn(3000);
		finish();
		malloc_trim(0);
		churn(3000);
		CHECK(munmap(area, (size_t)2000 * page) == 0);
		finish();
		work_all_sizes();
		_exit(0);
	}
	fork_expect_success(child);
}

static void mappings_near_end(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 2 * (size_t)read_mapping_limit(), i = 0;
	char *area;

	churn(1000);
	area = mmap(NULL, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(area != MAP_FAILED);
	while (i < pages && mprotect(area + i * page, page, PROT_READ) == 0)
		i += 2;
	CHECK(i < pages);
	for (long left = 0; left < 24; left += 2)
		churn_with_mappings(area, page, left);
	churn(3000);
	CHECK(munmap(area, pages * page) == 0);
	finish();
	work_all_sizes();
}

/* ---- a cgroup's memory ---- */

enum { GROUP_MIB = 96 };
static char group[128];

static void write_text(const char *name, const char *text)
{
	char path[256];
	int fd;

	snprintf(path, sizeof path, "%s/%s", group, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0) {
		rmdir(group);
		case_skip();
	}
	close(fd);
}

/* Of either version of cgroups. */
static void make_group(void)
{
	static const struct {
		const char *root, *limit;
	} versions[] = {{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.max"}};

	for (size_t i = 0; i < 2; i++) {
		char limit[256], text[32];

		snprintf(group, sizeof group, "%s/hakmem-test-%d", versions[i].root, (int)getpid());
		snprintf(limit, sizeof limit, "%s/%s", group, versions[i].limit);
		if (mkdir(group, 0755))
			continue;
		if (access(limit, W_OK) == 0) {
			snprintf(text, sizeof text, "%d", GROUP_MIB << 20);
			write_text(versions[i].limit, text);
			return;
		}
		rmdir(group);
	}
	case_skip();
}

static void fill_and_free(size_t size, size_t total)
{
	void *first = NULL, *next;

	for (size_t have = 0; have < total; have += size) {
		void *ptr = malloc(size);

		CHECK(ptr);
		memset(ptr, 0x5a, size);
		*(void **)ptr = first;
		first = ptr;
	}
	for (; first; first = next) {
		next = *(void **)first;
		free(first);
	}
}

/* Most of the group's memory by blocks of one size, then by those of another: whoever keeps too
   much of what was freed is killed. */
static void live_in_group(void)
{
	static const size_t sizes[] = {32, 48, 500, 3000, 9000, 30000, 100 << 10, 700 << 10, 5 << 20};

	write_text("cgroup.procs", "0");
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
			fill_and_free(sizes[i], (size_t)GROUP_MIB * 5 / 8 << 20);
	_exit(0);
}

static void cgroup_limited(void)
{
	pid_t child;
	int status;

	make_group();
	child = fork();
	if (child == 0)
		live_in_group();
	CHECK(waitpid(child, &status, 0) == child);
	rmdir(group);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		case_skip();
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- what may be promised ---- */

enum { PROMISE_SECONDS = 100 };

static bool set_overcommit(int fd, long value)
{
	char digit = (char)('0' + value);

	return pwrite(fd, &digit, 1, 0) == 1; /* beyond the beginning it would be ignored */
}

static void live_on_promises(int fd, long before)
{
	struct work_set set;
	void *first = NULL, *next;
	size_t blocks = 0;

	alarm(PROMISE_SECONDS);
	if (!set_overcommit(fd, 2))
		case_skip();
	work_keep(&set);
	churn(3000);
	while ((next = malloc(256 << 20))) {
		*(void **)next = first;
		first = next;
		blocks++;
	}
	churn(3000);
	for (; first; first = next) {
		next = *(void **)first;
		free(first);
	}
	work_release(&set);
	finish();
	CHECK(set_overcommit(fd, before));
	work_all_sizes();
	CHECK(blocks < 1 << 16);
	_exit(0);
}

/* It is the whole machine's setting: only where that was asked for (FAULTS_OVERCOMMIT=1). Put back whatever becomes
   of the child. */
static void promises_kept(void)
{
	static const char path[] = "/proc/sys/vm/overcommit_memory";
	long before = read_number(path);
	int fd, status = -1;
	pid_t child;

	if (!getenv("FAULTS_OVERCOMMIT"))
		case_skip();
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		case_skip();
	child = fork();
	if (child == 0)
		live_on_promises(fd, before);
	CHECK(child > 0);
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		case_skip(); /* it was not changed */
	CHECK(set_overcommit(fd, before));
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"mappings_near_end_give_enomem_then_serve", mappings_near_end},
		{"cgroup_limited_is_not_exceeded", cgroup_limited},
		{"promises_limited_give_enomem_then_serve", promises_kept},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
