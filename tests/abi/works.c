/* SPDX-License-Identifier: MIT */
/* What most programs do with memory: they make and free some ten thousand blocks of up to 1 KiB, and some of them in
   another thread. Writes a line then, and ends when its input does. For check-resident. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIVE = 8192, CYCLES = 100000, MAX = 1024 };

static void *blocks[LIVE];

static void *work(void *unused) {
	uint32_t random = 1;
	for (int i = 0; i < CYCLES; i++) {
		random = random * 1664525 + 1013904223;
		void **at = &blocks[(random >> 8) % LIVE];
		free(*at);
		size_t size = 1 + random % MAX;
		*at = malloc(size);
		if (*at == NULL)
			abort();
		memset(*at, 1, size);
	}
	return unused;
}

int main(void) {
	pthread_t thread;
	char line;
	work(NULL);
	if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0)
		return 1;
	work(NULL);
	if (write(1, "\n", 1) != 1)
		return 1;
	return read(0, &line, 1) < 0;
}
