/* SPDX-License-Identifier: MIT */
/*
 * Stands for the five orders in which programs free what they made, each by itself and for four
 * sizes: last first (call trees), first first (queues), random (caches), every other one
 * (filters), and short lives beside long ones (requests beside sessions). Good at it: being
 * equally fast in all; an allocator that is fast only last first shows here.
 */
#include <stdio.h>

#include "workload.h"

enum { OPERATIONS, BLOCKS, SEED };
static struct parameter parameters[] = {
	[OPERATIONS] = { "OPERATIONS", "of each pattern and size, about", 1, 100000000000, 1000000 },
	[BLOCKS] = { "BLOCKS", "live at most", 16, 10000000, 1000 },
	[SEED] = { "SEED", "of the random order", 0, UINT64_MAX, 1 },
	{ .name = NULL },
};
static const struct workload workload = {
	"bench_comprehensive", "Makes and frees blocks in five orders, each with four sizes",
	parameters, NULL,
};

static size_t count;   /* length of the tables */
static void **blocks;  /* all NULL between the rounds, but for long_lived */
static size_t *order;  /* a random permutation of their indices */
static size_t oldest;  /* long_lived: the block to replace next */

static void make_all(size_t size) {
	for (size_t i = 0; i < count; i++)
		blocks[i] = block_new(size);
}

static uint64_t lifo(size_t size) {
	make_all(size);
	for (size_t i = count; i > 0; i--)
		block_free(blocks[i - 1], size);
	return count;
}

static uint64_t fifo(size_t size) {
	make_all(size);
	for (size_t i = 0; i < count; i++)
		block_free(blocks[i], size);
	return count;
}

static uint64_t random_free(size_t size) {
	make_all(size);
	for (size_t i = 0; i < count; i++)
		block_free(blocks[order[i]], size);
	return count;
}

/* Frees every other block, makes those again, frees all. */
static uint64_t interleaved(size_t size) {
	make_all(size);
	for (size_t i = 0; i < count; i += 2)
		block_free(blocks[i], size);
	for (size_t i = 0; i < count; i += 2)
		blocks[i] = block_new(size);
	for (size_t i = 0; i < count; i++)
		block_free(blocks[i], size);
	return count + (count + 1) / 2;
}

/* Of every eight blocks one lives on, in place of the oldest that did; the others die at once. */
static uint64_t long_lived(size_t size) {
	enum { GROUP = 8 };
	void *young[GROUP];
	for (size_t i = 0; i < count / GROUP; i++) {
		for (size_t j = 0; j < GROUP; j++)
			young[j] = block_new(size);
		for (size_t j = 1; j < GROUP; j++)
			block_free(young[j], size);
		if (blocks[oldest] != NULL)
			block_free(blocks[oldest], size);
		blocks[oldest] = young[0];
		oldest = (oldest + 1) % count;
	}
	return count / GROUP * GROUP;
}

/* Frees what long_lived has left, showing it. */
static void finish(size_t size) {
	for (size_t i = 0; i < count; i++) {
		if (blocks[i] == NULL)
			continue;
		if (i == 0)
			workload_served(blocks[i]);
		block_free(blocks[i], size);
		blocks[i] = NULL;
	}
	oldest = 0;
}

static void clear_table(void) {
	for (size_t i = 0; i < count; i++)
		blocks[i] = NULL;
}

static void measure(const char *name, uint64_t (*round)(size_t), size_t size) {
	uint64_t done = 0;
	double before = cpu_seconds();
	workload_start();
	while (done < parameters[OPERATIONS].value)
		done += round(size);
	workload_stop(done);
	double taken = cpu_seconds() - before;
	if (round == long_lived)
		finish(size);
	else
		clear_table();
	char label[64];
	snprintf(label, sizeof(label), "%s %zu B", name, size);
	workload_figure(label, taken * 1e9 / (double)done, "ns");
}

int main(int argc, char **argv) {
	static const struct { const char *name; uint64_t (*round)(size_t); } patterns[] = {
		{ "lifo", lifo }, { "fifo", fifo }, { "random", random_free },
		{ "interleaved", interleaved }, { "long-lived", long_lived },
	};
	static const size_t sizes[] = { 16, 64, 256, 1024 };
	workload_begin(&workload, argc, argv);
	count = parameters[BLOCKS].value;
	blocks = scratch(count * sizeof(*blocks));
	order = scratch(count * sizeof(*order));
	uint64_t random = parameters[SEED].value;
	for (size_t i = 0; i < count; i++) {
		size_t j = random_between(&random, 0, i);
		order[i] = order[j];
		order[j] = i;
	}
	for (size_t p = 0; p < sizeof(patterns) / sizeof(patterns[0]); p++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			measure(patterns[p].name, patterns[p].round, sizes[s]);
	return workload_end();
}
