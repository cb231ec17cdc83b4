/* SPDX-License-Identifier: MIT */
/*
 * Stands for programs that load, decode or multiply: images, archives, matrices and columns of 512
 * KiB to 2 MiB that live for a moment. Asking the system for each costs two calls and a page fault
 * per page; keeping them all costs memory. Good at it: keeping freed spans for a while, finding
 * one that fits without waste, and not clearing or giving back what is needed again at once. With
 * HAKMEM, HAKMEM_BIGCACHE_L25=0 shows what its cache of such spans is worth.
 *
 * Many programs fill little of a large buffer, others all of it. --touch says which is meant: with
 * 0 memory stays untouched but for a page of each block, and what malloc and free do is measured;
 * from 1 on, page faults are too, and the more is written the less it matters which allocator
 * serves.
 */
#include <string.h>

#include "slots.h"

enum { CYCLES, WS, SEED };
static struct parameter parameters[] = {
	[CYCLES] = { "CYCLES", "blocks replaced", 1, 100000000000, 100000 },
	[WS] = { "WS", "blocks live", 1, 100000, 64 },
	[SEED] = { "SEED", "of sizes and order", 0, UINT64_MAX, 1 },
	{ .name = NULL },
};
enum { MIN, MAX, TOUCH };
enum { FIRST, ENDS, PAGES, ALL };
static struct parameter options[] = {
	[MIN] = { "min", "bytes in the smallest block", MIN_BLOCK, 1 << 30, 512 << 10 },
	[MAX] = { "max", "bytes in the largest block", MIN_BLOCK, 1 << 30, (2 << 20) - 1 },
	[TOUCH] = { "touch", "write to: 0 the first word of a block, 1 both ends, 2 every page, 3 all",
		FIRST, ALL, FIRST },
	{ .name = NULL },
};
static const struct workload workload = {
	"bench_vm_mixed", "Replaces random ones among live blocks of 512 KiB to 2 MiB", parameters,
	options,
};

/* `size` of a slot is what the stamp covers. */
static void replace(struct slot *slot, size_t size) {
	enum { STEP = 4096 };
	slot_clear(slot);
	unsigned char *bytes = malloc(size);
	if (bytes == NULL)
		block_fail(NULL, size);
	slot->block = bytes;
	slot->size = options[TOUCH].value == FIRST ? MIN_BLOCK : size;
	block_mark(bytes, slot->size);
	if (options[TOUCH].value == PAGES)
		for (size_t i = STEP; i + 1 < size; i += STEP)
			bytes[i] = (unsigned char)i;
	if (options[TOUCH].value == ALL)
		memset(bytes + MIN_BLOCK, (int)size, size - MIN_BLOCK); /* as block_mark's last byte */
}

static void churn(struct slot *slots, size_t count, uint64_t cycles, uint64_t *random) {
	for (uint64_t i = 0; i < cycles; i++) {
		struct slot *slot = &slots[random_between(random, 0, count - 1)];
		replace(slot, random_between(random, options[MIN].value, options[MAX].value));
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
