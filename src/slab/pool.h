/* SPDX-License-Identifier: MIT */
/*
 * The shared pool: slabs without an owner that have blocks to give, by class; mosaics under class 0, which
 * no slab has. Dead threads publish them, living ones adopt them. One lock per class. A slab is in the
 * pool's list iff PUBLISHED is set in its remote word (slab/remote.h); both change in one critical
 * section.
 *
 * A slab whose last block comes home while it is in the pool is deleted by the thread that brought
 * the block: nobody else would look at it.
 */
#ifndef HAK_SLAB_POOL_H
#define HAK_SLAB_POOL_H

#include "os/lock.h"
#include "slab/remote.h"

/* Puts a slab without owner, whose router we are, into the pool; or deletes it, if every block is
   home; or lets it go, if it has nothing to give: then the next poster routes it. */
void pool_publish(struct slab *s);

/* Takes a slab of class `from` for the heap with this inbox and tag; NULL: there is none. Its remote
   list is collected if its own list is empty. For another class `sc` than its own, one that is worth opening
   (mosaic_pays). From class 0, a mosaic with room for blocks of class `sc`, as far as that is known: its remote list is
   left, and QUEUED with it, for remote_take. */
struct slab *pool_adopt(unsigned from, unsigned sc, struct inbox *owner, uint32_t owner_tag);

/* Deletes a slab in the pool whose last block the caller has just brought home. */
void pool_reap(struct slab *s);

/* In a fork child: a slab that is PUBLISHED but not in the list. Puts it back, or deletes it if its last
   block has come home. */
void pool_repair(struct slab *s);

/* Per class: the lock taken, taken only after waiting, slabs that came and went. Under the lock; nothing is
   counted without the option `stats`. */
struct pool_counters {
	uint64_t locks, waits, published, adopted;
};
struct pool {
	struct lock lock;
	unsigned count;   /* slabs in `slabs`; read without the lock as a hint */
	struct list slabs;
	struct pool_counters counters;
} HAK_CACHE_ALIGNED;
extern HAK_HIDDEN struct pool hak_pools[SC_COUNT];

/* Number of slabs of class `sc` in the pool; approximate. */
unsigned pool_count(unsigned sc);

/* A bit per class whose pool has POOL_FULL slabs and more, 2 MiB; approximate. */
enum { POOL_FULL = 32 };
uint64_t pool_full(void);

struct lock *pool_lock(unsigned sc);

/* After fork with the lock held by a thread that is gone: empties the pool. Its slabs stay QUEUED and
   in no queue, which heap_repair_after_fork looks for. */
void pool_reset(unsigned sc);

#endif
