/* SPDX-License-Identifier: MIT */
/*
 * Random use of the whole malloc family by threads that come, go and free each other's blocks. The
 * program knows of each block what it must hold: a fill that depends on its address and size, so a
 * block handed out twice, moved wrongly, cleared or overwritten shows at the latest when it is
 * freed. Prints its seed first; the same options do the same again, but for the threads' timing.
 *
 * Exit status: 0 all was well, 1 a fault was found (said on standard error), 2 usage. That malloc is not HAKMEM's is a
 * fault, too, see serves.h.
 */
#include "block.h"
#include "options.h"
#include "random.h"
#include "../serves.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_THREADS = 64, OWN_SLOTS = 1000, SHARED_SLOTS = 512, GENERATIONS = 20 };

/* A thread's blocks outlive it: its successor, with the same worker, goes on with them. */
struct worker {
	pthread_t thread;
	struct random random;
	long ops; /* left for the thread that is running */
	struct block slots[OWN_SLOTS];
};

int hak_check(void) __attribute__((weak));

static struct options options;
static struct worker *workers;

/* Blocks on their way from one thread to another. */
static _Atomic(struct block *) shared[SHARED_SLOTS];

static atomic_bool time_is_up;

/* Gives the block away and frees the one that lay there, whosever it was. */
static void hand_over(struct worker *worker, struct block *own)
{
	struct block *parcel = malloc(sizeof *parcel);

	if (!parcel)
		return;
	*parcel = *own;
	own->ptr = NULL;
	parcel = atomic_exchange(&shared[random_below(&worker->random, SHARED_SLOTS)], parcel);
	if (parcel) {
		block_free(parcel);
		free(parcel);
	}
}

static void step(struct worker *worker)
{
	struct random *random = &worker->random;
	struct block *slot = &worker->slots[random_below(random, OWN_SLOTS)];
	uint64_t choice = random_below(random, 16);

	if (!slot->ptr)
		block_allocate(slot, random);
	else if (choice < 2)
		block_resize(slot, random);
	else if (choice < 5)
		hand_over(worker, slot);
	else
		block_free(slot);
}

/* Now and then a whole table goes: slabs and heaps empty themselves. */
static void free_all(struct worker *worker)
{
	for (size_t i = 0; i < OWN_SLOTS; i++)
		block_free(&worker->slots[i]);
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	while (worker->ops-- > 0 && !atomic_load_explicit(&time_is_up, memory_order_relaxed))
		step(worker);
	if (random_below(&worker->random, 8) == 0)
		free_all(worker);
	return NULL;
}

static void start(struct worker *worker)
{
	enum { TRIES = 2000 };

	worker->ops = options.ops / options.threads / GENERATIONS + 1;
	/* There may be no memory for a stack just now: see the suite faults. */
	for (int i = 0; pthread_create(&worker->thread, NULL, work, worker); i++) {
		if (i == TRIES) {
			fprintf(stderr, "stress: no thread\n");
			exit(2);
		}
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	}
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Threads end and begin anew until the operations, or the time, are used up. */
static void run_workers(void)
{
	double end = seconds_now() + options.seconds;
	long generations = options.seconds > 0 ? -1 : GENERATIONS;

	for (long i = 0; i < options.threads; i++)
		start(&workers[i]);
	while (generations < 0 ? seconds_now() < end : --generations > 0)
		for (long i = 0; i < options.threads; i++) {
			pthread_join(workers[i].thread, NULL);
			start(&workers[i]);
		}
	if (options.seconds > 0)
		atomic_store(&time_is_up, true);
	for (long i = 0; i < options.threads; i++)
		pthread_join(workers[i].thread, NULL);
}

static void finish(void)
{
	for (long i = 0; i < options.threads; i++)
		free_all(&workers[i]);
	for (size_t i = 0; i < SHARED_SLOTS; i++)
		if (shared[i]) {
			block_free(shared[i]);
			free(shared[i]);
		}
}

/* Damages one live block as a faulty allocator would. */
static void spoil(void)
{
	struct block *slot = workers[0].slots;

	while (slot->size < 64 || !slot->ptr)
		slot++;
	block_spoil(slot, slot + 1, options.spoil);
}

/* Has the allocator its own books in order? Only HAKMEM can say. Nothing else runs. */
static void check_books(void)
{
	int wrong = hak_check ? hak_check() : 0;

	/* Negative: there was no memory to check with. Whoever takes it away (faults/meddle.c) gives it back soon. */
	for (int i = 0; wrong < 0 && i < 200; i++) {
		nanosleep(&(struct timespec){0, 5000000}, NULL);
		wrong = hak_check();
	}
	if (wrong != 0) {
		fprintf(stderr, wrong > 0 ? "stress: the heap is damaged\n" : "stress: no memory to check the heap\n");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	if (!options_parse(&options, argc, argv, MAX_THREADS))
		return 2;
	if (!serves_as_expected()) {
		fprintf(stderr, "stress: malloc is not HAKMEM's\n");
		return 1;
	}
	workers = calloc((size_t)options.threads, sizeof *workers);
	if (!workers)
		return 2;
	/* From here on memory may be short: faults/meddle.c waits for this line. */
	printf("stress: --seed %llu --threads %ld --ops %ld --seconds %d\n", options.seed,
		options.threads, options.ops, options.seconds);
	fflush(stdout);
	block_set_seed(options.seed);
	for (long i = 0; i < options.threads; i++)
		random_seed(&workers[i].random, options.seed * MAX_THREADS + (unsigned long)i);
	run_workers();
	check_books();
	if (options.spoil)
		spoil();
	finish();
	check_books();
	free(workers);
	return 0;
}
