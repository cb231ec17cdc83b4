/* SPDX-License-Identifier: MIT */
/* Its constructor, which runs with the loader's lock held, starts a thread that frees a block, and waits for it. */
#include <pthread.h>
#include <stdlib.h>

#include "new_plugin.h"

static void *release(void *unused)
{
	free(new_plugin_block);
	new_plugin_block = NULL;
	return NULL;
}

__attribute__((constructor)) static void free_in_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, release, NULL) == 0)
		pthread_join(thread, NULL);
}
