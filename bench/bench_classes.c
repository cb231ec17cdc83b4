/* SPDX-License-Identifier: MIT */
/*
 * One size after another: 100 MB of blocks of one size, all freed before the next size comes. So
 * does a batch program whose stages each build their own structures, and any service that loads,
 * converts and indexes in turn.
 *
 * Each size by itself shows what blocks cost beyond what was asked for: headers, rounding up to a
 * size class, tables. The series shows whether memory of one size serves the next. An allocator is
 * good at it if its classes are close to each other and an empty page forgets its class.
 */
#include <stdio.h>

#include "blocks.h"

static struct parameter parameters[] = {
	{"MEGABYTES", "live MiB of each size", 1, 16384, 100},
	{"LOW", "the first size", MIN_BLOCK, 1 << 20, 16},
	{"HIGH", "no size is above this", MIN_BLOCK, 1 << 26, 65536},
	{.name = NULL},
};

static struct parameter options[] = {
	{"step", "each size is about so many percent of the one before", 101, 10000, 160},
	{.name = NULL},
};

static const struct workload workload = {
	.name = "bench_classes",
	.summary = "one size after another, all blocks freed before the next size; an operation is a\n"
		"malloc and its free",
	.parameters = parameters,
	.options = options,
};

enum { ALIGNMENT = 16 };

/* What is seen when one size is full. */
struct seen {
	double worst, sum;
	size_t peak, sizes;
};

static void look(struct seen *seen, const struct blocks *blocks, size_t size, size_t before) {
	char label[32];
	snprintf(label, sizeof(label), "%zu B", size);
	workload_resident(label, blocks->live);
	workload_served(blocks->table[0].at);
	size_t resident = resident_since(before);
	double ratio = (double)resident / (double)blocks->live;
	seen->worst = ratio > seen->worst ? ratio : seen->worst;
	seen->peak = resident > seen->peak ? resident : seen->peak;
	seen->sum += ratio;
	seen->sizes++;
}

/* At least one step up, to a multiple of what malloc must align to: other sizes cost every
   allocator the difference. */
static size_t next_size(size_t size) {
	size_t next = size * options[0].value / 100;
	return (next + ALIGNMENT) & ~(size_t)(ALIGNMENT - 1);
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	size_t live = parameters[0].value * MIB, low = parameters[1].value, high = parameters[2].value, sizes = 0;
	for (size_t size = low; size <= high && sizes <= SAMPLES_MAX; size = next_size(size))
		sizes++;
	if (sizes == 0)
		workload_refuse("LOW is above HIGH");
	if (sizes > SAMPLES_MAX)
		workload_refuse("those are more than %d sizes: a larger step is needed", SAMPLES_MAX);
	uint64_t random = 0;
	struct blocks blocks;
	blocks_init(&blocks, live, low, low);
	size_t before = resident_bytes();

	struct seen seen = {0};
	for (size_t size = low; size <= high; size = next_size(size)) {
		workload_start();
		size_t made = blocks_fill(&blocks, live, size, size, &random);
		workload_stop(made);
		look(&seen, &blocks, size, before);
		workload_start();
		blocks_remove_from(&blocks, 0);
		workload_stop(0);
	}
	workload_figure("worst", seen.worst, "resident/live");
	workload_figure("mean", seen.sum / (double)seen.sizes, "resident/live");
	workload_figure("peak", (double)seen.peak / (double)live, "resident/live");
	workload_figure("left", (double)resident_since(before) / MIB, "MiB");
	return workload_end();
}
