/* SPDX-License-Identifier: MIT */
/*
 * Spares: empty slabs that a heap keeps for any of its classes while threads contend for the space lock. They stay what
 * they are, slabs of their class, ready and in its lists; here it is only noted which they are. So they serve their class
 * like others, and no lock is taken until there are too many, or none. Then several are deleted or made at once.
 * A heap whose thread ends keeps them, too, for the next thread that takes it up.
 *
 * What of them is resident counts as free memory (hak_space.spare), of which there may be only so much (space/purge.h); a
 * part of that is all heaps' spares together. They go with the other empty slabs that a heap keeps, a purge delay after
 * the first was seen; those of a heap without a thread when another thread comes by after as long.
 *
 * Touched by the heap's thread; locked heaps have none.
 */
#ifndef HAK_FRONT_SPARES_H
#define HAK_FRONT_SPARES_H

#include "space/superslab.h"

struct heap;
struct slab;

enum { SPARES_MOST = 32 };

/* All zero: none. */
struct spares {
	unsigned count;
	unsigned units;                 /* TOUCHED_UNITs that they have touched, about; */
	unsigned counted;               /* about as many are in hak_space.spare */
	unsigned most;                  /* as many as there may be, when this was last asked; 0: never */
	struct slab *slab[SPARES_MOST]; /* the oldest first, */
	uint8_t weight[SPARES_MOST];    /* and what it has of `units` */
};

/* Do these calls of the others concern a heap at all? Inline: the rest is not what every process runs. */
HAK_INLINE bool spares_are_wanted(void) {
	return HAK_UNLIKELY(space_is_contended());
}
HAK_INLINE bool spares_are_there(const struct spares *sp) {
	return HAK_UNLIKELY(sp->count != 0);
}

/* An empty slab of the heap's, ready, which would be deleted. False: it is to be. */
bool spares_keep(struct heap *h, struct slab *s);

/* The slab is about to be used, or to leave the heap: it is no spare any longer if it was one. */
void spares_forget(struct spares *sp, const struct slab *s);

/* Makes one a slab of class `sc`, which is in none of the heap's lists, and not tagged. NULL: it cannot be one. */
struct slab *spares_take(struct heap *h, unsigned sc);

/* How many slabs of class `sc` are to be made at once. */
unsigned spares_to_make(struct heap *h, unsigned sc);

/* Empty slabs of the heap's, made beside one that was needed. */
void spares_add(struct heap *h, struct slab **slab, unsigned n);

/* The heap's thread ends, and all blocks are home that can be: deletes empty slabs but for those that the next may keep. */
void spares_leave(struct heap *h);

#endif
