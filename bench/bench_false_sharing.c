/* SPDX-License-Identifier: MIT */
/*
 * Stands for counters, locks and small objects that several threads write at once, each its own.
 * If the allocator puts two of them in one cache line, every write waits for the other core.
 * Active: the threads make their blocks themselves. Passive: one thread makes neighbours, hands
 * them out, and the others free them and make their own. Good at it: giving threads memory of
 * their own, and not giving a foreign block to the thread that freed it while its neighbours live
 * elsewhere.
 */
#include "workload.h"

enum { THREADS, CYCLES, SIZE, WRITES };
static struct parameter parameters[] = {
	[THREADS] = { "THREADS", "writing at a time", 1, MAX_THREADS, 4 },
	[CYCLES] = { "CYCLES", "blocks made by each thread, active and again passive", 1, 1000000000,
		200000 },
	[SIZE] = { "SIZE", "bytes in a block", MIN_BLOCK, 4096, 8 },
	[WRITES] = { "WRITES", "to a block in its life", 1, 1000000000, 100 },
	{ .name = NULL },
};
static const struct workload workload = {
	"bench_false_sharing", "Threads write to small blocks of their own, often and at once",
	parameters, NULL,
};

/* Counts up to the stamp. Atomically, as locks and shared counters are: a plain store would wait in
   the store buffer and hide most of what a lost cache line costs. */
static void write_often(uint64_t *block) {
	*block -= parameters[WRITES].value;
	for (uint64_t i = parameters[WRITES].value; i > 0; i--)
		__atomic_fetch_add(block, 1, __ATOMIC_RELAXED);
}

static void use(unsigned index, void *context) {
	void **given = context; /* a block for each thread to begin with, or NULL */
	size_t size = parameters[SIZE].value;
	if (given != NULL) {
		write_often(given[index]);
		block_free(given[index], size);
	}
	for (uint64_t i = 0; i < parameters[CYCLES].value; i++) {
		void *block = block_new(size);
		write_often(block);
		if (i == 0)
			workload_served(block);
		block_free(block, size);
	}
}

static void measure(const char *name, void **given) {
	unsigned threads = (unsigned)parameters[THREADS].value;
	uint64_t operations = threads * parameters[CYCLES].value;
	double before = cpu_seconds();
	workload_start();
	run_threads(threads, use, given);
	workload_stop(operations);
	double writes = (double)operations * (double)parameters[WRITES].value;
	workload_figure(name, (cpu_seconds() - before) * 1e9 / writes, "ns a write");
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	unsigned threads = (unsigned)parameters[THREADS].value;
	void **given = scratch(threads * sizeof(*given));
	measure("active", NULL);
	for (unsigned i = 0; i < threads; i++)
		given[i] = block_new(parameters[SIZE].value);
	measure("passive", given);
	return workload_end();
}
