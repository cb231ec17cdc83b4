/* SPDX-License-Identifier: MIT */
/*
 * Large blocks: more than SC_MAX_SIZE bytes, or aligned to more than that. One block per span:
 *
 *   up to 512 KiB              granules of a SuperSlab, next to slabs; a piece, kept in a heap's pocket when freed
 *   512 KiB to 2 MiB (L2.5)    a mapping of its own, kept in a pocket or in BigCache when freed; one (of 2 MiB, too) that
 *                              a shorter one is copied to, for it cannot grow where it is, and others while much is
 *                              dirty, granules of a SuperSlab, if so many are dirty side by side
 *   2 MiB and more (L2)        likewise, in BigCache, but for the shortest
 *   aligned to more than 64 KiB, or without SuperSlabs: a mapping of its own, kept in BigCache, or in a pocket if of L2.5
 *
 * At level 3 of HAKMEM_SECURE all of them have mappings of their own, between inaccessible granules, but for those
 * beyond GUARDS_MOST, which are as said above, and those of greater alignment.
 *
 * Every granule of a live block carries TAG_LARGE and points at the descriptor. The descriptor is the
 * block holder's: fields change only in the calls that are given the block. `state` alone is atomic,
 * so that of two threads freeing one block exactly one wins.
 */
#ifndef HAK_FRONT_LARGE_H
#define HAK_FRONT_LARGE_H

#include <stdatomic.h>

#include "base/bits.h"
#include "base/list.h"
#include "os/alone.h"
#include "space/pagemap.h"
#include "space/superslab.h"

struct pocket; /* front/pocket.h */

#define ADDRESS_BITS 47 /* blocks are smaller than 2^47 bytes */
#define LARGE_BIG_MIN ((size_t)512 << 10) /* from here on: mostly a mapping of its own */
#define LARGE_L2_MIN ((size_t)2 << 20)
#define LARGE_COPIED_MOST ((size_t)4 << 20) /* bytes: longer blocks are better moved, or left where they are, than copied */
#define LARGE_BIG_STEP ((size_t)4) /* granules: the spans of such blocks are multiples, if they can be */

enum large_keeper { KEPT_NOT, KEPT_BIGCACHE, KEPT_POCKET };
/* Unused: the descriptor has no memory. Moving: its granules may not lead to it, nor its base be where it is. */
enum large_state { LARGE_UNUSED, LARGE_LIVE, LARGE_FREED, LARGE_MOVING };

struct large {
	struct span span;           /* base, granules */
	size_t usable;              /* bytes of it the program may use: whole pages */
	size_t size;                /* bytes it was asked for, if hardening keeps them apart; else as `usable`; 0: a kept
	                               span at whose beginning no block was */
	size_t guard;               /* inaccessible bytes on either side, beyond `span` */
	uint8_t kind;               /* enum block_kind: who made it */
	bool is_shut;               /* freed and inaccessible (front/quarantine.h), */
	bool is_breached;           /* but not any longer: misuse was let go on */
	bool is_fixed;              /* not to be moved: the system refused to lengthen it, or copying costs less */
	size_t touched;             /* what lies behind its first `touched` bytes reads as zero */
	_Atomic uint32_t state;
	uint32_t unused;            /* bytes of `usable` that were not asked for */
	struct locked_heap *heap;   /* the first-class heap it belongs to, or NULL */
	struct pocket *home;        /* of the heap that made it last, or NULL: then its pocket keeps nothing */
	struct large *next;         /* on its way there, or arrived */
	struct list_node heap_link; /* under that heap's lock */
	struct list_node bin_link;  /* BigCache: under its lock; without a block: under large_lock */
	struct queue_node age_link; /* BigCache: under its lock; refused: under large_lock */
	uint64_t freed_ms;          /* BigCache: under its lock; the heap's whose pocket has it */
	uint32_t generation;        /* BigCache: the cache that has or had it */
	_Atomic uint8_t kept;       /* enum large_keeper; changed under BigCache's lock, or by the heap of the pocket */
	bool untouched;             /* BigCache: likewise: its granules are still tagged as when it was live */
};

/* That hold `size` bytes. */
HAK_INLINE size_t large_granules(size_t size) {
	return (size + GRANULE - 1) >> GRANULE_SHIFT;
}

/* Granules of the span of a big block. Few lengths: spans are then reused whole, seldom cut, and blocks
   begin where others did, on a page that is resident already. It costs address space, and memory where a
   longer block was before. */
HAK_INLINE size_t large_span_granules(size_t size) {
	size_t granules = large_granules(size);
	return size >= LARGE_BIG_MIN ? align_up(granules, LARGE_BIG_STEP) : granules;
}

/* Relaxed: a guess of whoever finds it by an address; those who keep it know. */
HAK_INLINE enum large_keeper large_keeper(const struct large *l) {
	return atomic_load_explicit(&l->kept, memory_order_relaxed);
}
HAK_INLINE void large_set_keeper(struct large *l, enum large_keeper k) {
	atomic_store_explicit(&l->kept, (uint8_t)k, memory_order_relaxed);
}

/* More of it will be used than ever before. */
void large_touch(struct large *l, size_t usable);

/* For `size` bytes. */
HAK_INLINE void large_set_usable(struct large *l, size_t size, size_t usable) {
	l->usable = l->size = usable;
	l->unused = (uint32_t)(usable - size);
	if (HAK_UNLIKELY(usable > l->touched))
		large_touch(l, usable);
}

/* Makes it the program's, */
HAK_INLINE void large_set_live(struct large *l) {
	/* Release: who finds the block by its address sees the descriptor filled in. */
	atomic_store_explicit(&l->state, LARGE_LIVE, memory_order_release);
}
/* for `size` bytes. */
HAK_INLINE void large_start(struct large *l, size_t size, size_t usable) {
	large_set_usable(l, size, usable);
	large_set_live(l);
}

/* Frees it, as far as others may see. False: somebody else did. */
HAK_INLINE bool large_win(struct large *l) {
	/* Acquire-release: of two frees one wins, and it sees what the block's holder wrote. */
	return change_if(&l->state, LARGE_LIVE, LARGE_FREED, memory_order_acq_rel);
}

/* A block of at least `size` bytes at a multiple of `align`. `zerop`: whether it reads as zero. `pocket`: the
   heap's, or NULL. NULL: out of memory. */
struct large *large_alloc(struct pocket *pocket, size_t size, size_t align, bool *zerop);

/* Makes bytes `from` to `to` of the block read as zero, which they may not yet. If they are very many, their pages are
   dropped: clearing them would make every page resident, also those the program never touches. */
void large_clear(struct large *l, size_t from, size_t to);

/* Before it is to hold `size` bytes where it is or has moved to, of `usable`: hardened, what it gains reads as zero. It
   may be anything: a pad, or links and canaries of blocks that were there once. */
void large_clear_gained(struct large *l, size_t size, size_t usable);

/* Gives the memory and the descriptor of a freed block back, now or, if the system refuses, later. */
void large_release(struct large *l);

/* As large_release, of a block without tags; then of a few that were refused before. */
void large_give_up(struct large *l);

/* Asks the system once more to take what it refused. False: it took nothing. */
bool large_retry(void);

/* Frees the block; the heap's pocket, if one is given, may keep it. False: somebody else freed it already. */
bool large_free(struct pocket *pocket, struct large *l);

/* Gives up a block that was freed and kept: by a pocket, for which it is in use until large_leave, or in
   quarantine. */
void large_leave(struct large *l);
void large_dispose(struct large *l);

/* Makes the block hold `size` > SC_MAX_SIZE bytes where it is. False: it cannot be, or, unless it `must`, is better moved
   or copied; it is as it was, but may have more granules then. */
bool large_resize(struct large *l, size_t size, bool must);

/* It could not: what granules it has got beyond those that it needs, if they are many, go back. */
void large_stop_growing(struct large *l);

/* Moves the block, by moving its pages, to where `size` bytes fit. False: not possible that way, or not worth it, as
   large_resize, which comes before, found; or, unless it `must`, a copy is cheaper. */
bool large_move(struct large *l, size_t size, bool must);

/* Descriptors are made LARGE_CHUNK at a time and stay; that of a live block says so in `state`. */
enum { LARGE_CHUNK = 5 };
struct large_chunk {
	struct large_chunk *next; /* constant */
	struct large large[LARGE_CHUNK];
};
static_assert(sizeof(struct large_chunk) <= 1024, "as struct slab_chunk");

/* The newest chunk; the others follow by `next`. */
struct large_chunk *const *large_chunks(void);

/* What hak_space.big and hak_space.large count, by the descriptors. Nothing else may run. */
struct large_sums {
	size_t big, in_superslabs; /* granules */
};
struct large_sums large_sum(void);

/* A descriptor without a block, and back. Thread-safe. */
struct large *large_new_descriptor(void);
void large_put_descriptor(struct large *l);

/* The usable size large_alloc gives a request; 0 if it must fail. */
size_t large_good_size(size_t size);

/* The descriptor if `addr` lies in a live large block, else NULL. */
struct large *large_of(uintptr_t addr);

struct lock *large_lock(void);

/* After fork with that lock held by a thread that is gone: forgets the unused descriptors, and what was refused. */
void large_reset(void);

/* ---- for large.c and large_map.c ---- */

/* A big block with a mapping of its own, between `guard` inaccessible bytes; not started. NULL: out of memory. */
struct large *large_map(size_t usable, size_t granules, size_t align, size_t guard);

/* Makes a big block that is not live longer by new memory in front of it. False: that is not free. */
bool large_map_in_front(struct large *l, size_t more);

/* As large_release for a piece of a SuperSlab that is accessible. */
void large_release_piece(struct large *l);

/* Undoes what the quarantine did. False: the system refuses. */
bool large_make_accessible(const struct large *l);

HAK_INLINE void large_count_big(ptrdiff_t granules) {
	count_shared(&hak_space.big, (size_t)granules);
}

/* Blocks that the system refused to take, by age_link; under large_lock. */
extern HAK_HIDDEN struct queue large_refused;

#endif
