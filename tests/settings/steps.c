/* SPDX-License-Identifier: MIT */
/* Calls malloc and free, which are warm by then, between two stops: see modes.c. */
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAIRS = 20 }; /* the kernel needs some 50 us for a step */

static void *volatile block;

static void use(size_t size)
{
	for (int i = 0; i < PAIRS; i++) {
		block = malloc(size);
		free(block);
	}
}

static void use_all(void)
{
	use(16);
	use(100);
	use(1000);
	use(4000);
}

int main(void)
{
	/* The first 32 KiB of a program are not from slabs. */
	for (int i = 0; i < 100; i++)
		if (malloc(16) == NULL || malloc(100) == NULL || malloc(1000) == NULL || malloc(4000) == NULL)
			return 1;
	use_all();
	syscall(SYS_kill, getpid(), SIGSTOP);
	use_all();
	syscall(SYS_kill, getpid(), SIGSTOP);
	return 0;
}
