/* SPDX-License-Identifier: MIT */
/*
 * Stands for a pool of records of one type, as in a simulation or an order book: records come and
 * go in no order, their number stays. Every block fits every hole. Good at it: one list per size,
 * blocks close together, and no search, joining or splitting.
 */
#include "slots.h"

enum { SIZE, CYCLES, WS, SEED };
static struct parameter parameters[] = {
	[SIZE] = { "SIZE", "bytes in a block", MIN_BLOCK, 1 << 20, 64 },
	[CYCLES] = { "CYCLES", "blocks replaced", 1, 100000000000, 10000000 },
	[WS] = { "WS", "blocks live", 1, 100000000, 1024 },
	[SEED] = { "SEED", "of the order", 0, UINT64_MAX, 1 },
	{ .name = NULL },
};
static const struct workload workload = {
	"bench_fixed_size", "Replaces random ones among live blocks of one size", parameters, NULL,
};

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	size_t size = parameters[SIZE].value;
	size_t count = parameters[WS].value;
	uint64_t cycles = parameters[CYCLES].value;
	uint64_t random = parameters[SEED].value;
	struct slot *slots = scratch(count * sizeof(*slots));

	workload_start();
	slots_churn(slots, count, size, size, cycles, &random);
	workload_stop(cycles);

	slots_served(slots, count);
	slots_clear(slots, count);
	return workload_end();
}
