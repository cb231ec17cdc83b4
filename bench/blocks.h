/* SPDX-License-Identifier: MIT */
/*
 * A set of live blocks for the workloads that measure memory: every block is written in full when
 * it is made, so that it is resident, and checked for damage when it is freed. The table is the
 * workload's own memory, not the allocator's. One thread at a time per set.
 */
#ifndef HAK_BENCH_BLOCKS_H
#define HAK_BENCH_BLOCKS_H

#include "workload.h"

enum { MIB = 1 << 20 };

struct block {
	unsigned char *at;
	size_t size;
};

/* table[0 … count - 1] are the live blocks, in no order that lasts; `live` is the sum of their
   sizes, what the program asked for. */
struct blocks {
	struct block *table;
	size_t count, capacity, live;
};

/* An empty set with room for `live` bytes in blocks of `low` to `high` bytes, evenly spread. */
void blocks_init(struct blocks *blocks, size_t live, size_t low, size_t high);

/* Adds a block of at least MIN_BLOCK bytes. */
void blocks_add(struct blocks *blocks, size_t size);

/* Frees the block at `index`; the last one takes its place. */
void blocks_remove(struct blocks *blocks, size_t index);

/* Frees one block, each being as likely. */
void blocks_remove_random(struct blocks *blocks, uint64_t *random);

/* Frees all blocks from the one at `index` on, in the order of the table. */
void blocks_remove_from(struct blocks *blocks, size_t index);

/* Adds blocks of `low` to `high` bytes until `live` bytes are held; returns how many. */
size_t blocks_fill(struct blocks *blocks, size_t live, size_t low, size_t high, uint64_t *random);

/* Puts the table in random order. */
void blocks_shuffle(struct blocks *blocks, uint64_t *random);

/* ---- Resident memory of a phase ---- */

/* Resident bytes beyond those that `before`, an earlier resident_bytes(), counted. */
size_t resident_since(size_t before);

#endif
