/* SPDX-License-Identifier: MIT */
#include "common.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/settings.h"
#include "os/alone.h"
#include "os/os.h"
#include "slab/slab.h"

enum { MAX_THREADS = 16 };

int unit_setup(void **state)
{
	settings_init();
	os_ask_libc();
	os_init(NULL);
	key_init(os_facts.random);
	hak_settings.use_superslab = true;
	hak_settings.bigcache_l25 = true;
	return 0;
}

bool bytes_are(const void *ptr, size_t size, unsigned char value)
{
	const unsigned char *bytes = ptr;

	return size == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static int64_t coarse_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* By the clock that the library reads, too, which may stand still meanwhile on a virtual machine whose host is busy. */
void sleep_ms(unsigned ms)
{
	int64_t end = coarse_ms() + ms, left = ms;

	for (; left > 0; left = end - coarse_ms())
		nanosleep(&(struct timespec){left / 1000, left % 1000 * 1000000}, NULL);
}

struct start {
	void (*run)(unsigned index);
	unsigned index;
	pthread_t thread;
};

static void *run_one(void *start)
{
	struct start *s = start;

	s->run(s->index);
	return NULL;
}

void run_threads(unsigned count, void (*run)(unsigned index))
{
	struct start starts[MAX_THREADS];

	CHECK(count <= MAX_THREADS);
	for (unsigned i = 0; i < count; i++) {
		starts[i] = (struct start){.run = run, .index = i};
		CHECK(pthread_create(&starts[i].thread, NULL, run_one, &starts[i]) == 0);
	}
	for (unsigned i = 0; i < count; i++)
		CHECK(pthread_join(starts[i].thread, NULL) == 0);
}

void check_failed(const char *file, int line, const char *condition)
{
	fprintf(stderr, "%s:%d: failed: %s\n", file, line, condition);
	abort();
}
