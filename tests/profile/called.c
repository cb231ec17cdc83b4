/* SPDX-License-Identifier: MIT */
/*
 * A heap profile begins while a thread frees a block, at one instruction after another: it must not miss that, though
 * from there on it takes nothing but fast paths. Each instruction has a process of its own.
 */
#include "samples.h"
#include "../lifecycle/step.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hakmem.h>

#if defined(__x86_64__)

#include <signal.h>

enum {
	SIZE = 64,
	MEAN = 1,        /* bytes: every block is sampled */
	BLOCKS = 200,
	KEPT = 8,        /* out of the bin: no refill asks for the profile */
	MISSED = 1, OVER = 2, BROKEN = 3, /* exit statuses */
	STEPS_MOST = 2000,
};

static atomic_bool go, done;
static volatile sig_atomic_t steps, begin_at;
static void *volatile block[BLOCKS];

static void *begin_profile(void *unused)
{
	while (!go)
		;
	if (hak_profile_start(MEAN) != 0)
		_exit(BROKEN);
	done = true;
	return unused;
}

static void at_instruction(int signal, siginfo_t *info, void *context)
{
	if (steps++ != begin_at)
		return;
	step_no_more(context);
	go = true;
	while (!done)
		;
}

static void free_stepped(void *p)
{
	step_begin();
	free(p);
	step_end();
}

static int begin_amid(int step, void *stepped)
{
	pthread_t other;
	long live;

	sigaction(SIGTRAP, &(struct sigaction){.sa_sigaction = at_instruction, .sa_flags = SA_SIGINFO}, NULL);
	if (pthread_create(&other, NULL, begin_profile, NULL) != 0)
		return BROKEN;
	for (int i = 0; i < BLOCKS; i++)
		block[i] = malloc(SIZE);
	for (int i = 1; i < BLOCKS; i++)
		free(block[i]);
	begin_at = step;
	free_stepped(stepped);
	if (!go)
		return OVER;
	block[1] = malloc(SIZE);
	free(block[1]); /* what it is called by */
	for (int i = 1; i <= KEPT; i++)
		block[i] = malloc(SIZE);
	live = samples();
	return live > 0 ? 0 : live == 0 ? MISSED : BROKEN;
}

int main(void)
{
	void *stepped = malloc(1000); /* not one of a bin's: its free takes the slow path */
	int missed = 0, status = 0, step;

	for (step = 0; step < STEPS_MOST; step++) {
		pid_t child = fork();

		if (child == 0)
			_exit(begin_amid(step, stepped));
		if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
			return BROKEN;
		if (WEXITSTATUS(status) == OVER)
			break;
		if (WEXITSTATUS(status) != 0)
			fprintf(stderr, "at instruction %d: %s\n", step,
				WEXITSTATUS(status) == MISSED ? "no samples" : "no profile");
		missed += status != 0;
	}
	return step < 20 || step == STEPS_MOST || missed != 0;
}

#else

int main(void)
{
	return 77;
}

#endif
