/* SPDX-License-Identifier: MIT */
/*
 * Canary: the last word of a block, from level 2 of HAKMEM_SECURE on. It says what the block is, and
 * nobody who does not know the secret of the process can write it.
 *
 *   block                block + size             end - 8        end
 *   | what was asked for | pad: a secret byte ... | canary word  |
 *
 *   63..62 kind | 61..47 slack: end - 8 - (block + size) | 46..0 keyed hash of the address and the rest
 *
 * So the usable size is exactly what was asked for, one byte behind it changes the pad, and a free block
 * says that it is free wherever it waits. A block that was never handed out has the word 0. The word
 * is written at once, so that whoever frees a neighbour may look at it at any moment.
 *
 * Only the first PAD_MOST bytes of a pad, less up to 7, are written and looked at.
 */
#ifndef HAK_FRONT_CANARY_H
#define HAK_FRONT_CANARY_H

#include "base/compiler.h"

enum { CANARY_BYTES = 8, PAD_MOST = 64 };

/* Who made a block, and so who may free it. */
enum block_kind { KIND_FREED, KIND_MALLOC, KIND_NEW, KIND_NEW_ARRAY };

extern HAK_HIDDEN uint64_t hak_canary_key;
extern HAK_HIDDEN unsigned char hak_pad_byte;
void canary_init(const uint64_t random[2]);

enum { CANARY_KIND_SHIFT = 62, CANARY_SLACK_SHIFT = 47, CANARY_SLACK_MOST = 0x7fff };

HAK_INLINE uint64_t canary_make(uintptr_t block, uint64_t kind, uint64_t slack) {
	uint64_t said = kind << CANARY_KIND_SHIFT | slack << CANARY_SLACK_SHIFT;
	uint64_t x = ((uint64_t)block ^ hak_canary_key ^ said) * 0x9e3779b97f4a7c15;
	x = (x ^ x >> 32) * (hak_canary_key | 1);
	return said | x >> (64 - CANARY_SLACK_SHIFT);
}

HAK_INLINE uint64_t *canary_word(uintptr_t block, size_t block_size) {
	return (uint64_t *)(block + block_size - CANARY_BYTES);
}

/* Relaxed, here and below: a neighbour's owner looks at the word alone. */
HAK_INLINE uint64_t canary_load(uintptr_t block, size_t block_size) {
	return __atomic_load_n(canary_word(block, block_size), __ATOMIC_RELAXED);
}
HAK_INLINE void canary_store(uintptr_t block, size_t block_size, enum block_kind kind, size_t slack) {
	__atomic_store_n(canary_word(block, block_size), canary_make(block, kind, slack), __ATOMIC_RELAXED);
}

HAK_INLINE enum block_kind canary_kind(uint64_t word) {
	return (enum block_kind)(word >> CANARY_KIND_SHIFT);
}
HAK_INLINE size_t canary_slack(uint64_t word) {
	return (size_t)(word >> CANARY_SLACK_SHIFT) & CANARY_SLACK_MOST;
}
HAK_INLINE bool canary_is_intact(uintptr_t block, uint64_t word) {
	return word == canary_make(block, canary_kind(word), canary_slack(word));
}
HAK_INLINE bool canary_says_freed(uintptr_t block, uint64_t word) {
	return canary_kind(word) == KIND_FREED && canary_is_intact(block, word);
}
/* Of a block that was handed out, or never was. */
HAK_INLINE bool canary_is_possible(uintptr_t block, uint64_t word) {
	return word == 0 || canary_is_intact(block, word);
}

/* The pad behind a block: `length` bytes there are nobody's. */
void pad_fill(uintptr_t at, size_t length);
bool pad_holds(uintptr_t at, size_t length);

/* Is the memory all zero? It becomes so. Of words. */
bool memory_is_zero(uintptr_t at, size_t length);
void memory_clear(uintptr_t at, size_t length);

#endif
