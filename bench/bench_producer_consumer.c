/* SPDX-License-Identifier: MIT */
/*
 * Stands for pipelines: one thread reads and parses, the next works and frees; logging and network
 * threads that free what others made. Every block is freed by another thread than made it, in
 * order, in batches, for ever. Good at it: returning blocks to their maker without a lock or a
 * lost cache line per block, and bounding what waits on the way.
 */
#include <pthread.h>

#include "slots.h"

enum { PAIRS, BLOCKS, SEED };
static struct parameter parameters[] = {
	[PAIRS] = { "PAIRS", "producers, each with a consumer", 1, MAX_THREADS / 2, 2 },
	[BLOCKS] = { "BLOCKS", "made by each producer", 1, 100000000000, 5000000 },
	[SEED] = { "SEED", "of sizes", 0, UINT64_MAX / 2, 1 },
	{ .name = NULL },
};
enum { MIN, MAX, BATCH };
static struct parameter options[] = {
	[MIN] = { "min", "bytes in the smallest block", MIN_BLOCK, 1 << 24, 16 },
	[MAX] = { "max", "bytes in the largest block", MIN_BLOCK, 1 << 24, 512 },
	[BATCH] = { "batch", "blocks handed over at a time", 1, 100000, 128 },
	{ .name = NULL },
};
static const struct workload workload = {
	"bench_producer_consumer", "Makes blocks in one thread, frees them in another", parameters,
	options,
};

/* Batches on their way; `made` and `taken` count them and are guarded by the lock. A batch's slots
   belong to the producer until it is made, then to the consumer until it is taken. */
enum { BATCHES = 16 };
struct queue {
	struct slot *slots; /* BATCHES times --batch */
	uint64_t made, taken;
	pthread_mutex_t lock;
	pthread_cond_t changed;
};

static struct slot *batch_at(struct queue *queue, uint64_t number) {
	return queue->slots + number % BATCHES * options[BATCH].value;
}

/* Waits until batch `number` is made; until there is room for it. */
static void wait_made(struct queue *queue, uint64_t number) {
	pthread_mutex_lock(&queue->lock);
	while (queue->made <= number)
		pthread_cond_wait(&queue->changed, &queue->lock);
	pthread_mutex_unlock(&queue->lock);
}

static void wait_room(struct queue *queue, uint64_t number) {
	pthread_mutex_lock(&queue->lock);
	while (number - queue->taken >= BATCHES)
		pthread_cond_wait(&queue->changed, &queue->lock);
	pthread_mutex_unlock(&queue->lock);
}

static void advance(struct queue *queue, uint64_t *counter) {
	pthread_mutex_lock(&queue->lock);
	++*counter;
	pthread_cond_signal(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

static uint64_t batch_length(uint64_t number) {
	uint64_t left = parameters[BLOCKS].value - number * options[BATCH].value;
	return left < options[BATCH].value ? left : options[BATCH].value;
}

static uint64_t batch_count(void) {
	return (parameters[BLOCKS].value + options[BATCH].value - 1) / options[BATCH].value;
}

static void produce(struct queue *queue, uint64_t random) {
	for (uint64_t number = 0; number < batch_count(); number++) {
		wait_room(queue, number);
		struct slot *batch = batch_at(queue, number);
		uint64_t length = batch_length(number);
		for (uint64_t i = 0; i < length; i++)
			slot_replace(&batch[i], random_between(&random, options[MIN].value,
				options[MAX].value));
		if (number == 0)
			slots_served(batch, length);
		advance(queue, &queue->made);
	}
}

static void consume(struct queue *queue) {
	for (uint64_t number = 0; number < batch_count(); number++) {
		wait_made(queue, number);
		slots_clear(batch_at(queue, number), batch_length(number));
		advance(queue, &queue->taken);
	}
}

static void work(unsigned index, void *context) {
	struct queue *queue = (struct queue *)context + index / 2;
	if (index % 2 == 0)
		produce(queue, parameters[SEED].value + index);
	else
		consume(queue);
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	if (options[MIN].value > options[MAX].value)
		workload_refuse("--min is above --max");
	unsigned pairs = (unsigned)parameters[PAIRS].value;
	struct queue *queues = scratch(pairs * sizeof(*queues));
	for (unsigned i = 0; i < pairs; i++) {
		queues[i].slots = scratch(BATCHES * options[BATCH].value * sizeof(struct slot));
		pthread_mutex_init(&queues[i].lock, NULL);
		pthread_cond_init(&queues[i].changed, NULL);
	}

	workload_start();
	run_threads(2 * pairs, work, queues);
	workload_stop(pairs * parameters[BLOCKS].value);
	return workload_end();
}
