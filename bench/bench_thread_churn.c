/* SPDX-License-Identifier: MIT */
/*
 * Stands for a thread per request or per test case: a thread lives for a fraction of a
 * millisecond, makes some blocks of many sizes, frees most, leaves its result behind and ends.
 * Good at it: giving a new thread what it needs without mapping or clearing memory, taking little
 * for it, and finding the dead thread's memory again.
 */
#include "slots.h"

enum { WAVES, THREADS, BLOCKS, SEED };
static struct parameter parameters[] = {
	[WAVES] = { "WAVES", "times threads are started and awaited", 1, 100000000, 1000 },
	[THREADS] = { "THREADS", "in a wave", 1, MAX_THREADS, 8 },
	[BLOCKS] = { "BLOCKS", "made by a thread", 1, 1000000, 200 },
	[SEED] = { "SEED", "of sizes", 0, UINT64_MAX, 1 },
	{ .name = NULL },
};
enum { MIN, MAX, KEEP };
static struct parameter options[] = {
	[MIN] = { "min", "bytes in the smallest block", MIN_BLOCK, 1 << 24, 16 },
	[MAX] = { "max", "bytes in the largest block", MIN_BLOCK, 1 << 24, 1024 },
	[KEEP] = { "keep", "blocks of a thread that outlive it", 0, 1000000, 10 },
	{ .name = NULL },
};
static const struct workload workload = {
	"bench_thread_churn", "Starts threads that make some blocks, leave a few behind and end",
	parameters, options,
};

struct wave {
	struct slot *slots; /* a row of `blocks` for each thread */
	uint64_t number;
};

static void serve(unsigned index, void *context) {
	struct wave *wave = context;
	size_t count = parameters[BLOCKS].value;
	struct slot *slots = wave->slots + index * count;
	uint64_t random = parameters[SEED].value ^ (wave->number << 16) ^ index;
	for (size_t i = 0; i < count; i++)
		slot_replace(&slots[i], random_between(&random, options[MIN].value, options[MAX].value));
	if (wave->number == 0)
		slots_served(slots, count);
	for (size_t i = options[KEEP].value; i < count; i++)
		slot_clear(&slots[i]);
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	if (options[MIN].value > options[MAX].value)
		workload_refuse("--min is above --max");
	unsigned threads = (unsigned)parameters[THREADS].value;
	size_t count = threads * parameters[BLOCKS].value;
	uint64_t waves = parameters[WAVES].value;
	struct wave wave = { scratch(count * sizeof(struct slot)), 0 };

	workload_start();
	double before = cpu_seconds();
	for (; wave.number < waves; wave.number++) {
		run_threads(threads, serve, &wave);
		slots_clear(wave.slots, count);
	}
	double taken = cpu_seconds() - before;
	workload_stop(waves * count);
	workload_figure("thread", taken * 1e6 / (double)(waves * threads), "us of CPU time");
	return workload_end();
}
