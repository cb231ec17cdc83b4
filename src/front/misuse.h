/* SPDX-License-Identifier: MIT */
/*
 * Misuse: telling a wrong pointer from a right one on the slow paths, and the one line that ends the
 * program. Nothing here changes the heap.
 */
#ifndef HAK_FRONT_MISUSE_H
#define HAK_FRONT_MISUSE_H

#include "front/tcache.h"

/* What the program asked for; the word the report uses. */
enum misuse_op { OP_FREE, OP_REALLOC, OP_USABLE_SIZE };

/* misuse_check_block when something does not look right. */
HAK_COLD void misuse_suspect(enum misuse_op op, const struct slab *s, uintptr_t addr);

/* Returns if `addr`, which lies in a granule of `s`, is a block that is with the program. */
HAK_INLINE void misuse_check_block(enum misuse_op op, const struct slab *s, uintptr_t addr) {
	if (HAK_UNLIKELY(!slab_has_block(s, addr) || block_looks_free(addr, slab_end(s))))
		misuse_suspect(op, s, addr);
}

/* The block of the slab that `addr` lies in; 0: none. */
uintptr_t misuse_block_around(const struct slab *s, uintptr_t addr);

/* Is the block on a free list? A guess, while others change them. */
HAK_COLD bool misuse_block_is_free(const struct slab *s, uintptr_t block);

/* An address in the nursery. Returns if it is a live block; `sizep`: its size. */
void misuse_check_nursery(enum misuse_op op, uintptr_t addr, size_t *sizep);

/* An address whose granule holds no slab, and which is not a live large block. Returns only if it
   need not be ours after all. */
void misuse_check_granule(enum misuse_op op, struct pagemap_entry e, uintptr_t addr);

/* `addr` is a large block that is free. */
_Noreturn HAK_COLD void misuse_freed(enum misuse_op op, uintptr_t addr, size_t size);

/* `addr` is nobody's, or nobody's any longer. */
_Noreturn HAK_COLD void misuse_invalid(enum misuse_op op, uintptr_t addr);

#endif
