/* SPDX-License-Identifier: MIT */
/*
 * Keeps about 64 MiB in blocks of LEAST to MOST bytes, in one of several ways, and prints what a heap profile
 * should say lives: "live BYTES".
 * Usage: kept steady|beside|behind|bursts|threads LEAST MOST SEED
 *
 *   steady   each block is replaced by one of another size several times, at random
 *   beside   between two that stay, one block is allocated and freed 100 times
 *   behind   likewise, and the one that stays uses what was just freed
 *   bursts   blocks come and go by thousands, a few stay of each burst
 *   threads  as steady, but in three threads, and the main thread frees half of it
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, REPLACED = 5, PAIRS = 100, BURST = 2000, STAYS = 20 };

struct task {
	uint64_t random;
	size_t bytes; /* to keep */
	void **block;
	size_t *size, count;
	size_t live;
};

static size_t least, most;
static void *volatile sink;

static uint64_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

static size_t next_size(struct task *t)
{
	return least + next(&t->random) % (most - least + 1);
}

static void *get(size_t size)
{
	void *p = malloc(size);

	if (p == NULL)
		abort();
	memset(p, 1, size < 64 ? size : 64);
	return p;
}

static void *keep(struct task *t, size_t size)
{
	void *p = get(size);

	sink = p; /* or the compiler leaves it out */
	t->live += size;
	return p;
}

static void *steady(void *arg)
{
	struct task *t = arg;

	t->count = t->bytes / ((least + most) / 2);
	t->block = calloc(t->count, sizeof *t->block);
	t->size = calloc(t->count, sizeof *t->size);
	for (size_t i = 0; i < t->count; i++)
		t->block[i] = keep(t, t->size[i] = next_size(t));
	for (size_t n = 0; n < REPLACED * t->count; n++) {
		size_t i = next(&t->random) % t->count;
		free(t->block[i]);
		t->live -= t->size[i];
		t->block[i] = keep(t, t->size[i] = next_size(t));
	}
	t->live += t->count * (sizeof *t->block + sizeof *t->size);
	return t;
}

static void pairs(struct task *t, int behind)
{
	while (t->live < t->bytes) {
		size_t size = next_size(t), other = behind ? size : (least + most) / 2;
		for (int i = 0; i < PAIRS; i++) {
			void *p = get(other);
			sink = p;
			free(p);
		}
		keep(t, size);
	}
}

static void bursts(struct task *t)
{
	static void *burst[BURST];

	while (t->live < t->bytes) {
		for (int i = 0; i < BURST; i++)
			burst[i] = get(next_size(t));
		for (int i = 0; i < BURST; i++)
			free(burst[i]);
		for (int i = 0; i < STAYS; i++)
			keep(t, next_size(t));
	}
}

static size_t threads(const struct task *whole)
{
	static struct task task[THREADS];
	pthread_t thread[THREADS];
	size_t live = 0;

	for (int i = 0; i < THREADS; i++) {
		task[i] = (struct task){.random = whole->random + (uint64_t)i, .bytes = 2 * whole->bytes / THREADS};
		pthread_create(&thread[i], NULL, steady, &task[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		for (size_t k = 0; k < task[i].count; k += 2) {
			free(task[i].block[k]);
			task[i].live -= task[i].size[k];
		}
		live += task[i].live;
	}
	return live;
}

int main(int argc, char **argv)
{
	struct task t = {.bytes = (size_t)64 << 20};

	if (argc != 5)
		return 2;
	least = strtoul(argv[2], NULL, 10);
	most = strtoul(argv[3], NULL, 10);
	t.random = strtoul(argv[4], NULL, 10);
	if (strcmp(argv[1], "steady") == 0)
		steady(&t);
	else if (strcmp(argv[1], "bursts") == 0)
		bursts(&t);
	else if (strcmp(argv[1], "threads") == 0)
		t.live = threads(&t);
	else
		pairs(&t, strcmp(argv[1], "behind") == 0);
	printf("live %zu\n", t.live);
	return 0;
}
