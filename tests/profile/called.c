/* SPDX-License-Identifier: MIT */
/*
 * A heap profile begins while a thread frees a block, at one instruction after another: it must not miss that, though
 * from there on it takes nothing but fast paths. Each instruction has a process of its own.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hakmem.h>

#if defined(__x86_64__)

#include <signal.h>
#include <ucontext.h>

enum {
	SIZE = 64,
	MEAN = 1,        /* bytes: every block is sampled */
	BLOCKS = 200,
	KEPT = 8,        /* out of the bin: no refill asks for the profile */
	TRAP = 0x100,    /* in the flags: a SIGTRAP after each instruction */
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
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP;
	go = true;
	while (!done)
		;
}

static void free_stepped(void *p)
{
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	free(p);
	__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

static unsigned long samples(void)
{
	int file = memfd_create("profile", 0);
	char path[64], text[256] = "";
	unsigned long live = 0;

	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	if (file < 0 || hak_profile_write(path) != 0 || pread(file, text, sizeof text - 1, 0) <= 0 ||
	    sscanf(text, "heap profile: %lu:", &live) != 1)
		_exit(BROKEN);
	return live;
}

static int begin_amid(int step, void *stepped)
{
	pthread_t other;

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
	return samples() != 0 ? 0 : MISSED;
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
