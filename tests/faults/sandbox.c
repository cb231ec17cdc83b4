/* SPDX-License-Identifier: MIT */
/*
 * Programs that let pass nothing but what libc's malloc calls, and die of everything else. They were
 * written for libc's malloc, and must live with ours.
 */
#include "filter.h"

#include "../death/cases.h"
#include "../lifecycle/work.h"
#include "../random.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { SLOTS = 200 };

static struct slot {
	void *ptr;
	size_t size;
} slots[SLOTS];

static uint64_t seed = 0x2545f4914f6cdd1d;

static void fill(struct slot *slot, void *ptr, size_t size)
{
	CHECK(ptr);
	*slot = (struct slot){ptr, size};
	work_mark(ptr, size);
}

static void clear(struct slot *slot)
{
	if (slot->ptr)
		work_give(slot->ptr, slot->size);
	slot->ptr = NULL;
}

static void replace(struct slot *slot, size_t size)
{
	uint64_t choice = next_random(&seed) % 4;

	if (slot->ptr && choice == 0) {
		fill(slot, realloc(slot->ptr, size), size);
		return;
	}
	clear(slot);
	fill(slot, choice == 1 ? calloc(1, size) : malloc(size), size);
}

/* Sizes of every order of magnitude below 2^`log`. */
static void churn(int count, unsigned log)
{
	while (count--)
		replace(&slots[next_random(&seed) % SLOTS],
			1 + next_random(&seed) % ((size_t)16 << next_random(&seed) % (log - 3)));
}

static void clear_all(void)
{
	for (size_t i = 0; i < SLOTS; i++)
		clear(&slots[i]);
}

/* Large blocks, cleared ones, and such that grow; 4 MB at a time. */
static void work_large_blocks(void)
{
	unsigned char *ptr;

	work_give(work_take(3 << 20), 3 << 20);
	ptr = calloc(1, 3 << 20);
	CHECK(ptr);
	for (size_t i = 0; i < 3 << 20; i++)
		CHECK(ptr[i] == 0);
	memset(ptr, 0xa5, 3 << 20);
	free(ptr);
	ptr = work_take(100 << 10);
	for (size_t size = 200 << 10; size <= 3200 << 10; size *= 2) {
		unsigned char first = ptr[0];

		ptr = realloc(ptr, size);
		CHECK(ptr && ptr[0] == first);
		ptr[size - 1] = 1;
	}
	free(ptr);
}

/* Blocks of all sizes come and go; no more than some 6 MB of them at a time. */
static void work_small(void)
{
	for (int round = 0; round < 20; round++) {
		churn(2000, 16);
		work_large_blocks();
		clear_all();
		work_large_blocks();
	}
}

/* Beyond 200 MB, freed and had again: what is kept, and given back, passes all its limits. */
static void work_large(void)
{
	enum { COUNT = 20000 };
	static void *blocks[COUNT];

	for (size_t round = 0; round < 3; round++) {
		for (size_t i = 0; i < COUNT; i++)
			blocks[i] = work_take(1000 + i % 10 * 2000);
		for (size_t i = 0; i < COUNT; i++)
			work_give(blocks[i * 7919 % COUNT], 1000 + i * 7919 % COUNT % 10 * 2000);
		churn(5000, 23);
		clear_all();
		malloc_trim(0);
	}
}

static void confine(const struct filter_calls *calls, bool strict)
{
	if (!filter_install(calls, strict))
		case_skip();
}

static void libc_calls(void)
{
	struct filter_calls calls = {.count = 0};

	filter_add_malloc(&calls);
	filter_add_basic(&calls);
	confine(&calls, false);
	work_small();
}

/* What is done when memory runs out, and what is had then, stays within these calls, too. */
static void libc_calls_exhausted(void)
{
	struct rlimit little = {16 << 20, 16 << 20};
	struct filter_calls calls = {.count = 0};
	void *first = NULL, *ptr;

	CHECK(setrlimit(RLIMIT_DATA, &little) == 0);
	filter_add_malloc(&calls);
	filter_add_basic(&calls);
	confine(&calls, false);
	for (size_t size = 100; size < 1 << 20; size *= 10) {
		while ((ptr = malloc(size))) {
			*(void **)ptr = first;
			first = ptr;
		}
		CHECK(errno == ENOMEM);
		for (; first; first = ptr) {
			ptr = *(void **)first;
			free(first);
		}
	}
	work_small();
}

/* The program had been at work before. */
static void libc_calls_later(void)
{
	work_small();
	libc_calls();
}

/* What libc's malloc does not call in programs that have little, it may in those that have much. */
static void libc_calls_and_madvise(void)
{
	struct filter_calls calls = {.count = 0};

	filter_add_malloc(&calls);
	filter_add(&calls, SYS_madvise);
	filter_add_basic(&calls);
	confine(&calls, false);
	work_small();
	work_large();
}

static void *work_in_thread(void *unused)
{
	void *blocks[400];

	for (int round = 0; round < 50; round++) {
		for (size_t i = 0; i < 400; i++)
			blocks[i] = work_take(16 + i * 50);
		for (size_t i = 0; i < 400; i++)
			work_give(blocks[i], 16 + i * 50);
	}
	return work_parcel(5000);
}

/* What starting and ending threads takes is libc's business, madvise included. */
static void with_threads(void)
{
	static const long for_threads[] = {SYS_clone, SYS_clone3, SYS_set_robust_list, SYS_rseq,
		SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_madvise, SYS_gettid};
	struct filter_calls calls = {.count = 0};

	filter_add_malloc(&calls);
	filter_add_basic(&calls);
	for (size_t i = 0; i < sizeof for_threads / sizeof *for_threads; i++)
		filter_add(&calls, for_threads[i]);
	confine(&calls, false);
	for (int i = 0; i < 20; i++) {
		pthread_t threads[4];
		void *parcel;

		for (size_t t = 0; t < 4; t++)
			CHECK(pthread_create(&threads[t], NULL, work_in_thread, NULL) == 0);
		for (size_t t = 0; t < 4; t++) {
			CHECK(pthread_join(threads[t], &parcel) == 0);
			work_open_parcel(parcel);
		}
	}
	work_small();
}

/* The calls that OpenSSH's server permits the process that talks to a client which has not yet said
   who it is. */
static void openssh(void)
{
	static const long permitted[] = {SYS_brk, SYS_clock_gettime, SYS_close, SYS_exit,
		SYS_exit_group, SYS_futex, SYS_geteuid, SYS_getpgid, SYS_getpid, SYS_getrandom,
		SYS_gettimeofday, SYS_getuid, SYS_madvise, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_munmap,
		SYS_nanosleep, SYS_clock_nanosleep, SYS_ppoll, SYS_pselect6, SYS_read, SYS_rt_sigprocmask,
		SYS_shutdown, SYS_write, SYS_writev};
	struct filter_calls calls = {.count = 0};

	for (size_t i = 0; i < sizeof permitted / sizeof *permitted; i++)
		filter_add(&calls, permitted[i]);
	confine(&calls, true);
	work_small();
	work_large();
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"sandbox_of_libc_calls_small_heap_works", libc_calls},
		{"sandbox_of_libc_calls_memory_runs_out_works", libc_calls_exhausted},
		{"sandbox_of_libc_calls_entered_later_works", libc_calls_later},
		{"sandbox_of_libc_calls_and_madvise_works", libc_calls_and_madvise},
		{"sandbox_with_threads_works", with_threads},
		{"sandbox_of_openssh_works", openssh},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
