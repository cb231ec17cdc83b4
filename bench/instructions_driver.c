/* SPDX-License-Identifier: MIT */
/*
 * What bench/instructions runs under callgrind: each function of the malloc family is called in a
 * loop from a function of its own (count_NAME), so that the cost of these calls, and of nothing else,
 * can be read from callgrind's record of who called whom. By itself it measures nothing of use.
 */
#include "workload.h"

enum { BATCH, MIN, MAX, ROUNDS };

static struct parameter parameters[] = {
	[BATCH] = { "batch", "blocks made before the first is freed", 1, 1000000, 1 },
	[MIN] = { "min", "bytes in the smallest block", MIN_BLOCK, 1 << 24, 64 },
	[MAX] = { "max", "bytes in the largest block", MIN_BLOCK, 1 << 24, 64 },
	[ROUNDS] = { "rounds", "batches", 1, 1000000000, 100 },
	{ NULL, NULL, 0, 0, 0 },
};

static const struct workload workload = {
	"instructions_driver",
	"Calls malloc, free, calloc and realloc in loops that a profiler can tell apart; blocks of one "
	"size are freed in reverse order, of several in random order",
	parameters, NULL,
};

struct block {
	void *memory;
	size_t size;
};

/* Neither inlined nor merged nor given up for a tail call: the names are looked for. */
#ifdef __clang__ /* never clones */
#define COUNTED __attribute__((noinline, used)) static
#else
#define COUNTED __attribute__((noinline, noclone, used)) static
#endif

COUNTED void count_malloc(struct block *blocks, size_t n) {
	for (size_t i = 0; i < n; i++)
		blocks[i].memory = malloc(blocks[i].size);
}

COUNTED void count_calloc(struct block *blocks, size_t n) {
	for (size_t i = 0; i < n; i++)
		blocks[i].memory = calloc(1, blocks[i].size);
}

COUNTED void count_realloc(struct block *blocks, size_t n) {
	for (size_t i = 0; i < n; i++)
		blocks[i].memory = realloc(blocks[i].memory, blocks[i].size);
}

COUNTED void count_free(const struct block *blocks, const uint32_t *order, size_t n) {
	for (size_t i = 0; i < n; i++)
		free(blocks[order[i]].memory);
}

/* A program writes to its blocks, and notices that there is none. */
static void write_blocks(const struct block *blocks, size_t n) {
	for (size_t i = 0; i < n; i++) {
		if (blocks[i].memory == NULL)
			block_fail(NULL, blocks[i].size);
		block_mark(blocks[i].memory, blocks[i].size);
	}
}

static void choose(struct block *blocks, uint32_t *order, size_t n) {
	uint64_t random = 1;
	size_t min = parameters[MIN].value, max = parameters[MAX].value;
	for (size_t i = 0; i < n; i++) {
		blocks[i].size = random_between(&random, min, max);
		order[i] = (uint32_t)(n - 1 - i);
	}
	for (size_t i = n - 1; min != max && i > 0; i--) {
		size_t other = random_between(&random, 0, i);
		uint32_t moved = order[i];
		order[i] = order[other];
		order[other] = moved;
	}
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	size_t n = parameters[BATCH].value;
	if (parameters[MIN].value > parameters[MAX].value)
		workload_refuse("min is above max");
	struct block *blocks = scratch(n * sizeof(*blocks));
	uint32_t *order = scratch(n * sizeof(*order));
	choose(blocks, order, n);

	workload_start();
	for (uint64_t round = 0; round < parameters[ROUNDS].value; round++) {
		count_malloc(blocks, n);
		write_blocks(blocks, n);
		count_realloc(blocks, n);
		count_free(blocks, order, n);
		count_calloc(blocks, n);
		workload_served(blocks[0].memory);
		count_free(blocks, order, n);
	}
	workload_stop(2 * n * parameters[ROUNDS].value);
	return workload_end();
}
