/* SPDX-License-Identifier: MIT */
/*
 * Guarded sampling: one small block in HAKMEM_GUARD_RATE lies alone on pages between inaccessible ones, so
 * that what reads or writes beyond it, or after it was freed, faults on the spot and is told with the
 * stacks of its allocation and its free (front/fault.h). After GWP-ASan.
 *
 * A slot is a granule: page 0 is always inaccessible, then come the pages of the block, accessible while it
 * lives, and the rest is never. At random the block lies against the front or the back of its pages; what
 * is left of them is pad, looked at when it is freed. Of the free slots the one freed longest ago is
 * used next. There are at most GUARD_SLOTS; while all are in use nothing is sampled.
 *
 * Which allocation is sampled is decided on slow paths: a refill counts for the blocks it puts in the
 * bin. What comes and goes without ever emptying its bin is not counted.
 *
 * All under one lock. A slot's descriptor is never given back; `ptr`, `size` and the records belong to the
 * last block it held.
 */
#ifndef HAK_FRONT_GUARD_H
#define HAK_FRONT_GUARD_H

#include "base/settings.h"
#include "front/heap.h"
#include "os/trace.h"

enum { GUARD_SLOTS = 256 };

/* What happened to a block when, and by whom. */
struct guard_event {
	int thread;
	uint64_t ms;
	struct trace stack;
};

struct guarded {
	uintptr_t base;  /* of the granule; constant */
	uintptr_t ptr;
	size_t size;
	size_t bytes;    /* of its pages */
	uint8_t kind;    /* enum block_kind; KIND_FREED: the slot is free */
	bool is_breached; /* a page was made accessible to let misuse go on: not used again */
	struct queue_node link; /* in the queue of free slots */
	struct guarded *next;   /* of all slots; constant */
	struct guard_event made, freed;
};

/* Is such a block small enough? Others are not counted: they would use up the turns. */
bool guard_fits(size_t size, size_t align);

/* Is the next small block to be a sampled one? */
HAK_INLINE bool guard_is_due(const struct heap *h) {
	return HAK_UNLIKELY(hak_settings.guard_rate != 0) && h->until_guard <= 0 && !h->locked;
}

/* `blocks` more were handed out, or soon will be. */
HAK_INLINE void guard_count(struct heap *h, int64_t blocks) {
	if (HAK_UNLIKELY(hak_settings.guard_rate != 0))
		h->until_guard -= blocks;
}

/* A block of at least `size` bytes, all zero; NULL: none to be had. Sets when the next one is due. */
void *guard_alloc(struct heap *h, size_t size, size_t align);

/* The program frees `addr`, which lies in the slot, or misuses it. */
enum block_kind;
void guard_free(struct guarded *g, uintptr_t addr, unsigned kind);

void guard_set_kind(struct guarded *g, unsigned kind);

/* Was nothing written beyond the ends of the live block? False: something, which was reported. */
bool guard_check(const struct guarded *g);

/* The live block has `size` bytes from now on where it is, which are no more than before. `wasteful` as in block_resize. */
bool guard_shrink(struct guarded *g, size_t size, bool wasteful);

/* All slots, in no order; linked by `next`. */
const struct guarded *guard_slots(void);

struct lock *guard_lock(void);
/* After fork with that lock held by a thread that is gone: forgets the free slots. */
void guard_reset(void);

#endif
