/* SPDX-License-Identifier: MIT */
/*
 * Mosaic: a sparse slab whose holes serve other size classes.
 *
 * When the sizes a program uses drift, or it keeps one object in ten, every slab of the old class has a
 * few survivors and none can be given back. Its owner may then open it: from there on blocks of any
 * small class lie in the granule side by side, wherever they fit.
 *
 *   granule   | A |hole| A | A | B     |  B  |hole  | A | C  |
 *   begins[]    A  a     A   A   B  0 0  B  0  0      A   C  0   the class, where a block begins, marked if the
 *                                                                block is freed: in a hole, or on its way
 *                                                                there from another thread (a byte per cell
 *                                                                of 32 bytes)
 *   used        1  0     1   1   1  1 1  1  1  0      1   1  1   a bit per 16-byte unit
 *
 * For a slab with a mosaic:
 *   used          blocks not returned to a hole (so bins, outboxes and the remote list count as used)
 *   free_count    units in holes
 *   free          nothing; block_size and sc are still those of its first class
 * Its tag code is TAG_MOSAIC, so every free of its blocks is out of line. Remote frees, queues, pool
 * and adoption know no difference: a remote list may hold blocks of several classes.
 *
 * Blocks are aligned as in a slab of their class: to the largest power of two that divides the size.
 *
 * The owner alone writes, but for the mark of a block that another thread frees, which is that
 * thread's until the block is posted; `begins` is read by whoever has a block, who has it from
 * somebody that saw it made. The slab's `mosaic` is set once, before the tag, and stays until the
 * slab is deleted.
 */
#ifndef HAK_SLAB_MOSAIC_H
#define HAK_SLAB_MOSAIC_H

#include "slab/slab.h"

enum {
	MOSAIC_UNIT_SHIFT = 4,
	MOSAIC_UNITS = GRANULE >> MOSAIC_UNIT_SHIFT,
	MOSAIC_WORDS = MOSAIC_UNITS / 64,
	MOSAIC_CELL_UNITS = 2,
	MOSAIC_MIN_SIZE = 32,   /* so that not more than one block begins in a cell */
	MOSAIC_MAX_SIZE = 2048, /* larger blocks do not go into holes of sparse slabs */
	MOSAIC_FREED = 0x80,    /* in begins[] */
};

/* Units that a block of class `sc` takes. */
HAK_INLINE unsigned mosaic_units(unsigned sc) {
	return hak_size_classes[sc].size >> MOSAIC_UNIT_SHIFT;
}

struct mosaic {
	uint64_t used[MOSAIC_WORDS];
	uint16_t longest[MOSAIC_WORDS]; /* no hole that begins in this word of `used` has more units */
	uint64_t misfits;        /* a bit per class for whose blocks no hole is long enough and aligned */
	uint16_t largest;        /* no hole has more units */
	uint8_t next;            /* word of `used` in which the search for holes goes on */
	uint8_t list;            /* of the owner's heap that it is in, by `largest`, + 1; 0: in none */
	bool sealed;             /* mosaic_seal: what were holes then counts as used */
	struct list_node unused; /* no slab's: under the lock */
	uint8_t begins[MOSAIC_UNITS / MOSAIC_CELL_UNITS]; /* class << 1 | unit in the cell, and MOSAIC_FREED;
	                                                     0: none begins */
};

/* Might a block of class `sc` fit in a hole? Owner. */
HAK_INLINE bool mosaic_may_fit(const struct mosaic *m, unsigned sc) {
	return m->largest >= mosaic_units(sc) && (m->misfits >> sc & 1) == 0;
}
static_assert(SC_COUNT <= 64, "a bit per class");

/* Does it? Looks at all of it, unless it is known, and notes it if not. Owner. */
bool mosaic_fits(struct mosaic *m, unsigned sc);

/* mosaic_class_at, inline, of an offset less than GRANULE. */
HAK_INLINE unsigned mosaic_class_in(const struct mosaic *m, uintptr_t offset) {
	unsigned unit = (unsigned)(offset >> MOSAIC_UNIT_SHIFT);
	/* Relaxed: who has the block saw it made; for others it is a guess. */
	unsigned begin = __atomic_load_n(&m->begins[unit / MOSAIC_CELL_UNITS], __ATOMIC_RELAXED);
	bool is_there = offset % (1u << MOSAIC_UNIT_SHIFT) == 0 && begin % MOSAIC_CELL_UNITS == unit % MOSAIC_CELL_UNITS;
	return is_there && begin < MOSAIC_FREED ? begin / MOSAIC_CELL_UNITS : 0;
}

/* Is the unit at `offset`, less than GRANULE, in no hole? Owner. */
HAK_INLINE bool mosaic_uses(const struct mosaic *m, uintptr_t offset) {
	unsigned unit = (unsigned)(offset >> MOSAIC_UNIT_SHIFT);
	return (m->used[unit / 64] >> unit % 64 & 1) != 0;
}

/* Is a slab with so many blocks out worth opening for class `sc`, as far as can be told without a look into it? */
bool mosaic_pays(const struct slab *s, unsigned used, unsigned sc);

/* Opens a slab that has free blocks, for class `sc`. What lies on its lists becomes holes, and so does what was never
   carved. False: out of memory, or no block of the class would fit, or the slab is in a queue or in others' hands; what
   was on its remote list may be on its own then. Owner; the caller changes the tag (slab_set_tag) and the lists. */
bool mosaic_open(struct slab *s, unsigned sc);

/* Cuts at most `max` blocks of class `sc` out of holes and puts them, marked, into an array from behind: the first is
   `array_end[-1]`. Number of blocks. Owner. */
unsigned mosaic_take(struct slab *s, unsigned sc, unsigned max, void **array_end);

/* Returns `n` blocks of one class, side by side from `block` on, to a hole. Owner. */
void mosaic_put(struct slab *s, uintptr_t block, unsigned n);

/* Offset of the block that `offset` in the slab lies in; GRANULE: none. Any thread; a guess where others'
   blocks come and go. */
uintptr_t mosaic_block_at(const struct mosaic *m, uintptr_t offset);

/* Marks a block as freed, which is about to be posted. Whoever frees it. */
void mosaic_mark_freed(struct slab *s, uintptr_t block);

/* The class of the freed block at `offset` in the slab, as long as nothing else lies there; 0: there is none.
   Any thread; a guess, likewise. */
unsigned mosaic_freed_at(const struct mosaic *m, uintptr_t offset);

/* The class of the block at `offset` that is not in a hole, freed or not; 0: there is none. For checks. */
unsigned mosaic_held_at(const struct mosaic *m, uintptr_t offset);

/* In a fork child, for a slab whose owner is gone: takes all holes for used, counts the blocks. */
void mosaic_seal(struct slab *s);

/* The slab is deleted: puts the mosaic up for reuse. */
void mosaic_close(struct slab *s);

struct lock *mosaic_lock(void);

/* After fork with that lock held by a thread that is gone: forgets the unused ones. */
void mosaic_reset(void);

#endif
