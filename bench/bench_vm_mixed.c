/* SPDX-License-Identifier: MIT */
/*
 * Stands for programs that load, decode or multiply: images, archives, matrices and columns of 512 KiB
 * to 2 MiB that live for a moment. Asking the system for each costs two calls and a page fault per
 * page; keeping them all costs memory. Good at it: keeping freed spans for a while, finding one that
 * fits without waste, and not clearing or giving back what is needed again at once. With HAKMEM,
 * HAKMEM_BIGCACHE_L25=0 shows what its cache of such spans is worth.
 *
 * Many programs fill little of a large buffer, others all of it; --touch says which is meant.
 */
#include "slots.h"

enum { CYCLES, WS, SEED };
static struct parameter parameters[] = {
	[CYCLES] = { "CYCLES", "blocks replaced", 1, 100000000000, 100000 },
	[WS] = { "WS", "blocks live", 1, 100000, 64 },
	[SEED] = { "SEED", "of sizes and order", 0, UINT64_MAX, 1 },
	{ .name = NULL },
};
enum { MIN, MAX, TOUCH };
static struct parameter options[] = {
	[MIN] = { "min", "bytes in the smallest block", MIN_BLOCK, 1 << 30, 512 << 10 },
	[MAX] = { "max", "bytes in the largest block", MIN_BLOCK, 1 << 30, (2 << 20) - 1 },
	[TOUCH] = { "touch", "write to: 0 both ends of a block, 1 every page, 2 every byte", 0, 2, 0 },
	{ .name = NULL },
};
static const struct workload workload = {
	"bench_vm_mixed", "Replaces random ones among live blocks of 512 KiB to 2 MiB", parameters,
	options,
};

enum { STEP = 4096 };

static void touch(struct slot *slot) {
	size_t step = options[TOUCH].value == 1 ? STEP : 1;
	volatile unsigned char *bytes = slot->block;
	if (options[TOUCH].value == 0)
		return;
	for (size_t i = sizeof(uint64_t); i + 1 < slot->size; i += step)
		bytes[i] = (unsigned char)i;
}

static void churn(struct slot *slots, size_t count, uint64_t cycles, uint64_t *random) {
	for (uint64_t i = 0; i < cycles; i++) {
		struct slot *slot = &slots[random_between(random, 0, count - 1)];
		slot_replace(slot, random_between(random, options[MIN].value, options[MAX].value));
		touch(slot);
	}
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	if (options[MIN].value > options[MAX].value)
		workload_refuse("--min is above --max");
	size_t count = parameters[WS].value;
	uint64_t random = parameters[SEED].value;
	struct slot *slots = scratch(count * sizeof(*slots));

	workload_start();
	churn(slots, count, parameters[CYCLES].value, &random);
	workload_stop(parameters[CYCLES].value);

	slots_served(slots, count);
	slots_clear(slots, count);
	return workload_end();
}
