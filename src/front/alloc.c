/* SPDX-License-Identifier: MIT */
#include "front/alloc.h"

#include <string.h>

#include "base/bits.h"
#include "front/bigcache.h"
#include "front/locked_heap.h"
#include "space/purge.h"

/* ---- allocating ---- */

/* The class for a request, or 0: it is a large one. */
static unsigned class_for(size_t size, size_t align) {
	if (size > SC_MAX_SIZE || align > SC_MAX_SIZE)
		return 0;
	return align <= ALLOC_ALIGN ? sc_of(size) : sc_of_aligned(size, align);
}

static void *alloc_small(struct heap *h, unsigned sc, bool zero) {
	bool is_zero = false;
	void *p = bin_pop(&h->bins[sc]);
	if (p == NULL)
		p = heap_refill(h, sc, &is_zero);
	if (p != NULL && zero && !is_zero)
		memset(p, 0, hak_size_classes[sc].size);
	return p;
}

static void *alloc_large(size_t size, size_t align, bool zero) {
	bool is_zero;
	struct large *l = large_alloc(size, align, &is_zero);
	if (l == NULL)
		return NULL;
	if (zero && !is_zero)
		memset(l->span.base, 0, l->usable);
	return l->span.base;
}

static void *try_alloc(struct heap *h, size_t size, size_t align, bool zero) {
	unsigned sc = class_for(size, align);
	return sc != 0 ? alloc_small(h, sc, zero) : alloc_large(size, align, zero);
}

void *alloc_block(struct heap *h, size_t size, size_t align, bool zero) {
	if (size > PTRDIFF_MAX)
		return NULL;
	void *p = try_alloc(h, size, align, zero);
	if (HAK_LIKELY(p != NULL))
		return p;
	/* The system has no more: give back what nobody needs and ask once more. */
	release_memory(h, 0);
	return try_alloc(h, size, align, zero);
}

size_t good_size(size_t size) {
	if (size <= SC_MAX_SIZE)
		return hak_size_classes[sc_of(size)].size;
	return large_good_size(size);
}

bool release_memory(struct heap *h, size_t keep) {
	uint64_t deleted = h->count.slab_deleted;
	heap_flush(h);
	bool any = h->count.slab_deleted != deleted;
	any |= bigcache_release(keep);
	any |= purge_all(keep);
	return any;
}

/* ---- freeing ---- */

static void free_local(struct heap *h, struct slab *s, uintptr_t block) {
	struct bin *b = &h->bins[s->sc];
	if (b->room > 0) {
		b->room--;
		bin_push(b, block);
		return;
	}
	h->classes[s->sc].overflows++;
	h->count.bin_overflow++;
	heap_push_home(h, s, block);
}

/* Is the slab a locked heap's? Such a heap never gives a slab up, so the answer stays true. */
static bool is_locked_heaps(struct slab *s) {
	/* Acquire: the heap's constant fields. */
	struct inbox *owner = atomic_load_explicit(&s->owner, memory_order_acquire);
	return owner != NULL && LIST_ENTRY(owner, struct heap, inbox)->locked;
}

static void free_remote(struct heap *h, struct slab *s, uintptr_t block) {
	if (h != NULL && !h->locked && !is_locked_heaps(s)) {
		h->count.remote_free++;
		outbox_add(&h->outbox, s, block);
		return;
	}
	struct batch one = { .first = block, .last = block, .count = 1 };
	remote_post(s, &one);
}

static void free_large(uintptr_t addr) {
	struct large *l = pagemap_desc(addr);
	size_t usable = l->usable;
	if (l->heap != NULL)
		locked_heap_forget(l);
	if (!large_free(l))
		misuse_freed(OP_FREE, addr, usable);
}

bool free_block(struct heap *h, void *ptr) {
	uintptr_t addr = (uintptr_t)ptr;
	uint32_t tag = pagemap_tag_checked(addr);
	if (tag == TAG_NONE)
		return false;
	if ((tag & TAG_CODE_MASK) >= SC_CODE_END) {
		if (tag == TAG_LARGE && large_of(addr) != NULL && addr % GRANULE == 0 &&
		    large_of(addr)->span.base == ptr) {
			free_large(addr);
			return true;
		}
		misuse_check_granule(OP_FREE, tag, addr);
		return false;
	}
	struct slab *s = pagemap_desc(addr);
	misuse_check_block(OP_FREE, s, addr);
	if (h != NULL && (tag & ~TAG_CODE_MASK) == h->tag)
		free_local(h, s, addr);
	else
		free_remote(h, s, addr);
	return true;
}

/* ---- sizes and resizing ---- */

bool block_usable_size(enum misuse_op op, const void *ptr, size_t *sizep) {
	uintptr_t addr = (uintptr_t)ptr;
	uint32_t tag = pagemap_tag_checked(addr);
	if (tag == TAG_NONE)
		return false;
	if ((tag & TAG_CODE_MASK) < SC_CODE_END) {
		const struct slab *s = pagemap_desc(addr);
		misuse_check_block(op, s, addr);
		*sizep = s->block_size;
		return true;
	}
	struct large *l = large_of(addr);
	if (l != NULL && l->span.base == ptr) {
		*sizep = l->usable;
		return true;
	}
	misuse_check_granule(op, tag, addr);
	return false;
}

bool block_resize(void *ptr, size_t size, bool wasteful) {
	struct large *l = large_of((uintptr_t)ptr);
	if (l == NULL) {
		const struct slab *s = pagemap_desc((uintptr_t)ptr);
		return size <= s->block_size &&
			(wasteful || size > s->block_size / 2 || s->block_size <= 4 * ALLOC_ALIGN);
	}
	if (size <= SC_MAX_SIZE)
		return wasteful;
	return large_resize(l, size);
}

void *block_move(void *ptr, size_t size) {
	struct large *l = large_of((uintptr_t)ptr);
	return l != NULL && size > SC_MAX_SIZE && large_move(l, size) ? l->span.base : NULL;
}
