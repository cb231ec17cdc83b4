/* SPDX-License-Identifier: MIT */
/*
 * A signal handler interrupts the free of another thread's block, at each of its instructions in turn,
 * and forks; the child frees other such blocks, then returns into the call. Timers hardly ever meet the
 * instructions that matter. Each instruction has a process of its own, in which one thread runs.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hakmem.h>

#if defined(__x86_64__)

#include <signal.h>
#include <ucontext.h>

enum {
	SIZE = 64,
	BLOCKS = 16 * 1024,
	SLABS = 17,
	OF_FIRST = 33, /* so many fill a batch */
	OF_OTHERS = 3,
	TRAP = 0x100,  /* in the flags: a SIGTRAP after each instruction */
	PAST_THE_END = 50,
	MOST = 1000,   /* instructions */
};

static void *block[BLOCKS];
static void *to_free[SLABS * OF_FIRST]; /* by the child in the handler */
static int to_free_count;
static volatile sig_atomic_t steps, fork_at, is_child, is_over;

static void *make_blocks(void *unused)
{
	for (int i = 0; i < BLOCKS; i++)
		block[i] = malloc(SIZE);
	return unused;
}

/* The next block that lies beside `like`, or anywhere if that is NULL; it is no longer in the table. */
static void *take(const void *like)
{
	for (int i = 0; i < BLOCKS; i++) {
		void *p = block[i];

		if (p != NULL && (like == NULL || (uintptr_t)p >> 16 == (uintptr_t)like >> 16)) {
			block[i] = NULL;
			return p;
		}
	}
	return NULL;
}

static void fork_here(void)
{
	pid_t child = fork();
	int status;

	if (child != 0)
		_exit(waitpid(child, &status, 0) == child && status == 0 ? 0 : 1);
	is_child = true;
	for (int i = 0; i < to_free_count; i++)
		free(to_free[i]);
}

static void at_instruction(int signal, siginfo_t *info, void *context)
{
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	*flags &= ~TRAP;
	if (is_over)
		return;
	if (++steps == fork_at)
		fork_here();
	else
		*flags |= TRAP;
}

static bool use_much(void)
{
	static char *p[BLOCKS];
	bool good = true;

	for (int i = 0; i < BLOCKS; i++) {
		p[i] = malloc(SIZE);
		memset(p[i], i % 251, SIZE);
	}
	for (int i = 0; i < BLOCKS; i++) {
		good = good && p[i][0] == (char)(i % 251) && p[i][SIZE - 1] == (char)(i % 251);
		free(p[i]);
	}
	return good;
}

static void run(int at)
{
	struct sigaction action = {.sa_sigaction = at_instruction, .sa_flags = SA_SIGINFO};
	void *first = take(block[BLOCKS / 2]), *second = take(first);
	bool good;

	for (int s = 0; s < SLABS; s++) {
		void *like = s == 0 ? first : take(NULL);

		for (int i = 0; i < (s == 0 ? OF_FIRST - 2 : OF_OTHERS); i++)
			if ((to_free[to_free_count] = take(like)) != NULL)
				to_free_count++;
		for (int i = 0; s > 0 && i < BLOCKS; i++) /* the next is to be of another slab */
			if ((uintptr_t)block[i] >> 16 == (uintptr_t)like >> 16)
				block[i] = NULL;
	}
	fork_at = at;
	sigaction(SIGTRAP, &action, NULL);
	free(first); /* a batch of its slab is there now */
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	free(second);
	is_over = true;
	__asm__ volatile("nop" ::: "memory"); /* the trap that is still to come */
	if (!is_child)
		_exit(PAST_THE_END);
	good = hak_check() == 0;
	for (int i = 0; i < BLOCKS; i++)
		free(block[i]);
	good = use_much() && use_much() && good;
	_exit(good && hak_check() == 0 ? 0 : 1);
}

int main(void)
{
	pthread_t maker;
	int at, status = 0, failed = 0;

	if (pthread_create(&maker, NULL, make_blocks, NULL) != 0 || pthread_join(maker, NULL) != 0)
		return 1;
	free(malloc(SIZE)); /* the heap is there when the first of them is freed */
	for (at = 1; at < MOST; at++) {
		pid_t child = fork();

		if (child == 0)
			run(at);
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 1;
		if (WIFEXITED(status) && WEXITSTATUS(status) == PAST_THE_END)
			break;
		if (status != 0) {
			failed++;
			fprintf(stderr, "instruction %d: wait status %#x\n", at, status);
		}
	}
	printf("%d instructions, %d failed\n", at - 1, failed);
	return failed != 0 || at < 40 || at == MOST;
}

#else

int main(void)
{
	return 77; /* skipped: how to step is known here for x86-64 alone */
}

#endif
