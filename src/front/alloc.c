/* SPDX-License-Identifier: MIT */
#include "front/alloc.h"

#include <string.h>

#include "base/bits.h"
#include "front/bigcache.h"
#include "front/locked_heap.h"
#include "front/nursery.h"
#include "front/sampling.h"
#include "space/purge.h"

/* ---- allocating ---- */

unsigned alloc_class(size_t size, size_t align) {
	if (size > SC_MAX_SIZE || align > SC_MAX_SIZE)
		return 0;
	return align <= ALLOC_ALIGN ? sc_of(size) : sc_of_aligned(size, align);
}

/* From the nursery, for a class that has no slab yet. Its blocks are aligned to 16 bytes only. */
static void *alloc_first(struct heap *h, unsigned sc, size_t align) {
	if (!h->is_first || h->classes[sc].all.first != NULL || align > ALLOC_ALIGN)
		return NULL;
	heap_tick(h);
	return nursery_alloc(sc);
}

static void *alloc_small(struct heap *h, unsigned sc, size_t align, bool zero) {
	bool is_zero = false;
	void *p = bin_pop(&h->bins[sc]);
	if (p == NULL) {
		p = alloc_first(h, sc, align);
		if (p != NULL)
			return p;
		p = heap_refill(h, sc, &is_zero);
	}
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
		large_clear(l);
	return l->span.base;
}

/* Requests that come here are a sample of all, or all, if operations are counted. */
static void count_request(struct heap *h, unsigned sc, size_t size) {
	struct heap_class *hc = &h->classes[sc];
	if (HAK_UNLIKELY(h->ops != NULL)) {
		h->ops->allocs[sc]++;
		h->ops->requested += size;
	}
	if (sc == 0)
		return;
	if (HAK_UNLIKELY(hc->waste > UINT32_MAX - SC_MAX_SIZE)) {
		hc->samples /= 2;
		hc->waste /= 2;
	}
	hc->samples++;
	hc->waste += hak_size_classes[sc].size - (uint32_t)size;
}

static void *try_alloc(struct heap *h, size_t size, size_t align, bool zero) {
	unsigned sc = alloc_class(size, align);
	if (HAK_STATS)
		count_request(h, sc, size);
	return sc != 0 ? alloc_small(h, sc, align, zero) : alloc_large(size, align, zero);
}

/* Caches of this heap, and BigCache. */
static bool release_caches(struct heap *h, size_t keep) {
	uint64_t deleted = h->count.slab_deleted;
	heap_flush(h);
	bool any = h->count.slab_deleted != deleted;
	any |= bigcache_release(keep);
	return any;
}

void *alloc_block(struct heap *h, size_t size, size_t align, bool zero) {
	if (size > PTRDIFF_MAX)
		return NULL;
	void *p = try_alloc(h, size, align, zero);
	if (HAK_LIKELY(p != NULL))
		return p;
	/* The system has no more: give back what nobody needs and ask once more. */
	release_caches(h, 0);
	purge_release_empty();
	return try_alloc(h, size, align, zero);
}

size_t good_size(size_t size) {
	if (size <= SC_MAX_SIZE)
		return hak_size_classes[sc_of(size)].size;
	return large_good_size(size);
}

bool release_memory(struct heap *h, size_t keep) {
	bool any = release_caches(h, keep);
	any |= purge_all(keep);
	return any;
}

/* ---- freeing ---- */

static void free_local(struct heap *h, struct slab *s, uintptr_t block) {
	unsigned sc = slab_class_at(s, block);
	struct bin *b = &h->bins[sc];
	if (HAK_UNLIKELY(h->sampling != NULL) && sampling_put(h, sc, block))
		return;
	if (b->room <= 0)
		heap_make_room(h, sc);
	b->room--;
	bin_push(b, block);
}

/* Is the slab a locked heap's? Such a heap never gives a slab up, so the answer stays true. */
static bool is_locked_heaps(struct slab *s) {
	/* Acquire: the heap's constant fields. */
	struct inbox *owner = atomic_load_explicit(&s->owner, memory_order_acquire);
	return owner != NULL && LIST_ENTRY(owner, struct heap, inbox)->locked;
}

static void free_remote(struct heap *h, struct slab *s, uintptr_t block) {
	/* Those of a thread without a heap are seen only when their slab's owner takes them up. */
	if (h != NULL)
		COUNT(h->count.remote_free);
	if (h != NULL && !h->locked && !is_locked_heaps(s)) {
		outbox_add(&h->outbox, s, block);
		return;
	}
	struct batch one = { .first = block, .last = block, .count = 1 };
	remote_post(s, &one);
}

static void count_free(struct heap *h, unsigned sc) {
	if (HAK_STATS && HAK_UNLIKELY(h != NULL && h->ops != NULL))
		h->ops->frees[sc]++;
}

static void free_large(struct large *l) {
	uintptr_t addr = (uintptr_t)l->span.base;
	size_t usable = l->usable;
	if (l->heap != NULL)
		locked_heap_forget(l);
	if (!large_free(l))
		misuse_freed(OP_FREE, addr, usable);
}

/* Its class. */
static unsigned free_nursery(uintptr_t addr) {
	size_t size;
	misuse_check_nursery(OP_FREE, addr, &size);
	if (!nursery_free(addr))
		misuse_freed(OP_FREE, addr, size);
	return sc_of(size);
}

/* A granule without slab: a large block, or nothing that can be freed. False: not ours. */
static bool free_other(struct heap *h, struct pagemap_entry e, uintptr_t addr) {
	if (e.tag == TAG_NURSERY) {
		count_free(h, free_nursery(addr));
		return true;
	}
	struct large *l = e.tag == TAG_LARGE ? large_of(addr) : NULL;
	if (l == NULL || (uintptr_t)l->span.base != addr) {
		misuse_check_granule(OP_FREE, e, addr);
		return false;
	}
	count_free(h, 0);
	free_large(l);
	return true;
}

bool free_block(struct heap *h, void *ptr) {
	uintptr_t addr = (uintptr_t)ptr;
	struct pagemap_entry e = pagemap_lookup(addr);
	if (HAK_UNLIKELY(e.tag == TAG_NONE))
		return false;
	if (HAK_UNLIKELY(!tag_is_slab(e.tag)))
		return free_other(h, e, addr);
	misuse_check_block(OP_FREE, e.desc, addr);
	count_free(h, slab_class_at(e.desc, addr));
	if (h != NULL && (e.tag & ~TAG_CODE_MASK) == h->tag)
		free_local(h, e.desc, addr);
	else
		free_remote(h, e.desc, addr);
	return true;
}

/* ---- sizes and resizing ---- */

bool block_usable_size(enum misuse_op op, const void *ptr, size_t *sizep) {
	uintptr_t addr = (uintptr_t)ptr;
	struct pagemap_entry e = pagemap_lookup(addr);
	if (e.tag == TAG_NONE)
		return false;
	if (tag_is_slab(e.tag)) {
		const struct slab *s = e.desc;
		misuse_check_block(op, s, addr);
		*sizep = hak_size_classes[slab_class_at(s, addr)].size;
		return true;
	}
	if (e.tag == TAG_NURSERY) {
		misuse_check_nursery(op, addr, sizep);
		return true;
	}
	struct large *l = large_of(addr);
	if (l != NULL && l->span.base == ptr) {
		*sizep = l->usable;
		return true;
	}
	misuse_check_granule(op, e, addr);
	return false;
}

bool block_resize(void *ptr, size_t size, bool wasteful) {
	size_t old;
	struct large *l = large_of((uintptr_t)ptr);
	if (l != NULL) {
		/* One that is large for its alignment may hold less than a small block. */
		bool must_grow = wasteful && size > l->usable;
		return size > SC_MAX_SIZE || must_grow ? large_resize(l, size) : wasteful;
	}
	return block_usable_size(OP_REALLOC, ptr, &old) && (wasteful ? size <= old : size_fits_well(old, size));
}

void *block_move(void *ptr, size_t size) {
	struct large *l = large_of((uintptr_t)ptr);
	return l != NULL && size > SC_MAX_SIZE && large_move(l, size) ? l->span.base : NULL;
}
