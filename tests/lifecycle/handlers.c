/* SPDX-License-Identifier: MIT */
/*
 * A signal handler frees blocks while the thread brings home what it has cached. No standard promises that; but a
 * block may be lost to it at worst, and nobody be accused of misuse.
 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum {
	SIZE = 48,
	TO_FREE = 400000, /* by the handler */
	BATCH = 4096,
	SECONDS = 4,
	MICROSECONDS = 23, /* between two signals */
};

static void *to_free[TO_FREE];
static volatile sig_atomic_t freed;

static void free_one(int signal)
{
	if (freed < TO_FREE)
		free(to_free[freed++]);
}

static void use_some(void)
{
	static void *blocks[BATCH];
	sigset_t all, before;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	for (int i = 0; i < BATCH; i++)
		blocks[i] = malloc(SIZE);
	for (int i = 0; i < BATCH; i++) {
		memset(blocks[i], 1, SIZE);
		free(blocks[i]);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
}

int main(void)
{
	struct itimerval often = {{0, MICROSECONDS}, {0, MICROSECONDS}}, never = {{0, 0}, {0, 0}};
	time_t end = time(NULL) + SECONDS;

	for (int i = 0; i < TO_FREE; i++)
		to_free[i] = malloc(SIZE);
	signal(SIGALRM, free_one);
	setitimer(ITIMER_REAL, &often, NULL);
	while (time(NULL) < end && freed < TO_FREE) {
		use_some();
		malloc_trim((size_t)1 << 30); /* the caches alone */
	}
	setitimer(ITIMER_REAL, &never, NULL);
	if (freed == 0)
		puts("no signal came");
	return freed == 0;
}
