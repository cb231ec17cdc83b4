/* SPDX-License-Identifier: MIT */
/*
 * Slab: blocks of one size class in one granule. The descriptor lives in metadata memory.
 *
 *   base                                       base + GRANULE
 *   | block 0 | block 1 | ... | carved blocks | never touched ............ | tail (< a block) |
 *
 * Every block is in exactly one place: with the program, in a bin, in an outbox, on the slab's own
 * list, on its remote list, or not carved yet.
 *
 *   used = carved - own list         (so it counts bins, outboxes and the remote list as used)
 *
 * A sparse slab may be opened to other classes: then slab/mosaic.h says what holds.
 *
 * The first word of a block on a list is its *link*: the address of the next free block XOR a per-process key.
 * The last link decodes to what is no address of a block (slab_end), so "no more" is one test. No address
 * has bits at the top, so there every link is the key, and so is the mark that blocks in bins have instead.
 * That is what free looks for to find a block freed twice; the key's top bits are such that common numbers,
 * pointers and text never look so (see key_init), and a word with the bits that all keys share does in one process of
 * 2048. Such a word in place of a link ends the list, too: where lists end they are asked whether that was their end
 * (front/misuse.h).
 *
 * Who may touch what: "owner" fields are the owner's alone: the owner is the thread whose inbox is in
 * `owner`, or, while that is NULL, whoever took the slab out of the shared pool or is disowning it.
 * Who has made it EMPTIED reads them as well, once. `remote`, `owner` and `inbox_next` follow slab/remote.h. `pool_link`
 * is under the pool's lock.
 */
#ifndef HAK_SLAB_SLAB_H
#define HAK_SLAB_SLAB_H

#include <stdatomic.h>

#include "base/list.h"
#include "slab/size_class.h"
#include "space/pagemap.h"
#include "space/superslab.h"

struct inbox;
struct mosaic;

struct slab {
	/* First line: the owner's. */
	uintptr_t base;
	uintptr_t free;        /* own list: link value of its first block */
	uint16_t free_count;   /* blocks on it */
	uint16_t used;         /* carved blocks not on it */
	uint16_t carved;       /* blocks handed out at least once; others look, see slab_has_block */
	uint16_t capacity;     /* blocks in all */
	uint16_t left_remote : 13; /* blocks seen and left on the remote list, see remote_unqueue */
	uint16_t is_cold : 1;  /* other threads freed what is on the own list */
	uint16_t is_end_idle : 1; /* what its blocks leave over is not resident: span.idle, */
	uint16_t is_end_slack : 1; /* or may be: span.slack */
	uint16_t reserved;     /* slab_reserved; constant */
	uint32_t block_size;   /* bytes */
	uint8_t sc;            /* size class */
	bool fresh_is_zero;    /* memory not carved yet reads as zero */
	bool has_canaries : 1; /* its blocks end in canaries (front/canary.h); constant */
	bool has_guard : 1;    /* its first page is inaccessible; constant */
	bool was_lately : 1;   /* its memory, or some near it, was given back a moment before; constant */
	uint8_t touched : 5;   /* touched_note of those who had the granule before; constant */
	bool in_use;           /* false: the descriptor is on the free list (under the slab lock) */
	uint32_t number;       /* of the descriptor, from 0; constant */
	struct superslab *ss;  /* where the granule came from; NULL: mapped alone */
	struct list_node ready; /* in the owner's ready list */

	/* Second line: other threads'. */
	_Atomic uint64_t remote HAK_CACHE_ALIGNED; /* see slab/remote.h */
	_Atomic(struct inbox *) owner;             /* NULL: nobody */
	struct slab *inbox_next;                   /* whoever holds the slab in a queue, or on a list to be deleted */
	struct list_node all;                      /* owner: in the owner's list of all its slabs */
	struct list_node pool_link;                /* under the pool's lock */
	_Atomic(struct mosaic *) mosaic;           /* NULL: all blocks are of class `sc` */
};
static_assert(GRANULE >> SC_QUANTUM_SHIFT < 1 << 13, "left_remote counts all blocks of a slab");
static_assert(sizeof(struct slab) == 128, "two cache lines: the owner's and the others'");

/* The per-process secrets. */
struct secrets {
	uintptr_t key; /* of links */
	/* What a block in a bin begins with (front/tcache.h). It ends as links do, and is none; no number that is known,
	   because whoever reads a freed block must not learn the key. Its lowest bits are its topmost ones once more: free,
	   which compares with these and writes all of it, loads it but once. */
	uintptr_t mark;
} HAK_BETWEEN_BLOCKS;
extern HAK_HIDDEN struct secrets hak_secret;
void key_init(const uint64_t random[2]);

/* A decoded link is a block, or an end. */
HAK_INLINE uintptr_t link_encode(uintptr_t addr) {
	return addr ^ hak_secret.key;
}
HAK_INLINE uintptr_t link_decode(uintptr_t link) {
	return link ^ hak_secret.key;
}

/* Does it have bits that no block's address has, which is a multiple of 16, and a user's? */
#if defined(__x86_64__)
#define LINK_OTHER_BITS 0xffff80000000000f
#else
#define LINK_OTHER_BITS 0xffff00000000000f /* 64-bit Arm places mappings right below 2^48 */
#endif
HAK_INLINE bool link_is_end(uintptr_t decoded) {
	return (decoded & LINK_OTHER_BITS) != 0;
}

/* In the low bits of what an end decodes to; it differs in two from a block. The others are a granule's. */
enum { LINK_END = 3 };

/* The link that ends lists of this slab's blocks. */
HAK_INLINE uintptr_t slab_end(const struct slab *s) {
	return link_encode(s->base | LINK_END);
}

/* Is what a list came to an end that we wrote? What a program writes decodes to one with odds of 2^-32. */
HAK_INLINE bool link_is_our_end(uintptr_t decoded) {
	return decoded % GRANULE == LINK_END && decoded >> 48 == 0;
}

HAK_INLINE uintptr_t block_link(uintptr_t block) {
	return *(uintptr_t *)block;
}

/* The topmost bits of a word in memory. A program that has just written the first bytes of a block, an int or
   a string, would make a processor that reads the whole word wait until that is in its cache. */
HAK_INLINE uint16_t top_of_word(uintptr_t word) {
	enum { TOP = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? sizeof(uintptr_t) - sizeof(uint16_t) : 0 };
	typedef uint16_t __attribute__((may_alias)) top;
	return *(const top *)(word + TOP);
}

/* Suspicious: may be free, since its first word ends as links and marks do. */
HAK_INLINE bool block_looks_free(uintptr_t block) {
	return top_of_word(block) == (uint16_t)hak_secret.mark;
}

HAK_INLINE void block_set_link(uintptr_t block, uintptr_t link) {
	*(uintptr_t *)block = link;
}

/* A new slab of class `sc` with no owner, nothing carved, not tagged yet, and up to `most` - 1 more, SPAN_BATCH in all,
   where these cost no memory. How many there are; 0: out of memory. `is_first`: its owner has none of this class, and may
   never fill it, as most of a thousand threads do not. Thread-safe. */
unsigned slab_new_several(unsigned sc, bool is_first, struct slab **slab, unsigned most);
HAK_INLINE struct slab *slab_new(unsigned sc, bool is_first) {
	struct slab *s;
	return slab_new_several(sc, is_first, &s, 1) != 0 ? s : NULL;
}

/* Do all pages of a slab of class `sc` serve? Others are not taken several at once, nor made of another's. */
bool slab_is_whole(unsigned sc);

/* How much of its granule was touched, by this slab or one before, in TOUCHED_UNITs. Owner. */
unsigned slab_touched_units(const struct slab *s);

/* An empty slab, in no list and no queue, becomes one of class `sc`, which is not tagged yet. Its owner; secure is 0, and
   both classes are whole. */
void slab_convert(struct slab *s, unsigned sc);

/* Makes all pages that the blocks of a fresh slab, which is not tagged yet, are going to lie on resident, by one call rather
   than by a fault each: for an owner that is known to fill it. Not in a small heap, whose sandbox may forbid
   it, nor where memory is to be given back at once or never. */
void slab_populate(struct slab *s);

/* What its blocks leave over will be used, too. Owner. */
void slab_use_end(struct slab *s);

/* Gives the slab's memory and descriptor back. The caller is its owner; used == 0, it is in no list
   and no queue. */
void slab_delete(struct slab *s);

/* The same for all of a list, linked by `inbox_next`; NULL: none. */
void slab_delete_all(struct slab *list);

/* In a fork child, of a slab that was being made or deleted by a thread that is gone, and that the page map does not
   know: frees the descriptor. Granule and mosaic are lost. Or, anywhere, of one that is EMPTIED. */
void slab_forget(struct slab *s);

/* Frees the granule of a slab that is neither hardened nor a mosaic; the descriptor stays. */
void slab_free_granule(const struct slab *s);

/* Says in the page map whose slab it is: `owner_tag` is a heap's tag, 0 for nobody. */
void slab_set_tag(struct slab *s, uint32_t owner_tag);

static_assert((int)SC_CODE_END <= (int)TAG_MOSAIC, "other codes lie above those of classes");

/* Is this the tag of a slab, of whomever? Plain: of one that is no mosaic. */
HAK_INLINE bool tag_is_plain_slab(uint32_t tag) {
	return tag != TAG_NONE && (tag & TAG_CODE_MASK) < SC_CODE_END;
}
HAK_INLINE bool tag_is_slab(uint32_t tag) {
	return tag != TAG_NONE && (tag & TAG_CODE_MASK) <= TAG_MOSAIC; /* all others lie above */
}

/* The class of a plain slab's blocks. */
HAK_INLINE unsigned tag_class(uint32_t tag) {
	return (tag & TAG_CODE_MASK) >> SC_CODE_SHIFT;
}

HAK_INLINE struct mosaic *slab_mosaic(const struct slab *s) {
	/* Acquire: what begins where. */
	return atomic_load_explicit(&s->mosaic, memory_order_acquire);
}

/* The class of the block at `offset` in the slab; 0: none begins there. (The mosaic is passed, not read
   again: those who look at slabs of others may see one deleted at any moment.) */
unsigned mosaic_class_at(const struct mosaic *m, uintptr_t offset);

/* The class of the block at `addr`; 0: no block of a mosaic begins there. */
HAK_INLINE unsigned slab_class_at(const struct slab *s, uintptr_t addr) {
	const struct mosaic *m = slab_mosaic(s);
	return HAK_LIKELY(m == NULL) ? s->sc : mosaic_class_at(m, addr - s->base);
}

/* Blocks at the slab's beginning that are never handed out. The last of them keeps a word before the first
   block that is (front/canary.h); with a guard, they cover its inaccessible first page. */
HAK_INLINE unsigned slab_reserved(const struct slab *s) {
	return s->reserved;
}

/* Do the numbers of a slab that is no mosaic add up? */
HAK_INLINE bool slab_adds_up(const struct slab *s) {
	return s->carved <= s->capacity && s->used + s->free_count + slab_reserved(s) == s->carved;
}

/* slab_has_block for a slab that is no mosaic. */
HAK_INLINE bool slab_has_own_block(const struct slab *s, uintptr_t addr) {
	uintptr_t off = addr - s->base;
	uint32_t index = sc_index(s->sc, off);
	/* Relaxed: who has a block has it from somebody who saw it carved. */
	return index >= s->reserved && index < __atomic_load_n(&s->carved, __ATOMIC_RELAXED) &&
		(uintptr_t)index * s->block_size == off;
}

/* Is `addr` the address of a carved block of the slab? Any thread may ask about a block it was given. */
HAK_INLINE bool slab_has_block(const struct slab *s, uintptr_t addr) {
	const struct mosaic *m = slab_mosaic(s);
	if (HAK_UNLIKELY(m != NULL))
		return mosaic_class_at(m, addr - s->base) != 0;
	return slab_has_own_block(s, addr);
}

/* The carved blocks of a slab that is no mosaic, for its owner's loops over many of them. */
struct slab_blocks {
	uintptr_t first;
	uint32_t bytes;
	uint32_t magic;
};
HAK_INLINE struct slab_blocks slab_blocks(const struct slab *s) {
	return (struct slab_blocks){ s->base + (size_t)s->reserved * s->block_size,
	                             (uint32_t)(s->carved - s->reserved) * s->block_size, hak_size_classes[s->sc].magic };
}
/* slab_has_own_block: by the divisibility of the offset, as free does it (front/tcache.h). */
HAK_INLINE bool slab_blocks_have(const struct slab_blocks *b, uintptr_t addr) {
	return addr - b->first < b->bytes && sc_divides(b->magic, addr);
}

/* Is `addr` in the slab's memory? */
HAK_INLINE bool slab_spans(const struct slab *s, uintptr_t addr) {
	return addr - s->base < GRANULE;
}

/* For a walk along a list of a good part of the slab's blocks, which would miss the cache at each step: loads that do not
   wait for each other bring the blocks near first. Owner. */
void slab_touch_blocks(const struct slab *s);

/* Puts `count` blocks, linked from `first` to `last`, on the own list. Owner. */
HAK_INLINE void slab_push(struct slab *s, uintptr_t first, uintptr_t last, unsigned count) {
	block_set_link(last, s->free);
	s->free = link_encode(first);
	s->free_count += (uint16_t)count;
	s->used -= (uint16_t)count;
	s->is_cold = false;
}

HAK_INLINE bool slab_has_uncarved(const struct slab *s) {
	return s->carved < s->capacity;
}

/* Descriptors are made CHUNK_SLABS at a time, with the header a piece of metadata that lies in one page, and stay. */
enum { CHUNK_SLABS = 7 };
struct slab_chunk {
	struct slab_chunk *next; /* constant */
	uint64_t pad[7];
	struct slab slab[CHUNK_SLABS];
};
static_assert(sizeof(struct slab_chunk) <= 1024, "a quarter of the smallest page: see meta_alloc");

/* The newest chunk; the others follow by `next`. */
struct slab_chunk *const *slab_chunks(void);

/* Calls `visit` for every descriptor in use. Only while no other thread runs (after fork). */
void slab_for_each(void (*visit)(struct slab *s, void *arg), void *arg);

struct lock *slab_lock(void);

/* After fork with that lock held by a thread that is gone: makes the list of free descriptors again, and all numbers. */
void slab_rebuild(void);

#endif
