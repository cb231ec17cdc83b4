/* SPDX-License-Identifier: MIT */
/* Its constructor, which runs with the loader's lock held, has a thread free a block twice, and waits for it. */
#include <pthread.h>
#include <stdlib.h>

static void *free_twice(void *unused)
{
	void *block = (void *)strtoul(getenv("MISUSE_BLOCK"), NULL, 16);

	free(block);
	__asm__ volatile("" : "+r"(block));
	free(block);
	return NULL;
}

__attribute__((constructor)) static void misuse_in_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, free_twice, NULL) == 0)
		pthread_join(thread, NULL);
}
