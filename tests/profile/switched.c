/* SPDX-License-Identifier: MIT */
/*
 * A heap profile that begins and ends where it is easily missed.
 *
 * usage: switched due|heaps|secure|signal
 *   due      the setting SAMPLE is on, and nothing has been allocated yet
 *   heaps    threads that use nothing but heaps of their own
 *   secure   hardened blocks, which are not sampled
 *   signal   the signal of SAMPLE_SIGNAL, SIGUSR1, began two before
 */
#include "samples.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hakmem.h>

enum { BLOCKS = 100, SIZE = 1000, LARGE = 1 << 20 };

static pthread_barrier_t step;

static bool is(const char *what, long seen, long expected)
{
	if (seen != expected)
		fprintf(stderr, "%s: %ld, not %ld\n", what, seen, expected);
	return seen == expected;
}

static void *fill(hak_heap_t *heap)
{
	for (int i = 0; i < BLOCKS; i++)
		if (hak_heap_malloc(heap, SIZE) == NULL)
			abort();
	return NULL;
}

/* It never calls malloc. */
static void *use_heap_alone(void *heap)
{
	return fill(heap);
}

/* It has called malloc, and calls it no more; the profile goes on and off meanwhile. */
static void *use_heap_and_malloc(void *heap)
{
	void *block = malloc(LARGE);

	pthread_barrier_wait(&step); /* the profile begins */
	pthread_barrier_wait(&step);
	fill(heap);
	pthread_barrier_wait(&step); /* it ends */
	pthread_barrier_wait(&step);
	fill(heap);
	for (int i = 2; i < 20; i++)
		block = realloc(block, (size_t)i * LARGE);
	return block;
}

static bool follow(hak_heap_t *heap)
{
	pthread_t thread;
	void *block;
	bool right;

	if (pthread_barrier_init(&step, NULL, 2) != 0 || pthread_create(&thread, NULL, use_heap_and_malloc, heap) != 0)
		abort();
	pthread_barrier_wait(&step);
	right = is("start", hak_profile_start(1), 0);
	long before = samples();
	pthread_barrier_wait(&step);
	pthread_barrier_wait(&step);
	right &= is("samples of a thread that went on", samples() - before, BLOCKS);
	hak_profile_stop();
	before = samples();
	pthread_barrier_wait(&step);
	pthread_join(thread, &block);
	right &= is("samples after the end", samples() - before, 0);
	free(block);
	return right;
}

static bool sample_heaps(void)
{
	hak_heap_t *heap = hak_heap_new();
	pthread_t thread;

	if (heap == NULL || !follow(heap) || !is("start", hak_profile_start(1), 0))
		return false;
	long before = samples();
	if (pthread_create(&thread, NULL, use_heap_alone, heap) != 0)
		abort();
	pthread_join(thread, NULL);
	/* What pthread_create takes is sampled, too. */
	bool right = samples() - before >= BLOCKS;
	if (!right)
		fprintf(stderr, "a thread of heaps alone: %ld samples\n", samples() - before);
	hak_heap_destroy(heap);
	return right;
}

/* What the program began itself the signal writes, and does not end. */
static bool outlast_signal(void)
{
	free(malloc(SIZE));
	raise(SIGUSR1);
	raise(SIGUSR1);
	raise(SIGUSR1);
	hak_profile_stop();
	if (!is("start", hak_profile_start(1), 0))
		return false;
	raise(SIGUSR1);
	long before = samples();
	for (int i = 0; i < BLOCKS; i++)
		if (malloc(SIZE) == NULL)
			abort();
	return is("samples after the signal", samples() - before, BLOCKS);
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";
	bool right = false;

	alarm(60);
	if (strcmp(what, "due") == 0)
		right = is("start", hak_profile_start(4096), EBUSY);
	else if (strcmp(what, "heaps") == 0)
		right = sample_heaps();
	else if (strcmp(what, "secure") == 0)
		right = is("start", hak_profile_start(4096), ENOTSUP);
	else if (strcmp(what, "signal") == 0)
		right = outlast_signal();
	return !right;
}
