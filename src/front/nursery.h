/* SPDX-License-Identifier: MIT */
/*
 * Nursery: the first few kilobytes a process allocates, blocks of all classes up to 4 KiB side by side.
 *
 * Most processes on a machine are small and short: one page per size class is most of what an
 * allocator would cost them. So the process's first heap serves a class that has no slab yet from
 * here, until NURSERY_BYTES are used up. Of each class the block that was freed last is handed out again, if
 * that was not too often: a class of which one block after another is live needs no page of its own, one that is
 * busy has use for a slab. From then on nothing of this is on any path.
 *
 *   span      one granule, tag TAG_NURSERY: every free of such a block takes the slow path
 *   unit[]    a byte per 16 bytes: 0 inside a block or unused, else the class of the block that
 *             begins there, with NURSERY_FREED_FLAG once it was freed
 *
 * The first heap's thread alone allocates; any thread frees, by one atomic change of the byte.
 */
#ifndef HAK_FRONT_NURSERY_H
#define HAK_FRONT_NURSERY_H

#include <stdatomic.h>

#include "slab/size_class.h"

enum {
	NURSERY_BYTES = 32 * 1024,
	NURSERY_UNIT = 16,
	NURSERY_FREED_FLAG = 0x80,
};
static_assert((int)SC_COUNT <= (int)NURSERY_FREED_FLAG, "class and flag share a byte");

struct nursery {
	uintptr_t base; /* 0: not made yet */
	uint32_t used;  /* bytes; the first heap's thread writes */
	uint8_t taken[SC_COUNT]; /* blocks of each class; likewise */
	uint8_t again[SC_COUNT]; /* how often freed ones were taken again; likewise */
	_Atomic uint16_t freed[SC_COUNT]; /* unit where the one freed last begins: a hint, its flag decides */
	_Atomic uint8_t unit[NURSERY_BYTES / NURSERY_UNIT];
};
extern HAK_HIDDEN struct nursery hak_nursery;

/* A block of class `sc`, all zero, or NULL: used up. The first heap's thread. */
void *nursery_alloc(unsigned sc);

enum nursery_state { NURSERY_LIVE, NURSERY_FREED, NURSERY_INSIDE, NURSERY_UNUSED };

/* What is at `addr`, which lies in the nursery's granule, and the block it belongs to. */
enum nursery_state nursery_find(uintptr_t addr, uintptr_t *blockp, unsigned *scp);

/* Of that block, wherever in it `addr` is: never NURSERY_INSIDE. For reports. */
HAK_INLINE enum nursery_state nursery_find_around(uintptr_t addr, uintptr_t *blockp, unsigned *scp) {
	enum nursery_state state = nursery_find(addr, blockp, scp);
	return state == NURSERY_INSIDE ? nursery_find(*blockp, blockp, scp) : state;
}

/* Frees a live block. False: another thread has freed it meanwhile. */
bool nursery_free(uintptr_t block);

/* Bytes handed out. */
size_t nursery_used(void);

#endif
