/* SPDX-License-Identifier: MIT */
/*
 * A program that changes its mind: it fills memory with blocks of one size, frees 90 % of them at
 * random, and fills up again to the same live size with blocks three times as big. So do a server
 * whose requests grow after an update, a compiler between two passes, and a table that is rebuilt
 * in another layout while a tenth of the old one is still referenced.
 *
 * After the freeing every page still holds a block or two. An allocator is good at it if freed
 * neighbours of one size serve another size. One that binds whole pages to a size class holds
 * nearly twice what is live at the end, since hardly any page became empty. Starting small, one
 * that moves all small blocks through caches pays for that only in time.
 */
#include "blocks.h"

static struct parameter parameters[] = {
	{"MEGABYTES", "live MiB when full", 1, 16384, 100},
	{"SIZE", "bytes of the first blocks", MIN_BLOCK, 1 << 20, 100},
	{"SEED", "of the random choice", 0, UINT64_MAX, 1},
	{.name = NULL},
};

static struct parameter options[] = {
	{"factor", "how many times as big the later blocks are", 1, 64, 3},
	{"keep", "percent of the first blocks that stay", 0, 100, 10},
	{.name = NULL},
};

static const struct workload workload = {
	.name = "bench_halves",
	.summary = "fill, free 90 % at random, refill with blocks three times as big; an operation is\n"
		"a malloc or a free",
	.parameters = parameters,
	.options = options,
};

static size_t before;

static void sample(const char *label, const char *figure, size_t live) {
	workload_resident(label, live);
	workload_figure(figure, (double)resident_since(before) / (double)live, "resident/live");
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	size_t live = parameters[0].value * MIB, size = parameters[1].value;
	size_t bigger = size * options[0].value;
	uint64_t random = parameters[2].value;
	struct blocks blocks;
	blocks_init(&blocks, live, size, size);
	before = resident_bytes();

	workload_start();
	size_t made = blocks_fill(&blocks, live, size, size, &random);
	workload_stop(made);
	workload_served(blocks.table[0].at);
	sample("filled", "filled", blocks.live);

	size_t keep = made * options[1].value / 100;
	blocks_shuffle(&blocks, &random);
	workload_start();
	blocks_remove_from(&blocks, keep);
	workload_stop(made - keep);
	if (keep > 0)
		sample("freed", "freed", blocks.live);

	workload_start();
	size_t refilled = blocks_fill(&blocks, live, bigger, bigger, &random);
	workload_stop(refilled);
	sample("refilled", "refilled", blocks.live);

	workload_start();
	size_t left = blocks.count;
	blocks_remove_from(&blocks, 0);
	workload_stop(left);
	workload_figure("left", (double)resident_since(before) / MIB, "MiB");
	return workload_end();
}
