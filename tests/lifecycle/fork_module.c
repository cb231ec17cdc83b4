/* SPDX-License-Identifier: MIT */
/* Its constructor, which runs with the loader's lock held, starts a thread that allocates and forks, and waits for it. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int fork_module_status = -1; /* the child's wait status */

static void *fork_once(void *unused)
{
	free(malloc(100000));
	pid_t child = fork();

	if (child == 0) {
		free(malloc(100));
		_exit(0);
	}
	if (child < 0 || waitpid(child, &fork_module_status, 0) != child)
		fork_module_status = -1;
	return NULL;
}

__attribute__((constructor)) static void fork_in_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, fork_once, NULL) == 0)
		pthread_join(thread, NULL);
}
