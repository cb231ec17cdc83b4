/* SPDX-License-Identifier: MIT */
/*
 * Hardening, by levels of HAKMEM_SECURE; each has what stands before it.
 *
 *   1  what is freed is zeroed, so that fresh blocks read zero; the size and alignment that a sized free
 *      names are checked, and for large blocks whether new or malloc made them
 *   2  canaries (front/canary.h) behind all blocks, random order in slabs, quarantine for what was freed
 *   3  inaccessible pages around large blocks and between slabs, GUARDS_MOST of them, sampled small blocks
 *      between such (front/guard.h)
 *
 * From level 1 on a thread's cache (front/tcache.h) stays inert, so every call of the program comes to
 * front/alloc.c, which asks here; the thread's heap has bins of its own. The level is settled before
 * the first slab from which a block is handed out to the program (abi/lifecycle.c: the loader may have had some before),
 * except for the nursery, whose blocks have no canary at any level.
 */
#ifndef HAK_FRONT_SECURE_H
#define HAK_FRONT_SECURE_H

#include "base/settings.h"
#include "front/canary.h"
#include "front/heap.h"
#include "front/large.h"

/* Once the settings are known. */
void secure_init(void);

HAK_INLINE bool secure_is_on(void) {
	return HAK_UNLIKELY(hak_settings.secure != 0);
}
HAK_INLINE bool secure_has_canaries(void) {
	return HAK_UNLIKELY(hak_settings.secure >= 2);
}

/* What a request must be enlarged by. */
HAK_INLINE size_t secure_room(void) {
	return secure_has_canaries() ? CANARY_BYTES : 0;
}

/* A small block of class `sc` is handed out for `size` bytes, or has another size from now on. */
void secure_mark(uintptr_t block, unsigned sc, size_t size, enum block_kind kind);
void secure_mark_large(struct large *l, size_t size);

/* The bytes the program may use in a small block; of one that was freed, what they were. */
size_t secure_usable_size(const struct slab *s, uintptr_t block);

/* A small block that is at its place may be used by `kind`'s calls (KIND_FREED: any) and nothing was written
   beyond its ends. False: misuse, which was reported. */
enum misuse_op;
bool secure_check(enum misuse_op op, const struct slab *s, uintptr_t block, enum block_kind kind);
bool secure_check_large(enum misuse_op op, struct large *l, enum block_kind kind);

/* The program frees a small block that passed secure_check: now or later it comes to block_put. */
void secure_free(struct heap *h, struct slab *s, uintptr_t block);

/* A fresh slab has a canary before its first block, too, unless an inaccessible page ends there. */
void secure_prepare_slab(const struct slab *s);

/* No block of the slab, which is about to be deleted, may have been written to behind its end. */
void secure_check_slab(const struct slab *s);

/* Blocks that were never handed out count as if they had been: what is in them must not be taken for a canary that was
   written over. */
void secure_forget_uncarved(const struct slab *s);

/* A block stayed as it was, for lack of memory, and is smaller to the program: what cannot tell such from others believes
   any size that it can have from here on. Relaxed: it is looked at when a block is freed, which its resizing came before. */
extern HAK_HIDDEN _Atomic bool hak_secure_believes;
HAK_INLINE void secure_believe(void) {
	atomic_store_explicit(&hak_secure_believes, true, memory_order_relaxed);
}

/* `size` and `align` are what a sized free by `kind`'s calls says of `ptr`; `align` 0: nothing. False: misuse,
   reported. */
bool secure_check_sized(const void *ptr, size_t size, size_t align, enum block_kind kind);

/* The block was made by `kind`. */
void secure_set_kind(void *ptr, enum block_kind kind);

/* Puts `count` neighbours of `size` bytes, linked in a random order, before the list `end`. Returns the link
   to the first. */
uintptr_t secure_link_shuffled(struct heap *h, uintptr_t first, size_t size, unsigned count, uintptr_t end);

/* Random numbers for placement; not for secrets. */
HAK_INLINE uint64_t secure_random(struct heap *h) {
	h->random ^= h->random << 13;
	h->random ^= h->random >> 7;
	return h->random ^= h->random << 17;
}

#endif
