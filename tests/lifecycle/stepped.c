/* SPDX-License-Identifier: MIT */
/*
 * A signal handler interrupts a slow path, at one of its instructions after another, and forks; the child returns
 * into the call, which must end and leave a heap that is whole, or goes on in the handler, with memory of its own.
 * Or the handler frees a block and returns. Timers hardly ever meet the instructions that matter. Each instruction has
 * a process of its own, in which one thread runs.
 *
 * In a child that returns the handler does nothing else, as POSIX has it, but in the last scenario: there it frees
 * blocks that a thread which has ended left.
 */
#include "step.h"

#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hakmem.h>

#if defined(__x86_64__)

#include <signal.h>

enum {
	SIZE = 64,
	OTHER_SIZE = 3000,
	LARGE = 100000,
	FEW_LARGE = 50,
	PROVE_SECONDS = 30,
	OWN = 600,
	OTHERS = 16 * 1024,
	SLABS = 17,
	OF_FIRST = 33, /* so many fill a batch */
	OF_REST = 3,
	COUNTED = 50,  /* exit status */
	NEVER = -1,
};

static void *own[OWN];
static void *other[OTHERS]; /* of the thread that has ended */
static void *to_free[SLABS * OF_FIRST]; /* in the handler by a child that returns */
static int to_free_count;
static void *block_to_free; /* by the handler, or in it by a child that stays */
static volatile sig_atomic_t steps, interrupt_at, is_over; /* the interruption */
static enum deed { FORK_AND_RETURN, FORK_AND_STAY, FREE } deed; /* of the handler */

/* Calls of the scenario so far, and the one with the most instructions, which a process finds that never forks. */
static int calls;
static struct {
	int call, steps;
} *longest;

static bool use_much(void)
{
	static char *p[OTHERS];
	bool good = true;

	for (int i = 0; i < OTHERS; i++) {
		p[i] = malloc(SIZE);
		memset(p[i], i % 251, SIZE);
	}
	for (int i = 0; i < OTHERS; i++) {
		good = good && p[i][0] == (char)(i % 251) && p[i][SIZE - 1] == (char)(i % 251);
		free(p[i]);
	}
	return good;
}

/* Blocks of the interrupted program it frees, too. */
static void prove_and_exit(void)
{
	char *large;

	alarm(PROVE_SECONDS);
	free(block_to_free);
	large = malloc(LARGE);
	if (large == NULL)
		_exit(1);
	memset(large, 1, LARGE);
	large = realloc(large, 3 * LARGE);
	if (large == NULL || large[LARGE - 1] != 1)
		_exit(1);
	free(large);
	_exit(use_much() ? 0 : 1);
}

static void fork_here(void)
{
	pid_t child = fork();
	int status;

	if (child != 0)
		_exit(waitpid(child, &status, 0) == child && status == 0 ? 0 : 1);
	if (deed == FORK_AND_STAY)
		prove_and_exit();
	for (int i = 0; i < to_free_count; i++)
		free(to_free[i]);
}

static void at_instruction(int signal, siginfo_t *info, void *context)
{
	if (steps++ != interrupt_at)
		return;
	step_no_more(context);
	is_over = true;
	if (deed == FREE)
		free(block_to_free);
	else
		fork_here();
}

/* Each call of a scenario goes through here; the longest one is stepped through. */
static void *step(void *(*call)(void *), void *argument)
{
	bool is_stepped = !is_over && (interrupt_at == NEVER || calls == longest->call);
	void *result;

	steps = 0;
	if (is_stepped)
		step_begin();
	result = call(argument);
	if (is_stepped)
		step_end();
	if (is_stepped && interrupt_at == NEVER && steps > longest->steps) {
		longest->steps = steps;
		longest->call = calls;
	}
	calls++;
	return result;
}

static void *call_malloc(void *unused)
{
	return malloc(SIZE);
}

static void *call_free(void *p)
{
	free(p);
	return NULL;
}

static void *call_trim(void *unused)
{
	malloc_trim((size_t)1 << 30); /* the caches alone */
	return NULL;
}

static void *call_malloc_large(void *unused)
{
	return malloc(LARGE);
}

static void allocate_own(void)
{
	for (int i = 0; i < OWN; i++)
		own[i] = malloc(SIZE);
}

static void free_own(void)
{
	for (int i = 0; i < OWN; i++)
		free(own[i]);
}

static void step_mallocs(void)
{
	for (int i = 0; i < OWN; i++)
		own[i] = step(call_malloc, NULL);
	free_own();
}

static void step_frees(void)
{
	for (int i = 0; i < OWN; i++)
		step(call_free, own[i]);
}

static void step_trim(void)
{
	free_own();
	step(call_trim, NULL);
}

static void step_large(void)
{
	for (int i = 0; i < FEW_LARGE; i++)
		own[i] = step(call_malloc_large, NULL);
	for (int i = 0; i < FEW_LARGE; i++)
		step(call_free, own[i]);
}

/* Once in a while, if there is memory to give back, a slow path sees to it that the next call of each size takes
   one, too, though there are free blocks. */
static void step_malloc_amid_blocks(void)
{
	free_own();
	free(malloc(1 << 20));
	usleep(30000);
	free(malloc(OTHER_SIZE));
	own[0] = step(call_malloc, NULL);
	free(own[0]);
}

static void *make_others(void *unused)
{
	for (int i = 0; i < OTHERS; i++)
		other[i] = malloc(SIZE);
	return unused;
}

/* The next block that lies beside `like`, or anywhere if that is NULL; it is no longer in the table. */
static void *take(const void *like)
{
	for (int i = 0; i < OTHERS; i++) {
		void *p = other[i];

		if (p != NULL && (like == NULL || (uintptr_t)p >> 16 == (uintptr_t)like >> 16)) {
			other[i] = NULL;
			return p;
		}
	}
	return NULL;
}

static void choose_what_to_free(void *first)
{
	for (int s = 0; s < SLABS; s++) {
		void *like = s == 0 ? first : take(NULL);

		for (int i = 0; i < (s == 0 ? OF_FIRST - 2 : OF_REST); i++)
			if ((to_free[to_free_count] = take(like)) != NULL)
				to_free_count++;
		for (int i = 0; s > 0 && i < OTHERS; i++) /* the next is to be of another slab */
			if ((uintptr_t)other[i] >> 16 == (uintptr_t)like >> 16)
				other[i] = NULL;
	}
}

static void make_others_in_thread(void)
{
	pthread_t maker;

	if (pthread_create(&maker, NULL, make_others, NULL) != 0 || pthread_join(maker, NULL) != 0)
		_exit(1);
}

static void step_free_of_others(void)
{
	void *first = take(other[OTHERS / 2]), *second = take(first);

	choose_what_to_free(first);
	free(first); /* a batch of its slab is there now */
	step(call_free, second);
	for (int i = 0; i < OTHERS; i++)
		free(other[i]);
}

static const struct scenario {
	const char *name;
	void (*prepare)(void);
	void (*run)(void);
	enum deed deed;
	int stride; /* of each so many instructions one is tried: a prime, so that loops are met at each of theirs */
	int fewest; /* instructions that the longest call must have, or it is not the slow path that was meant */
} scenarios[] = {
	{"malloc", NULL, step_mallocs, FORK_AND_RETURN, 5, 500},
	{"malloc, child stays", NULL, step_mallocs, FORK_AND_STAY, 11, 500},
	{"malloc, handler frees", NULL, step_mallocs, FREE, 7, 500},
	{"free", allocate_own, step_frees, FORK_AND_RETURN, 3, 300},
	{"free, child stays", allocate_own, step_frees, FORK_AND_STAY, 5, 300},
	{"free, handler frees", allocate_own, step_frees, FREE, 3, 300},
	{"large blocks", NULL, step_large, FORK_AND_RETURN, 17, 500},
	{"large blocks, child stays", NULL, step_large, FORK_AND_STAY, 13, 500},
	{"large blocks, handler frees", NULL, step_large, FREE, 11, 500},
	{"malloc_trim", allocate_own, step_trim, FORK_AND_RETURN, 13, 1000},
	{"malloc_trim, child stays", allocate_own, step_trim, FORK_AND_STAY, 29, 1000},
	{"malloc_trim, handler frees", allocate_own, step_trim, FREE, 31, 1000},
	{"malloc amid free blocks", allocate_own, step_malloc_amid_blocks, FORK_AND_RETURN, 1, 60},
	{"free of another thread's block", make_others_in_thread, step_free_of_others, FORK_AND_RETURN, 1, 40},
};

static void run(const struct scenario *scenario, int at)
{
	struct sigaction action = {.sa_sigaction = at_instruction, .sa_flags = SA_SIGINFO};
	bool good;

	interrupt_at = at;
	deed = scenario->deed;
	block_to_free = malloc(SIZE);
	sigaction(SIGTRAP, &action, NULL);
	scenario->run();
	if (!is_over)
		_exit(COUNTED);
	good = hak_check() == 0;
	good = use_much() && use_much() && good;
	_exit(good && hak_check() == 0 ? 0 : 1);
}

/* Its wait status. */
static int run_process(const struct scenario *scenario, int at)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		run(scenario, at);
	return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static bool passes(const struct scenario *scenario, int stride)
{
	int tried = 0, failed = 0, status;

	if (scenario->prepare != NULL)
		scenario->prepare();
	memset(longest, 0, sizeof *longest);
	status = run_process(scenario, NEVER);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != COUNTED)
		return false;
	for (int at = 0; at < longest->steps; at += stride, tried++) {
		status = run_process(scenario, at);
		if (status == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == COUNTED)) /* it was shorter this time */
			continue;
		failed++;
		fprintf(stderr, "%s, instruction %d: wait status %#x\n", scenario->name, at, status);
	}
	printf("%s: %d of %d instructions, %d failed\n", scenario->name, tried, longest->steps, failed);
	return failed == 0 && longest->steps >= scenario->fewest;
}

/* Of the instructions that a scenario tries, one in so many. */
static bool all_pass(int fewer)
{
	bool good = true;

	for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
		good = passes(&scenarios[i], fewer * scenarios[i].stride) && good;
	return good;
}

static void *end_at_once(void *unused)
{
	return unused;
}

int main(void)
{
	bool good;
	pthread_t thread;

	longest = mmap(NULL, sizeof *longest, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (longest == MAP_FAILED)
		return 1;
	free(malloc(SIZE)); /* the heap is there, and both functions are bound */
	malloc_trim((size_t)1 << 30);
	good = all_pass(1);
	/* To libc the process is threaded from here on, though it is not. */
	if (pthread_create(&thread, NULL, end_at_once, NULL) != 0 || pthread_join(thread, NULL) != 0)
		return 1;
	return !(all_pass(7) && good);
}

#else

int main(void)
{
	return 77; /* skipped: how to step is known here for x86-64 alone */
}

#endif
