/* SPDX-License-Identifier: MIT */
/*
 * What allocating, freeing and resizing mean: the slow paths behind tcache_alloc and tcache_free,
 * and everything that has no fast path. The malloc family and the hak_* API are names for these.
 *
 * `h` is a heap the caller may touch: its thread's, or a locked heap whose lock it holds. Functions
 * that take a block of the program report misuse and end the program; where they answer "not ours"
 * the pointer has nothing to do with HAKMEM.
 */
#ifndef HAK_FRONT_ALLOC_H
#define HAK_FRONT_ALLOC_H

#include "front/heap.h"
#include "front/large.h"
#include "front/misuse.h"

#define ALLOC_ALIGN 16 /* what every block has */

/* A block of at least `size` bytes at a multiple of `align`, a power of two, or of ALLOC_ALIGN if that is more; all
   usable bytes zero if `zero`. NULL: out of memory, though all that caches hold was given back for it, or more than any
   address space has, which leaves them alone. */
void *alloc_block(struct heap *h, size_t size, size_t align, bool zero);

/* The short way of a small block whose bin is empty, while nobody wants to see what is made, nor to harden it. The
   thread's heap, which is not locked; NULL: nothing has been done, or there is no memory. */
void *alloc_short(struct heap *h, size_t size, const void *caller);

/* The class that serves a request, or 0: it is a large one. */
unsigned alloc_class(size_t size, size_t align);

/* Frees a block that tcache_free refused, not NULL. `h` may be NULL: the thread has no heap. `kind`, an
   enum block_kind: what made the blocks that the caller's like may free. False: not ours. */
bool free_block_as(struct heap *h, void *ptr, unsigned kind);
bool free_block(struct heap *h, void *ptr);

/* Likewise, the short ways of another owner's block, of one in a mosaic and of one whose bin is full, while nobody
   wants to see what is freed. `h`: the thread's; `e`: of its granule. False: nothing has been done. */
bool free_short(struct heap *h, struct pagemap_entry e, void *ptr, const void *caller);
/* Of a thread that has no heap, not yet or no more: what it frees is of others. */
bool free_without_heap(struct pagemap_entry e, void *ptr);

/* Brings a small block of slab `s`, which the program has freed, to a bin or its owner. */
void block_put(struct heap *h, struct slab *s, uintptr_t block);

/* Is the slab a locked heap's? Such a heap never gives a slab up, so the answer stays true. */
bool block_is_locked_heaps(struct slab *s);

/* The usable size of a block, not NULL. `op` is the word for reports. BLOCK_MISUSED: it is none, which was
   reported; the size is 0. BLOCK_DAMAGED: it was written to beyond its ends, likewise. */
enum block_found { BLOCK_FOREIGN, BLOCK_OURS, BLOCK_MISUSED, BLOCK_DAMAGED };
enum block_found block_usable_size(enum misuse_op op, const void *ptr, size_t *sizep);

/* Likewise, if it is a small block, whoever's, in which nothing is to be checked; else 0. */
size_t small_usable_size(const void *ptr);

/* Does a block of `old` bytes hold `size`, and would a smaller one not do much better? */
HAK_INLINE bool size_fits_well(size_t old, size_t size) {
	return size <= old && (size > old / 2 || old <= 4 * ALLOC_ALIGN);
}

/* Makes the block hold `size` bytes without moving it. `wasteful`: also where a smaller block would
   do much better. */
bool block_resize(void *ptr, size_t size, bool wasteful);

/* Moves a large block to where it holds `size` bytes without copying it. NULL: not possible, or, unless it `must`, not
   worth it. */
void *block_move(void *ptr, size_t size, bool must);

/* Makes bytes `from` to `to` of a block zero. */
void block_clear(void *ptr, size_t from, size_t to);

/* The usable size alloc_block gives a request, or 0 if it must fail. */
size_t good_size(size_t size);

/* Gives back what no block and no heap holds, for who had no memory and asks once more. */
void release_unused(void);

/* The system has no more: gives back what nobody needs, and what this heap, in use by its thread, has cached, so that one
   may ask once more. False: it has not, since that would not help; so much is far more than there is. */
bool release_for(struct heap *h, size_t size, size_t align);

/* Gives back what can be: caches of this heap, BigCache, dirty memory beyond `keep` bytes. */
bool release_memory(struct heap *h, size_t keep);

#endif
