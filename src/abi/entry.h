/* SPDX-License-Identifier: MIT */
/*
 * What stands between a public name and the allocator: which heap serves the caller, which requests
 * settings hand to libc, what errno says. The fast paths (front/tcache.h) are tried before these.
 *
 * errno: failure sets ENOMEM, success and freeing leave it alone.
 */
#ifndef HAK_ABI_ENTRY_H
#define HAK_ABI_ENTRY_H

#include <errno.h>

#include "base/bits.h"
#include "front/alloc.h"
#include "front/canary.h"

HAK_INLINE bool is_alignment(size_t a) {
	return is_pow2(a) && a <= PTRDIFF_MAX;
}

/* Where the function that this stands in, or was inlined into, was called: a public one's by the program. Reports, and
   profiles, name that. As an argument of what is called out of line only: else the short ways would read it, too. Public
   functions end in such calls, so that it is right only where the compiler makes jumps of those, as from -O2 on. */
#define ENTRY_CALLER __builtin_return_address(0)

/* `align`: a power of two. */
HAK_NOINLINE void *entry_alloc(size_t size, size_t align, bool zero, const void *caller);
/* `code`: tcache_code's, where tcache_free refused. */
HAK_NOINLINE void entry_free(void *ptr, uintptr_t code, const void *caller);

/* Likewise for calls that go with one another: `kind` is an enum block_kind. `align` 0: not said. With the fast path of
   free; that of malloc for greater alignments only. */
HAK_NOINLINE void *entry_alloc_as(size_t size, size_t align, unsigned kind, const void *caller);
HAK_NOINLINE void entry_free_as(void *ptr, unsigned kind);
HAK_NOINLINE void entry_free_sized(void *ptr, size_t size, size_t align, unsigned kind);

void *entry_realloc(void *ptr, size_t size);

size_t entry_usable_size(const void *ptr); /* 0: NULL, or no block, as has been said */

/* As block_usable_size, also of libc's: of those alone BLOCK_FOREIGN is said. */
enum block_found entry_find(enum misuse_op op, const void *ptr, size_t *sizep, const void *caller);

/* The program goes on after a misuse: `p`, a new block or NULL, stands in for `ptr`, which is left alone, with `size`
   bytes of it. Gives back `p`. */
void *entry_stand_in(void *p, const void *ptr, size_t size);

/* The profile is told of a block that did not come by the ways above: of a first-class heap, or NULL. With
   sample_has_blocks only. */
struct locked_heap;
void entry_sample(struct locked_heap *of, void *ptr, size_t size, const void *caller);

/* Gives a block another size where it is, or by moving its pages: its place, or NULL if neither can be. MUST_MOVE:
   though a copy might be cheaper. */
enum regrowth { MAY_NOT_MOVE, MAY_MOVE, MUST_MOVE };
void *entry_regrow(void *ptr, size_t size, enum regrowth how);

/* Neither can be, in the end: what the block has taken up for that goes back. NULL. */
void *entry_not_regrown(void *ptr);

/* A block has a new size, and if it was large a new place maybe: to a profile, a large one is then another
   block, of whoever called at `caller`. Gives back `ptr`. */
void *entry_resized(const void *old, void *ptr, size_t size, const void *caller);

int entry_trim(size_t keep);

HAK_INLINE void *entry_malloc(size_t size) {
	void *p = tcache_alloc(size);
	return HAK_LIKELY(p != NULL) ? p : entry_alloc(size, ALLOC_ALIGN, false, ENTRY_CALLER);
}

HAK_INLINE void entry_release(void *ptr) {
	uintptr_t code = tcache_code(ptr);
	if (HAK_UNLIKELY(!tcache_free(ptr, code)))
		entry_free(ptr, code, ENTRY_CALLER);
}

HAK_INLINE void entry_release_as(void *ptr, unsigned kind) {
	if (HAK_UNLIKELY(!tcache_free(ptr, tcache_code(ptr))))
		entry_free_as(ptr, kind);
}

HAK_INLINE void entry_release_sized(void *ptr, size_t size, size_t align, unsigned kind) {
	if (HAK_UNLIKELY(!tcache_free(ptr, tcache_code(ptr))))
		entry_free_sized(ptr, size, align, kind);
}

void *entry_calloc(size_t count, size_t size);

/* Any alignment that is a power of two; 0 size is allowed. */
void *entry_aligned(size_t align, size_t size, const void *caller);

#endif
