/* SPDX-License-Identifier: MIT */
/*
 * Misuse: telling a wrong pointer from a right one on the slow paths, and what is said of it. Nothing here
 * changes the heap.
 *
 * HAKMEM_ON_ERROR decides what follows: with `abort` no report returns; else all of them return false, and
 * whoever asked leaves the block alone.
 */
#ifndef HAK_FRONT_MISUSE_H
#define HAK_FRONT_MISUSE_H

#include "front/tcache.h"

struct guarded;

/* What the program asked for; the word the report uses. The last: nothing, it read or wrote. */
enum misuse_op { OP_FREE, OP_REALLOC, OP_USABLE_SIZE, OP_ACCESS };

/* Where it wrote, or tried to read or write. */
enum misuse_where { MISUSE_BEHIND, MISUSE_BEFORE, MISUSE_AFTER_FREE, MISUSE_BETWEEN };

/* In the child of a fork: who was reporting may be gone; `threads_are_gone`: who held any lock may be. */
void misuse_after_fork(bool threads_are_gone);

/* misuse_check_block when something does not look right. */
HAK_COLD bool misuse_suspect(enum misuse_op op, const struct slab *s, uintptr_t addr);

/* Is `addr`, which lies in a granule of `s`, a block that is with the program? */
HAK_INLINE bool misuse_check_block(enum misuse_op op, const struct slab *s, uintptr_t addr) {
	if (HAK_UNLIKELY(!slab_has_block(s, addr) || block_looks_free(addr)))
		return misuse_suspect(op, s, addr);
	return true;
}

/* A list of free blocks of class `sc` (0: any) came to what is no end of one: the program wrote to a block
   after it had freed it. */
HAK_COLD bool misuse_end(unsigned sc);

/* `end` is what such a list came to: is it an end? */
bool misuse_check_end(unsigned sc, uintptr_t end);

/* The large block that `addr` lay in before it was unmapped, and its size; 0: none. */
uintptr_t misuse_gone_block(uintptr_t addr, size_t *sizep);

/* The block of the slab that `addr` lies in; 0: none. */
uintptr_t misuse_block_around(const struct slab *s, uintptr_t addr);

/* Is the block on a free list? A guess, while others change them. */
HAK_COLD bool misuse_block_is_free(const struct slab *s, uintptr_t block);

/* An address in the nursery. Is it a live block? `sizep`: its size. */
bool misuse_check_nursery(enum misuse_op op, uintptr_t addr, size_t *sizep);

/* Likewise for an address in the granule of a guarded block. */
bool misuse_check_guarded(enum misuse_op op, const struct guarded *g, uintptr_t addr);

/* An address whose granule holds no slab, and which is not a live large block. True: it need not be ours
   after all. */
bool misuse_check_granule(enum misuse_op op, struct pagemap_entry e, uintptr_t addr);

/* ---- reports ---- */

/* `addr` is a block that is free. */
HAK_COLD bool misuse_freed(enum misuse_op op, uintptr_t addr, size_t size);

/* `addr` is nobody's, or nobody's any longer. */
HAK_COLD bool misuse_invalid(enum misuse_op op, uintptr_t addr);

/* A block of `size` bytes was written to where nobody may. */
HAK_COLD bool misuse_written(enum misuse_where where, uintptr_t block, size_t size);

/* The program touched `addr`, which is inaccessible, near that block. */
HAK_COLD bool misuse_touched(enum misuse_where where, uintptr_t addr, uintptr_t block, size_t size);

/* Is what goes with `by`, an enum block_kind, or KIND_FREED for any, no way to free what was made by `made`? */
bool misuse_is_other_kind(unsigned by, unsigned made);

/* A block was freed so. */
HAK_COLD bool misuse_kinds(uintptr_t block, size_t size, unsigned by, unsigned made);

/* The block is freed with a `what` that it has not. */
HAK_COLD bool misuse_wrong(uintptr_t block, size_t size, const char *what, size_t value);

/* Reports come one at a time: the other threads wait, but not for ever. False: it is this thread that is reporting, and
   stumbled; or it has waited long. Async-signal-safe. */
bool misuse_begin_report(void);
void misuse_end_report(void);

/* Where the program called the slow path that the thread is in; NULL: not known. */
const void *misuse_caller(void);

#endif
