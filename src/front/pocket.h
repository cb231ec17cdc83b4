/* SPDX-License-Identifier: MIT */
/*
 * Pocket: freed pieces of SuperSlabs (large blocks of less than 512 KiB) that a heap keeps as they are for its
 * next requests. Taking one costs neither a lock nor a tag; taking granules and giving them back costs both.
 *
 * What is kept so serves large blocks of this heap alone, while free granules serve all: little is kept, a part
 * of what lives, shared by the threads. It goes back with age, as far as the thread comes by, and when the heap
 * needs granules that are not resident: those kept are. Of two pieces of one length the older goes first; of two
 * lengths the one of which most is kept.
 *
 * Touched by the heap's thread; that of a locked heap stays empty, since threads free its blocks. The granules'
 * tags stay TAG_LARGE, and lead to the descriptor, which says that the block is freed.
 */
#ifndef HAK_FRONT_POCKET_H
#define HAK_FRONT_POCKET_H

#include "front/large.h"
#include "space/pagemap.h"

enum {
	POCKET_LENGTHS = LARGE_BIG_MIN / GRANULE, /* a piece has as many granules at most */
	POCKET_DEPTH = 8,                         /* pieces of one length */
};

/* All zero: empty. */
struct pocket {
	uint64_t counts;   /* a byte for each length: how many pieces */
	uint32_t granules; /* of all of them, */
	uint32_t most;     /* and as many as there may be, when this was last asked */
	struct large *piece[POCKET_LENGTHS][POCKET_DEPTH]; /* [n - 1]: of n granules, oldest first */
};
static_assert(POCKET_LENGTHS == sizeof(uint64_t), "a byte each");

HAK_INLINE bool pocket_is_empty(const struct pocket *p) {
	return p->counts == 0;
}

HAK_INLINE unsigned pocket_count(const struct pocket *p, size_t length) {
	return (uint8_t)(p->counts >> 8 * (length - 1));
}

/* The newest piece of a length that there is: it is in the processor's caches. */
HAK_INLINE struct large *pocket_pop(struct pocket *p, size_t length) {
	p->counts -= (uint64_t)1 << 8 * (length - 1);
	struct large *l = p->piece[length - 1][pocket_count(p, length)];
	p->granules -= (uint32_t)length;
	l->kept = false;
	return l;
}

/* A piece of `granules`, up to POCKET_LENGTHS, or half as many more, or NULL. */
HAK_INLINE struct large *pocket_take(struct pocket *p, size_t granules) {
	uint64_t fits = p->counts >> 8 * (granules - 1);
	if (fits == 0)
		return NULL;
	unsigned more = (unsigned)__builtin_ctzll(fits) / 8;
	return more <= granules / 2 ? pocket_pop(p, granules + more) : NULL;
}

HAK_INLINE bool pocket_has_room(const struct pocket *p, size_t length) {
	return length <= POCKET_LENGTHS && p->granules + length <= p->most && pocket_count(p, length) < POCKET_DEPTH;
}

/* A freed piece for which there is room. */
HAK_INLINE void pocket_push(struct pocket *p, struct large *l) {
	size_t length = l->span.granules;
	p->piece[length - 1][pocket_count(p, length)] = l;
	p->counts += (uint64_t)1 << 8 * (length - 1);
	p->granules += (uint32_t)length;
	if (l->freed_ms != 0)
		l->freed_ms = 0; /* pocket_tick sets it: the clock costs more than all this */
	l->kept = true;
}

/* Keeps a freed piece, or gives it back, or others instead. */
void pocket_put(struct pocket *p, struct large *l);

/* Gives something back if few granules are resident. Not empty. */
void pocket_give_way(struct pocket *p, size_t granules);

/* `granules` are about to be taken from SuperSlabs. Inline: the rest is not what every process runs. */
HAK_INLINE void pocket_yield(struct pocket *p, size_t granules) {
	if (HAK_UNLIKELY(!pocket_is_empty(p)))
		pocket_give_way(p, granules);
}

/* Gives back what is older than the purge delay. From time to time. */
void pocket_tick(struct pocket *p);

/* Gives back everything. */
void pocket_release(struct pocket *p);

/* NULL, or what is wrong with its books. */
const char *pocket_check(const struct pocket *p);

#endif
