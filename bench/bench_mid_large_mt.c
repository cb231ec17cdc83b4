/* SPDX-License-Identifier: MIT */
/*
 * Stands for servers and encoders whose threads each work on buffers of 8 to 32 KiB: network and
 * file buffers, pages, audio and video rows. Too large for the caches of tiny blocks, too small to
 * be mapped one by one. Good at it: caching such blocks per thread, taking no lock that all
 * threads share, and handing memory out again that is still mapped.
 */
#include "slots.h"

enum { THREADS, CYCLES, WS, SEED };
static struct parameter parameters[] = {
	[THREADS] = { "THREADS", "threads at work", 1, MAX_THREADS, 4 },
	[CYCLES] = { "CYCLES", "blocks replaced by each thread", 1, 100000000000, 60000 },
	[WS] = { "WS", "blocks live in each thread", 1, 1000000, 256 },
	[SEED] = { "SEED", "of sizes and order", 0, UINT64_MAX / 2, 1 },
	{ .name = NULL },
};
static const struct workload workload = {
	"bench_mid_large_mt", "Replaces random ones among live blocks of 8 to 32 KiB in each thread",
	parameters, NULL,
};

enum { LOW = 8 << 10, HIGH = 32 << 10 };

static void churn(unsigned index, void *context) {
	struct slot *slots = ((struct slot **)context)[index];
	size_t count = parameters[WS].value;
	uint64_t random = parameters[SEED].value + index;
	slots_churn(slots, count, LOW, HIGH, parameters[CYCLES].value, &random);
	slots_served(slots, count);
	slots_clear(slots, count);
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	unsigned threads = (unsigned)parameters[THREADS].value;
	struct slot *tables[MAX_THREADS];
	for (unsigned i = 0; i < threads; i++)
		tables[i] = scratch(parameters[WS].value * sizeof(*tables[i]));

	workload_start();
	run_threads(threads, churn, tables);
	workload_stop(threads * parameters[CYCLES].value);
	return workload_end();
}
