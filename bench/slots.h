/* SPDX-License-Identifier: MIT */
/* Tables of live blocks for the speed workloads: replacing a block is all in line. */
#ifndef HAK_BENCH_SLOTS_H
#define HAK_BENCH_SLOTS_H

#include "workload.h"

/* A live block and the size asked for, or NULL. */
struct slot {
	void *block;
	size_t size;
};

static inline void slot_clear(struct slot *slot) {
	if (slot->block != NULL)
		block_free(slot->block, slot->size);
	slot->block = NULL;
}

/* Frees the block in the slot, if any, and puts a new one there. */
static inline void slot_replace(struct slot *slot, size_t size) {
	slot_clear(slot);
	slot->block = block_new(size);
	slot->size = size;
}

static inline void slots_clear(struct slot *slots, size_t count) {
	for (size_t i = 0; i < count; i++)
		slot_clear(&slots[i]);
}

/* Replaces random blocks of the table by ones of `low` to `high` bytes, `times` times. */
static inline void slots_churn(struct slot *slots, size_t count, size_t low, size_t high,
		uint64_t times, uint64_t *random) {
	for (uint64_t i = 0; i < times; i++) {
		struct slot *slot = &slots[random_between(random, 0, count - 1)];
		slot_replace(slot, random_between(random, low, high));
	}
}

/* Shows the blocks there are to the proof of who served, at most 16. */
static inline void slots_served(struct slot *slots, size_t count) {
	for (size_t i = 0, shown = 0; i < count && shown < 16; i++) {
		if (slots[i].block == NULL)
			continue;
		workload_served(slots[i].block);
		shown++;
	}
}

#endif
