/* SPDX-License-Identifier: MIT */
/*
 * Allocates in ways whose bytes are known, keeps some, and prints what a heap profile should say:
 * "live BYTES", "total BYTES", "leak BYTES" (the part of `live` that leak_here allocated).
 * Usage: leaky [cleared | api FILE | signal NUMBER]
 *
 *   cleared takes its environment away, before it allocates
 *   api     profiles itself into FILE, with what is allocated before and after left out
 *   signal  raises the signal before and after
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem.h"

#pragma weak hak_profile_start
#pragma weak hak_profile_stop
#pragma weak hak_profile_write

enum { KEPT = 40000, RING = 500, THREADS = 3 };

static size_t live, total;
static void *volatile sink;

static size_t next_size(uint64_t *state, size_t most)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return 1 + (*state >> 33) % most;
}

__attribute__((always_inline)) static inline void *get(size_t size)
{
	void *p = malloc(size);

	if (p == NULL)
		abort();
	memset(p, 1, size < 64 ? size : 64);
	__atomic_fetch_add(&total, size, __ATOMIC_RELAXED);
	return p;
}

static void keep(void *p, size_t size)
{
	sink = p;
	__atomic_fetch_add(&live, size, __ATOMIC_RELAXED);
}

__attribute__((noinline)) static size_t leak_here(void)
{
	uint64_t state = 1;
	size_t bytes = 0;

	for (int i = 0; i < KEPT; i++) {
		size_t size = next_size(&state, 2000);
		keep(get(size), size);
		bytes += size;
	}
	return bytes;
}

/* The same block again and again: what no length of a list tells. */
__attribute__((noinline)) static void churn_one(void)
{
	for (int i = 0; i < 300000; i++)
		free(get(100));
}

__attribute__((noinline)) static void churn_many(void)
{
	void *ring[RING] = {NULL};
	uint64_t state = 2;

	for (int i = 0; i < 200000; i++) {
		size_t at = next_size(&state, RING) - 1;
		free(ring[at]);
		ring[at] = get(next_size(&state, 1000));
	}
	for (int i = 0; i < RING; i++)
		free(ring[i]);
}

/* Bursts that overfill any cache; freed by halves, from both ends. */
__attribute__((noinline)) static void churn_bursts(void)
{
	enum { BURST = 4000 };
	static void *burst[BURST];

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < BURST; i++)
			burst[i] = get(300);
		for (int i = 0; i < BURST / 2; i++) {
			free(burst[BURST - 1 - i]);
			free(burst[i]);
		}
	}
}

__attribute__((noinline)) static void keep_large(void)
{
	for (int i = 0; i < 40; i++) {
		size_t size = 40000 + 9000 * (size_t)i;
		char *p = realloc(get(size), 3 * size);
		total += 3 * size;
		keep(p, 3 * size);
		free(get(2000000));
	}
}

static void *work(void *handed)
{
	uint64_t state = 3;

	churn_many();
	free(handed);
	for (int i = 0; i < 5000; i++) {
		size_t size = next_size(&state, 600);
		keep(get(size), size);
	}
	return get(5000);
}

/* Blocks change hands, and their threads end. */
__attribute__((noinline)) static void churn_in_threads(void)
{
	pthread_t thread[THREADS];
	void *result;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, work, get(7000));
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &result);
		free(result);
	}
}

int main(int argc, char **argv)
{
	const char *how = argc == 3 ? argv[1] : "";
	size_t leaked, before;

	if (argc == 2 && strcmp(argv[1], "cleared") == 0 && clearenv() != 0)
		return 1;
	if (strcmp(how, "api") == 0) {
		churn_one();
		before = leak_here();
		live = total = 0;
		if (before == 0 || hak_profile_start(8192) != 0 || hak_profile_start(8192) == 0)
			return 1;
	}
	if (strcmp(how, "signal") == 0)
		raise(atoi(argv[2]));
	leaked = leak_here();
	churn_one();
	churn_many();
	churn_bursts();
	keep_large();
	churn_in_threads();
	printf("live %zu\ntotal %zu\nleak %zu\n", live, total, leaked);
	if (strcmp(how, "signal") == 0)
		raise(atoi(argv[2]));
	if (strcmp(how, "api") == 0) {
		hak_profile_stop();
		churn_one();
		leak_here();
		return hak_profile_write(argv[2]);
	}
	return 0;
}
