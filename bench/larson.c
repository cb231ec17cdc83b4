/* SPDX-License-Identifier: MIT */
/*
 * Stands for a server after the study of Larson and Krishnan (Memory Allocation for Long-Running
 * Server Applications, 1998): connections outlive the threads that serve them. A thread replaces
 * random blocks of its array for some rounds, starts its successor, hands an array on and dies; so
 * most blocks are freed by another thread than made them, and that thread is often dead. Arrays
 * also change hands between the threads alive, and all blocks are mixed at first, so neighbours
 * belong to different threads. Good at it: cheap frees of other threads' blocks, cheap starts and
 * ends of threads, and using again what the dead left.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "slots.h"

enum { SLEEP, MIN, MAX, CHUNKS, ROUNDS, SEED, THREADS };
static struct parameter parameters[] = {
	[SLEEP] = { "SLEEP", "seconds to run; 0: one round", 0, 86400, 5 },
	[MIN] = { "MIN", "bytes in the smallest block", MIN_BLOCK, 1 << 24, 8 },
	[MAX] = { "MAX", "bytes in the largest block", MIN_BLOCK, 1 << 24, 1000 },
	[CHUNKS] = { "CHUNKS", "blocks in an array", 1, 10000000, 5000 },
	[ROUNDS] = { "ROUNDS", "times as many a thread replaces before it dies", 1, 1000000, 100 },
	[SEED] = { "SEED", "of sizes and order", 0, UINT64_MAX / 2, 4141 },
	[THREADS] = { "THREADS", "alive at a time", 1, MAX_THREADS, 4 },
	{ .name = NULL },
};
static const struct workload workload = {
	"larson", "Threads replace blocks, hand them on to a successor and die", parameters, NULL,
};

/* A line of threads, one alive at a time, which alone reads and writes it. */
struct line {
	struct slot *array;
	uint64_t random, operations, generations;
	pthread_t predecessor; /* if generations > 0 */
	sem_t ended;           /* posted by the last; then it is `predecessor` */
};

static atomic_bool stopping;
/* The array between two owners; so a line seldom gets back what it gave. */
static struct slot *_Atomic waiting;

static void *live(void *arg);

static void start_next(struct line *line) {
	pthread_t thread;
	int error = pthread_create(&thread, NULL, live, line);
	if (error != 0)
		workload_fail("cannot start a thread: %s", strerror(error));
}

static bool churn(struct line *line) {
	size_t chunks = parameters[CHUNKS].value;
	bool stop = false;
	for (uint64_t i = 0; i < parameters[ROUNDS].value && !stop; i++) {
		slots_churn(line->array, chunks, parameters[MIN].value, parameters[MAX].value, chunks,
			&line->random);
		line->operations += chunks;
		/* Relaxed: it says when to stop and stands for no data. */
		stop = atomic_load_explicit(&stopping, memory_order_relaxed);
	}
	return stop;
}

static void *live(void *arg) {
	struct line *line = arg;
	if (line->generations++ > 0)
		pthread_join(line->predecessor, NULL);
	bool stop = churn(line);
	line->predecessor = pthread_self();
	if (stop) {
		sem_post(&line->ended);
		return NULL;
	}
	/* Release for whoever gets our blocks, acquire for those we get. */
	line->array = atomic_exchange_explicit(&waiting, line->array, memory_order_acq_rel);
	start_next(line);
	return NULL;
}

/* Fills all arrays, and mixes the blocks so that neighbours get to different threads. */
static void prepare(struct slot *slots, size_t count, uint64_t *random) {
	for (size_t i = 0; i < count; i++)
		slot_replace(&slots[i], random_between(random, parameters[MIN].value,
			parameters[MAX].value));
	for (size_t i = count - 1; i > 0; i--) {
		size_t j = random_between(random, 0, i);
		struct slot swapped = slots[i];
		slots[i] = slots[j];
		slots[j] = swapped;
	}
}

static void run(struct line *lines, unsigned threads) {
	for (unsigned i = 0; i < threads; i++) {
		sem_init(&lines[i].ended, 0, 0);
		start_next(&lines[i]);
	}
	sleep((unsigned)parameters[SLEEP].value);
	atomic_store_explicit(&stopping, true, memory_order_relaxed);
	for (unsigned i = 0; i < threads; i++) {
		while (sem_wait(&lines[i].ended) != 0)
			;
		pthread_join(lines[i].predecessor, NULL);
	}
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	if (parameters[MIN].value > parameters[MAX].value)
		workload_refuse("MIN is above MAX");
	unsigned threads = (unsigned)parameters[THREADS].value;
	size_t chunks = parameters[CHUNKS].value, count = (threads + 1) * chunks;
	uint64_t random = parameters[SEED].value, operations = 0, generations = 0;
	struct line *lines = scratch(threads * sizeof(*lines));
	struct slot *slots = scratch(count * sizeof(*slots));
	prepare(slots, count, &random);
	atomic_init(&waiting, slots + threads * chunks);
	for (unsigned i = 0; i < threads; i++) {
		lines[i].array = slots + i * chunks;
		lines[i].random = random_next(&random);
	}

	workload_start();
	run(lines, threads);
	for (unsigned i = 0; i < threads; i++) {
		operations += lines[i].operations;
		generations += lines[i].generations;
	}
	workload_stop(operations);

	workload_figure("threads lived", (double)generations, "");
	slots_served(slots, count);
	slots_clear(slots, count);
	return workload_end();
}
