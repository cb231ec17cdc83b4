/* SPDX-License-Identifier: MIT */
/*
 * A signal handler frees sampled blocks, one at each instruction of calls that are sampled themselves. No standard
 * promises that; but it must not wait for the very thread that it interrupts, and no more than what it frees at the
 * worst moments may be lost.
 */
#include "samples.h"
#include "../lifecycle/step.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hakmem.h>

#if defined(__x86_64__)

#include <signal.h>

enum {
	SIZE = 64,
	LARGE = 800000,
	MEAN = 1,         /* bytes: every block is sampled */
	BLOCKS = 100000,
	SECONDS = 100,    /* it would hang */
	LOST_MOST = 2000, /* there are no more instructions under the profiler's locks */
};

static void *block[BLOCKS];
static volatile sig_atomic_t steps;

static void free_one(int signal)
{
	if (steps < BLOCKS)
		free(block[steps]);
	steps++;
}

static void give_up(int signal)
{
	static const char text[] = "handler: the handler waits for ever\n";

	_exit(write(2, text, strlen(text)) < 0 ? 3 : 2);
}

static void *step_malloc_and_free(void *unused)
{
	void *volatile p;

	step_begin();
	p = malloc(SIZE);
	free(p);
	step_end();
	return unused;
}

/* Where it is, and then to another place. */
static void *step_realloc(void *unused)
{
	void *p = malloc(LARGE), *beside = malloc(LARGE);

	step_begin();
	p = realloc(p, LARGE / 4 * 3);
	p = realloc(p, LARGE * 20);
	step_end();
	free(beside);
	free(p);
	return unused;
}

static void *step_free(void *p)
{
	step_begin();
	free(p);
	step_end();
	return NULL;
}

/* It never asked for memory. */
static void *step_free_in_thread(void *unused)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, step_free, malloc(SIZE)) != 0 || pthread_join(thread, NULL) != 0)
		_exit(3);
	return unused;
}

/* `fewest`: instructions, or it was not sampled. */
static bool passes(const char *name, void *(*step)(void *), int fewest)
{
	long before, lost;
	bool good;

	for (int i = 0; i < BLOCKS; i++)
		block[i] = malloc(SIZE);
	before = samples();
	steps = 0;
	step(NULL);
	lost = samples() - (before - steps);
	printf("%s: %d instructions, %ld blocks lost\n", name, (int)steps, lost);
	good = before >= BLOCKS && steps >= fewest && steps <= BLOCKS && lost >= 0 && lost <= LOST_MOST;
	for (int i = steps; i < BLOCKS; i++)
		free(block[i]);
	return good && hak_check() == 0;
}

int main(void)
{
	bool good;

	signal(SIGTRAP, free_one);
	signal(SIGALRM, give_up);
	alarm(SECONDS);
	if (hak_profile_start(MEAN) != 0)
		return 1;
	good = passes("malloc and free", step_malloc_and_free, 1000);
	good = passes("realloc", step_realloc, 1000) && good;
	return !(passes("free without a heap", step_free_in_thread, 100) && good);
}

#else

int main(void)
{
	return 77; /* skipped: how to step is known here for x86-64 alone */
}

#endif
