/* SPDX-License-Identifier: MIT */
/*
 * Stands for general-purpose code: strings, nodes, buffers and small arrays of many sizes whose
 * lives have nothing to do with each other. No size repeats soon and no order helps. Good at it:
 * finding the size class quickly, short paths that do not mispredict, and keeping what lives close
 * together.
 */
#include "slots.h"

enum { CYCLES, WS, SEED };
static struct parameter parameters[] = {
	[CYCLES] = { "CYCLES", "blocks replaced", 1, 100000000000, 10000000 },
	[WS] = { "WS", "blocks live", 1, 100000000, 256 },
	[SEED] = { "SEED", "of sizes and order", 0, UINT64_MAX, 1 },
	{ .name = NULL },
};
enum { MIN, MAX };
static struct parameter options[] = {
	[MIN] = { "min", "bytes in the smallest block", MIN_BLOCK, 1 << 24, 16 },
	[MAX] = { "max", "bytes in the largest block", MIN_BLOCK, 1 << 24, 1024 },
	{ .name = NULL },
};
static const struct workload workload = {
	"bench_random_mixed", "Replaces random ones among live blocks of random sizes", parameters,
	options,
};

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	size_t low = options[MIN].value, high = options[MAX].value;
	if (low > high)
		workload_refuse("--min is above --max");
	size_t count = parameters[WS].value;
	uint64_t cycles = parameters[CYCLES].value;
	uint64_t random = parameters[SEED].value;
	struct slot *slots = scratch(count * sizeof(*slots));

	workload_start();
	slots_churn(slots, count, low, high, cycles, &random);
	workload_stop(cycles);

	slots_served(slots, count);
	slots_clear(slots, count);
	return workload_end();
}
