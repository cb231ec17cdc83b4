/* SPDX-License-Identifier: MIT */
/*
 * Does what a setting changes the outcome of, and prints "VALUE\n" and what malloc_info says.
 * Usage: probe ACTION [ARGUMENT]
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 65536, GRANULE = 1 << 16, MIB = 1 << 20 };

static char *blocks[MOST];

/* Takes until there is no more; every page of a block is touched. */
static size_t take(size_t count, size_t size)
{
	size_t n = 0;

	while (n < count && n < MOST && (blocks[n] = malloc(size)) != NULL) {
		for (size_t at = 0; at < size; at += 4096)
			blocks[n][at] = 1;
		n++;
	}
	return n;
}

static void give_back(size_t count)
{
	while (count > 0)
		free(blocks[--count]);
}

static long resident_kib(void)
{
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
		pages = -1;
	if (file != NULL)
		fclose(file);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static long owns_block_of(long size)
{
	int (*owns)(const void *);

	*(void **)&owns = dlsym(RTLD_DEFAULT, "hak_owns");
	return owns != NULL ? owns(malloc((size_t)size)) : -1;
}

static long use_small(long kib)
{
	return (long)take((size_t)kib, 1000);
}

static long free_many(long count)
{
	give_back(take((size_t)count, 64));
	return count;
}

static long free_mibs(long count)
{
	give_back(take((size_t)count, MIB));
	return count;
}

/* Kilobytes resident that were not before, after some were used and freed. */
static long free_burst(long mib)
{
	long before = resident_kib();

	give_back(take((size_t)mib * 256, 4000));
	return resident_kib() - before;
}

/* The same after that and 600 ms more of allocating. */
static long free_burst_and_go_on(long mib)
{
	long before = resident_kib();

	give_back(take((size_t)mib * 256, 4000));
	for (int i = 0; i < 60; i++) {
		usleep(10000);
		give_back(take(8, 100 << 10));
	}
	return resident_kib() - before;
}

/* Mappings that have asked for huge pages, with some megabytes in use. */
static long count_huge(long mib)
{
	char line[512];
	long n = 0;
	FILE *file;

	take((size_t)mib * 256, 4000);
	file = fopen("/proc/self/smaps", "r");
	if (file == NULL)
		return -1;
	while (fgets(line, sizeof line, file) != NULL)
		n += strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg") != NULL;
	fclose(file);
	return n;
}

static void *leave_blocks(void *count)
{
	take((size_t)(intptr_t)count, 512);
	for (size_t i = 0; i < (size_t)(intptr_t)count; i += 2)
		free(blocks[i]);
	return NULL;
}

/* Of as many blocks as a thread left free, those that lie among the ones it left in use. */
static long reuse_of_thread(long count)
{
	static uintptr_t granules[MOST];
	long reused = 0;
	pthread_t thread;

	if (pthread_create(&thread, NULL, leave_blocks, (void *)(intptr_t)count) != 0)
		return -1;
	pthread_join(thread, NULL);
	for (long i = 0; i < count; i++)
		granules[i] = (uintptr_t)blocks[i] / GRANULE;
	for (long i = 0; i < count / 2; i++) {
		uintptr_t granule = (uintptr_t)malloc(512) / GRANULE;
		for (long j = 0; j < count; j++)
			if (granules[j] == granule) {
				reused++;
				break;
			}
	}
	return reused;
}

/* Mebibytes to be had in blocks of that size; and again, when they are freed. -1: not the same. */
static long exhaust(long size)
{
	size_t n = take(MOST, (size_t)size), again;

	give_back(n);
	again = take(MOST, (size_t)size);
	give_back(again);
	return again < n - n / 8 ? -1 : (long)(n * (size_t)size / MIB);
}

/* Mebibytes that one block can grow to. */
static long grow(long step)
{
	size_t size = (size_t)step;
	char *p = NULL, *bigger;

	while ((bigger = realloc(p, size)) != NULL) {
		memset(bigger + size - (size_t)step, 1, (size_t)step);
		p = bigger;
		size += (size_t)step;
		free(malloc(64));
	}
	free(p);
	return (long)((size - (size_t)step) / MIB);
}

/* Of so many small blocks, those of which no more can be used than was asked for. */
static long count_exact(long count)
{
	enum { ASKED = 50 };
	long exact = 0;

	for (long i = 0; i < count; i++) {
		void *p = malloc(ASKED);

		exact += malloc_usable_size(p) == ASKED;
		if (i % 2 != 0)
			free(p);
	}
	return exact;
}

/* A misuse; what follows it is the settings' business. */
static long free_twice(long size)
{
	void *p = malloc((size_t)size);

	free(p);
	__asm__ volatile("" : "+r"(p));
	free(p);
	return size;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		long (*run)(long argument);
	} actions[] = {
		{"owns", owns_block_of}, {"use_small", use_small}, {"free_many", free_many}, {"free_mibs", free_mibs},
		{"free_burst", free_burst}, {"go_on", free_burst_and_go_on}, {"huge", count_huge},
		{"reuse", reuse_of_thread}, {"exhaust", exhaust}, {"grow", grow},
		{"exact", count_exact}, {"free_twice", free_twice},
	};

	for (size_t i = 0; argc == 3 && i < sizeof actions / sizeof *actions; i++)
		if (strcmp(argv[1], actions[i].name) == 0) {
			printf("%ld\n", actions[i].run(atol(argv[2])));
			return malloc_info(0, stdout);
		}
	fprintf(stderr, "usage: probe ACTION ARGUMENT\n");
	return 2;
}
