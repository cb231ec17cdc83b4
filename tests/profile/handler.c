/* SPDX-License-Identifier: MIT */
/*
 * A signal handler frees sampled blocks, one at each instruction of a malloc and a free that are sampled themselves.
 * No standard promises that; but it must not wait for the very thread that it interrupts, and no more than what it
 * frees at the worst moment may be lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hakmem.h>

#if defined(__x86_64__)

#include <signal.h>

enum {
	SIZE = 64,
	MEAN = 1,         /* bytes: every block is sampled */
	BLOCKS = 100000,
	FEWEST = 1000,    /* instructions, or it was not sampled */
	SECONDS = 20,
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

static long samples(void)
{
	int file = memfd_create("profile", 0);
	char path[64], text[256] = "";
	long live = -1;

	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	if (file >= 0 && hak_profile_write(path) == 0 && pread(file, text, sizeof text - 1, 0) > 0)
		sscanf(text, "heap profile: %ld:", &live);
	return live;
}

int main(void)
{
	void *volatile p;
	long before, lost;
	int of_malloc;

	signal(SIGTRAP, free_one);
	signal(SIGALRM, give_up);
	alarm(SECONDS);
	if (hak_profile_start(MEAN) != 0)
		return 1;
	for (int i = 0; i < BLOCKS; i++)
		block[i] = malloc(SIZE);
	before = samples();
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	p = malloc(SIZE);
	of_malloc = steps;
	free(p);
	__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
	lost = samples() - (before - steps);
	printf("%d instructions, %d of them malloc's; %ld blocks lost\n", (int)steps, of_malloc, lost);
	for (int i = steps; i < BLOCKS; i++)
		free(block[i]);
	return before < BLOCKS || steps < FEWEST || steps > BLOCKS || lost < 0 || lost > LOST_MOST || hak_check() != 0;
}

#else

int main(void)
{
	return 77; /* skipped: how to step is known here for x86-64 alone */
}

#endif
