/* SPDX-License-Identifier: MIT */
/* Sets of live blocks; see blocks.h. */
#include "blocks.h"

#include <string.h>

void blocks_init(struct blocks *blocks, size_t live, size_t low, size_t high) {
	size_t expected = live / ((low + high) / 2);
	size_t capacity = expected + expected / 8 + 64; /* many times what chance can add */
	*blocks = (struct blocks){
		.table = scratch(capacity * sizeof(*blocks->table)),
		.capacity = capacity,
	};
}

void blocks_add(struct blocks *blocks, size_t size) {
	if (blocks->count == blocks->capacity)
		workload_fail("more than %zu blocks at once", blocks->capacity);
	void *block = malloc(size);
	if (block == NULL)
		block_fail(NULL, size);
	memset(block, (int)size | 1, size);
	block_mark(block, size);
	blocks->table[blocks->count++] = (struct block){.at = block, .size = size};
	blocks->live += size;
}

void blocks_remove(struct blocks *blocks, size_t index) {
	struct block block = blocks->table[index];
	blocks->table[index] = blocks->table[--blocks->count];
	blocks->live -= block.size;
	block_free(block.at, block.size);
}

void blocks_remove_random(struct blocks *blocks, uint64_t *random) {
	blocks_remove(blocks, random_between(random, 0, blocks->count - 1));
}

void blocks_remove_from(struct blocks *blocks, size_t index) {
	for (size_t i = index; i < blocks->count; i++) {
		blocks->live -= blocks->table[i].size;
		block_free(blocks->table[i].at, blocks->table[i].size);
	}
	if (blocks->count > index)
		blocks->count = index;
}

size_t blocks_fill(struct blocks *blocks, size_t live, size_t low, size_t high, uint64_t *random) {
	size_t before = blocks->count;
	while (blocks->live < live)
		blocks_add(blocks, random_between(random, low, high));
	return blocks->count - before;
}

void blocks_shuffle(struct blocks *blocks, uint64_t *random) {
	for (size_t i = blocks->count; i > 1; i--) {
		size_t other = random_between(random, 0, i - 1);
		struct block block = blocks->table[i - 1];
		blocks->table[i - 1] = blocks->table[other];
		blocks->table[other] = block;
	}
}

size_t resident_since(size_t before) {
	size_t now = resident_bytes();
	return now > before ? now - before : 0;
}
