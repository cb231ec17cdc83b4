/* SPDX-License-Identifier: MIT */
/*
 * Forks while another thread gives memory back to the system: what that thread had in its hands is not lost to the
 * child, which gives all back in its turn.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hakmem.h>

enum {
	BLOCKS = 200,
	SIZE = 300000,
	ROUNDS = 60,
	KEEP = 1 << 20,  /* bytes */
	MICROSECONDS = 10,
	FEW = 1,         /* SuperSlabs that stay for good */
};

static void *block[BLOCKS];
static atomic_int trims, trimmed;

static void *trim(void *unused)
{
	for (;;) {
		while (trimmed == trims)
			;
		malloc_trim(KEEP);
		trimmed++;
	}
	return unused;
}

static void free_every_other(int from)
{
	for (int i = from; i < BLOCKS; i += 2)
		free(block[i]);
}

static int superslabs_left(void)
{
	struct hak_stats stats = {0};

	free_every_other(0);
	malloc_trim(0);
	hak_stats_get(&stats, sizeof stats);
	return (int)stats.superslabs;
}

int main(void)
{
	pthread_t thread;
	int failed = 0;

	if (pthread_create(&thread, NULL, trim, NULL) != 0)
		return 1;
	for (int round = 0; round < ROUNDS; round++) {
		int status;
		pid_t child;

		for (int i = 0; i < BLOCKS; i++) {
			block[i] = malloc(SIZE);
			if (block[i] == NULL)
				return 1;
			memset(block[i], 1, SIZE);
		}
		free_every_other(1);
		trims++;
		usleep((unsigned)round % 50 * MICROSECONDS);
		child = fork();
		if (child == 0)
			_exit(superslabs_left());
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 1;
		failed += !WIFEXITED(status) || WEXITSTATUS(status) > FEW;
		while (trimmed != trims)
			;
		if (superslabs_left() > FEW)
			return 1;
	}
	if (failed != 0)
		fprintf(stderr, "%d of %d children keep a SuperSlab too many\n", failed, ROUNDS);
	return failed != 0;
}
