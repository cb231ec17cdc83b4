/* SPDX-License-Identifier: MIT */
/*
 * Stands for the temporary objects of a call tree: list nodes, iterators, short strings, made on
 * the way down and freed in reverse on the way up, thousands of times a millisecond. Everything
 * fits the innermost cache, so what is measured is the length of the shortest paths of malloc and
 * free. Good at it: few instructions, no lock, and handing out the block that was freed last.
 */
#include "workload.h"

enum { SIZE, BATCH, CYCLES };
static struct parameter parameters[] = {
	[SIZE] = { "SIZE", "bytes in a block", MIN_BLOCK, 1024, 16 },
	[BATCH] = { "BATCH", "blocks made before the first is freed", 1, 1000000, 100 },
	[CYCLES] = { "CYCLES", "batches", 1, 1000000000, 200000 },
	{ .name = NULL },
};
static const struct workload workload = {
	"bench_tiny_hot", "Makes a batch of small blocks, frees them in reverse, again and again",
	parameters, NULL,
};

static void run_batch(void **blocks, size_t batch, size_t size) {
	for (size_t i = 0; i < batch; i++)
		blocks[i] = block_new(size);
	for (size_t i = batch; i > 0; i--)
		block_free(blocks[i - 1], size);
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	size_t size = parameters[SIZE].value;
	size_t batch = parameters[BATCH].value;
	uint64_t cycles = parameters[CYCLES].value;
	void **blocks = scratch(batch * sizeof(*blocks));

	workload_start();
	for (uint64_t i = 0; i < cycles; i++)
		run_batch(blocks, batch, size);
	workload_stop(batch * cycles);

	blocks[0] = block_new(size);
	workload_served(blocks[0]);
	block_free(blocks[0], size);
	return workload_end();
}
