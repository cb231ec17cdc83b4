// SPDX-License-Identifier: MIT
/* First allocations, which the profiler waits for to load the unwinder, where that may not be: in the loader, and
 * in a thread that somebody waits for who has the loader's lock. Run with HAKMEM_SAMPLE.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SKIPPED = 77, SECONDS = 20 };

static sem_t begin, done;

static int fail(const char *what)
{
	fprintf(stderr, "loader: %s\n", what);
	return 1;
}

static int is_unwinder(struct dl_phdr_info *info, size_t size, void *arg)
{
	return strstr(info->dlpi_name, "libgcc_s") != NULL;
}

static void *allocate(void *arg)
{
	sem_wait(&begin);
	for (size_t size = 8; size < 100000; size += size / 2)
		free(malloc(size));
	sem_post(&done);
	return arg;
}

static int under_lock(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct timespec until;

	sem_post(&begin);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SECONDS;
	while (sem_timedwait(&done, &until) != 0)
		if (errno == ETIMEDOUT)
			return -1;
	return 1;
}

int main(void)
{
	pthread_t thread;

	/* Straight to the loader, as what libc opens for itself. What it allocates fills bins of this thread. */
	if (dl_iterate_phdr(is_unwinder, NULL) || dlmopen(LM_ID_BASE, "libresolv.so.2", RTLD_NOW) == NULL)
		return SKIPPED;
	if (dl_iterate_phdr(is_unwinder, NULL))
		return fail("the unwinder was loaded amid loading another library");
	if (sem_init(&begin, 0, 0) != 0 || sem_init(&done, 0, 0) != 0 ||
	    pthread_create(&thread, NULL, allocate, NULL) != 0)
		return fail("no thread");
	/* What is still to be prepared must not be left to the thread. */
	if (dlsym(RTLD_DEFAULT, "_dl_find_object") != NULL && !dl_iterate_phdr(is_unwinder, NULL))
		return fail("a thread began before the unwinder was loaded");
	if (dl_iterate_phdr(under_lock, NULL) != 1)
		_exit(fail("an allocation waits for the loader's lock"));
	return pthread_join(thread, NULL);
}
