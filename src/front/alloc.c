/* SPDX-License-Identifier: MIT */
#include "front/alloc.h"

#include <string.h>

#include "base/bits.h"
#include "base/settings.h"
#include "front/bigcache.h"
#include "front/bins.h"
#include "front/guard.h"
#include "front/heap_slabs.h"
#include "front/locked_heap.h"
#include "front/nursery.h"
#include "front/quarantine.h"
#include "front/reuse.h"
#include "front/sampling.h"
#include "front/secure.h"
#include "front/sleepers.h"
#include "front/watch.h"
#include "slab/mosaic.h"
#include "space/purge.h"

/* ---- allocating ---- */

unsigned alloc_class(size_t size, size_t align) {
	if (size > SC_MAX_SIZE || align > SC_MAX_SIZE)
		return 0;
	return align <= ALLOC_ALIGN ? sc_of(size) : sc_of_aligned(size, align);
}

/* From the nursery, for a class that has no slab yet. Its blocks are aligned to 16 bytes only. */
static void *alloc_first(struct heap *h, unsigned sc, size_t align) {
	if (!h->is_first || h->classes[sc].all.first != NULL || align > ALLOC_ALIGN || secure_has_canaries())
		return NULL;
	heap_tick(h);
	return nursery_alloc(sc);
}

static void *alloc_small(struct heap *h, unsigned sc, size_t align, bool zero) {
	bool is_zero = false;
	void *p = bin_take(h, sc);
	if (p == NULL) {
		p = alloc_first(h, sc, align);
		if (p != NULL)
			return p;
		p = heap_refill(h, sc, &is_zero);
		if (!secure_is_on() && h->ops == NULL) /* else each comes by alloc_block */
			guard_count(h, bin_count(h, sc) + h->classes[sc].listed);
	} else {
		heap_tick(h); /* it may be all that this thread does */
	}
	/* With hardening it was zeroed when it was freed, but the program may have written to it since. Not the canary: whoever
	   frees a neighbour may look at it. */
	if (p != NULL && zero && !is_zero)
		memset(p, 0, hak_size_classes[sc].size - secure_room());
	return p;
}

HAK_EVERYDAY_SMALL static void *alloc_large(struct heap *h, size_t size, size_t align, bool zero) {
	bool is_zero;
	struct large *l = large_alloc(h->locked ? NULL : &h->pocket, size + secure_room(), align, &is_zero);
	if (l == NULL)
		return NULL;
	/* A watched thread looks when it frees. But one that takes fresh memory may never free any. */
	if (!h->is_watched || l->span.zero)
		heap_tick(h);
	if ((zero || secure_is_on()) && !is_zero)
		large_clear(l, 0, l->usable);
	if (secure_has_canaries())
		secure_mark_large(l, size);
	return l->span.base;
}

/* Requests that come here are a sample of all, or all, if operations are counted. */
HAK_NOINLINE static void count_request(struct heap *h, unsigned sc, size_t size) {
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
	unsigned sc = alloc_class(size + secure_room(), align);
	if (HAK_STATS)
		count_request(h, sc, size);
	if (sc == 0)
		return alloc_large(h, size, align, zero);
	void *p = alloc_small(h, sc, align, zero);
	if (secure_has_canaries() && p != NULL)
		secure_mark((uintptr_t)p, sc, size, KIND_MALLOC);
	return p;
}

void *alloc_short(struct heap *h, size_t size, const void *caller) {
	unsigned sc = sc_of(size);
	const struct heap_class *hc = &h->classes[sc];
	bool is_empty = hc->listed == 0 && bin_is_empty(&h->bins[sc]);
	/* A class without slabs may have its first blocks from the nursery. */
	if (!is_empty || hc->all.first == NULL || !reuse_makes_unseen(h))
		return NULL;
	bool is_zero;
	heap_enter(h);
	h->caller = caller;
	if (HAK_STATS)
		count_request(h, sc, max_size(size, 1));
	void *p = heap_refill(h, sc, &is_zero);
	heap_leave(h);
	return p;
}

/* Caches of this heap and of those that nobody uses this moment, quarantines, and BigCache. */
HAK_FAR static bool release_caches(struct heap *h, size_t keep) {
	size_t alone = __atomic_load_n(&hak_space.alone, __ATOMIC_RELAXED);
	size_t purged = __atomic_load_n(&hak_space.purged, __ATOMIC_RELAXED);
	if (keep == 0)
		quarantine_flush(h);
	heap_flush(h);
	locked_heap_flush_all();
	heap_relieve_pockets(false);
	heap_relieve_idle(UINT64_MAX);
	sleepers_relieve_all();
	/* Granules of SuperSlabs are not given back by that alone. */
	bool any = __atomic_load_n(&hak_space.purged, __ATOMIC_RELAXED) != purged ||
		__atomic_load_n(&hak_space.alone, __ATOMIC_RELAXED) < alone;
	any |= secure_has_canaries() && keep == 0 && quarantine_flush_large();
	any |= bigcache_release(keep);
	any |= large_retry(); /* what these have, first */
	return any;
}

HAK_FAR void release_unused(void) {
	bigcache_release(0);
	purge_release_empty();
}

/* More than can be addressed. */
static bool is_absurd(size_t size, size_t align) {
	return (size | align) >> ADDRESS_BITS != 0;
}

HAK_FAR bool release_for(struct heap *h, size_t size, size_t align) {
	if (is_absurd(size, align) || (os_facts.memory != 0 && (size | align) / 2 > os_facts.memory) ||
	    (hak_settings.limit != 0 && size > hak_settings.limit))
		return false;
	release_caches(h, 0);
	release_unused();
	large_retry(); /* there are fewer mappings now */
	return true;
}

void *alloc_block(struct heap *h, size_t size, size_t align, bool zero) {
	if (is_absurd(size, align))
		return NULL;
	size = max_size(size, 1); /* canaries would make no bytes of it */
	align = max_size(align, ALLOC_ALIGN);
	if (HAK_UNLIKELY(hak_settings.guard_rate != 0) && guard_fits(size, align)) {
		guard_count(h, 1);
		void *guarded = guard_is_due(h) ? guard_alloc(h, size, align) : NULL;
		if (guarded != NULL) {
			if (HAK_STATS)
				count_request(h, 0, size);
			return guarded;
		}
	}
	for (bool again = false;; again = true) {
		void *p = try_alloc(h, size, align, zero);
		if (HAK_LIKELY(p != NULL) || again)
			return p;
		if (!release_for(h, size, align))
			return NULL;
	}
}

HAK_FAR bool release_memory(struct heap *h, size_t keep) {
	bool any = release_caches(h, keep);
	size_t kept = __atomic_load_n(&hak_space.kept, __ATOMIC_RELAXED) << GRANULE_SHIFT; /* of which BigCache has so much */
	any |= purge_all(keep - min_size(kept, keep));
	return any;
}

/* ---- freeing ---- */

bool block_is_locked_heaps(struct slab *s) {
	/* Acquire: the heap's constant fields. */
	struct inbox *owner = atomic_load_explicit(&s->owner, memory_order_acquire);
	return owner != NULL && LIST_ENTRY(owner, struct heap, inbox)->locked;
}

static void post_one(struct slab *s, uintptr_t block) {
	remote_post_list(s, block, block, 1);
}

/* False: there is no memory for a bin. */
HAK_NOINLINE static bool put_in_bin(struct heap *h, unsigned sc, void *block) {
	struct bin *b = &h->bins[sc];
	if (!bin_push(b, block) && !(bin_make_room(h, sc) && bin_push(b, block)))
		return false;
	if (HAK_UNLIKELY(h->sampling != NULL))
		sampling_freed(h, sc);
	return true;
}

enum {
	KEPT_MOST = 32,     /* blocks of a bin: each may be all that keeps its slab, while its owner sleeps on; */
	KEPT_OF_LARGER = 4, /* of classes above */
	KEPT_SMALL = 32,    /* which has blocks of 1 KiB */
};

/* A block of another thread that does not read what it is sent, for it sleeps, or waits for a processor: until it does, the
   block serves this one, if that has a bin of the class, though each of its frees comes by here. Not one of a slab without
   an owner: whoever adopts that frees it faster. False: there are enough, or the bin is full, or shut, for it is being
   brought home; or what comes by refills is counted. */
HAK_COLD static bool keep(struct heap *h, uintptr_t block) {
	uint32_t tag = pagemap_find(block).tag;
	unsigned sc = tag_class(tag), most = sc <= KEPT_SMALL ? KEPT_MOST : KEPT_OF_LARGER;
	bool has_owner = tag > TAG_CODE_MASK, is_mosaic = sc >= SC_COUNT;
	if (!has_owner || is_mosaic || heap_goes_by_refills(h))
		return false;
	struct bin *b = &h->bins[sc];
	if (b->magic == 0)
		return false;
	h->keeps_empty = h->keeps_others = true;
	size_t count = (size_t)(h->classes[sc].end - (void **)bin_top(b)); /* of a bin without an array: it is full, too */
	return count < most && bin_push(b, (void *)block);
}

HAK_EVERYDAY_SMALL static void free_remote(struct heap *h, struct slab *s, uintptr_t block) {
	bool is_mosaic = slab_mosaic(s) != NULL;
	if (is_mosaic)
		mosaic_mark_freed(s, block);
	bool may_wait = h != NULL && !h->locked && !block_is_locked_heaps(s);
	bool waits = may_wait && outbox_add(&h->outbox, s, block);
	if (may_wait && !waits && !is_mosaic && keep(h, block))
		return;
	if (h != NULL) { /* else it is seen only when the slab's owner takes it up */
		COUNT(h->count.remote_free);
		COUNT_MORE(h->outbox.posts, !waits);
	}
	if (!waits)
		post_one(s, block);
}

HAK_EVERYDAY_SMALL static void free_local(struct heap *h, struct slab *s, uintptr_t block) {
	unsigned sc = slab_class_at(s, block);
	/* What others need a hole for is not kept. */
	if (slab_mosaic(s) != NULL && hak_size_classes[sc].size > MOSAIC_MAX_SIZE)
		heap_put_in_mosaic(h, s, block);
	else if (!put_in_bin(h, sc, (void *)block))
		free_remote(NULL, s, block); /* by way of the inbox */
}

/* Has its calls ahead of it: kept apart, so that the short way needs no frame. The heap has been entered. */
HAK_NOINLINE static bool free_to_outbox(struct heap *h, struct slab *s, uintptr_t block) {
	free_remote(h, s, block);
	if (h->pace-- == 0)
		heap_pace(h, NULL); /* it may be all that this thread does */
	heap_leave(h);
	return true;
}

bool free_without_heap(struct pagemap_entry e, void *ptr) {
	uintptr_t block = (uintptr_t)ptr;
	struct slab *s = e.desc;
	if (!tag_is_plain_slab(e.tag) || secure_is_on())
		return false;
	prefetch_beyond(ptr, NULL, s->block_size);
	if (!slab_has_own_block(s, block) || block_looks_free(block))
		return false;
	/* The thread comes by nowhere else. One that ends may be interrupted here amid its locks. */
	if (HAK_UNLIKELY(remote_post_list(s, block, block, 1)) && !hak_tcache.torn_down)
		sleepers_relieve(false);
	return true;
}

/* It did not fit its bin. */
HAK_NOINLINE static bool free_beyond(struct heap *h, unsigned sc, void *ptr, const void *caller) {
	if (h->sampling != NULL)
		return false;
	heap_enter(h);
	h->caller = caller;
	bool done = put_in_bin(h, sc, ptr);
	watch_look(h);
	heap_leave(h);
	return done;
}

bool free_short(struct heap *h, struct pagemap_entry e, void *ptr, const void *caller) {
	uintptr_t addr = (uintptr_t)ptr;
	struct slab *s = e.desc;
	if (!tag_is_slab(e.tag) || secure_is_on())
		return false;
	/* By the tag: the slab says so, too, but beside what other threads write. */
	bool own = heap_owns(h, e.tag), mosaic = (e.tag & TAG_CODE_MASK) == TAG_MOSAIC;
	/* A watched thread's frees are counted by class. */
	if (mosaic ? !own : own && h->is_watched)
		return false;
	if (!reuse_frees_unseen(h))
		return false;
	if (mosaic) { /* its bin is full, or tcache_free_in_mosaic would have done it */
		unsigned sc = tcache_class_in_mosaic(s, ptr);
		return sc != 0 && free_beyond(h, sc, ptr, caller);
	}
	/* As tcache_free tests it. The descriptor, which its owner writes to all the time, is in that processor's cache. */
	unsigned sc = tag_class(e.tag);
	const struct size_class *class = &hak_size_classes[sc];
	prefetch_beyond(ptr, NULL, class->size);
	if (!sc_divides(class->magic, addr) || block_looks_free(addr))
		return false;
	if (own)
		return free_beyond(h, sc, ptr, caller);
	/* Before the outbox is looked at: a fork child may return into this after it has used it. */
	heap_enter(h);
	if (!outbox_put(&h->outbox, s, e.tag, addr))
		return free_to_outbox(h, s, addr);
	COUNT(h->count.remote_free);
	heap_leave(h);
	return true;
}

void block_put(struct heap *h, struct slab *s, uintptr_t block) {
	if (h != NULL && heap_owns(h, pagemap_tag(block)))
		free_local(h, s, block);
	else
		free_remote(h, s, block);
}

static void count_free(struct heap *h, unsigned sc) {
	if (HAK_STATS && HAK_UNLIKELY(h != NULL && h->ops != NULL))
		h->ops->frees[sc]++;
}

static void free_large(struct heap *h, struct large *l, unsigned kind) {
	uintptr_t addr = (uintptr_t)l->span.base;
	size_t size = l->size;
	if (secure_is_on() && !secure_check_large(OP_FREE, l, kind))
		return;
	struct locked_heap *heap = l->heap; /* once: another thread may be freeing it, too */
	if (heap != NULL)
		locked_heap_forget(heap, l);
	if (!large_free(h != NULL ? &h->pocket : NULL, l))
		misuse_freed(OP_FREE, addr, size);
}

/* Its class; 0: it was none. */
static unsigned free_nursery(uintptr_t addr) {
	size_t size;
	if (!misuse_check_nursery(OP_FREE, addr, &size))
		return 0;
	if (secure_is_on()) /* before it is freed: from then on it may be another's */
		memset((void *)addr, 0, size);
	if (!nursery_free(addr))
		misuse_freed(OP_FREE, addr, size);
	return sc_of(size);
}

/* A granule without slab: a block of another sort, or nothing that can be freed. False: not ours. */
static bool free_other(struct heap *h, struct pagemap_entry e, uintptr_t addr, unsigned kind) {
	struct large *l = e.tag == TAG_LARGE ? large_of(addr) : NULL;
	unsigned sc = 0;
	if (e.tag == TAG_NURSERY)
		sc = free_nursery(addr);
	else if (e.tag == TAG_GUARDED)
		guard_free(e.desc, addr, kind);
	else if (l != NULL && (uintptr_t)l->span.base == addr)
		free_large(h, l, kind);
	else
		return !misuse_check_granule(OP_FREE, e, addr);
	count_free(h, sc);
	return true;
}

bool free_block_as(struct heap *h, void *ptr, unsigned kind) {
	uintptr_t addr = (uintptr_t)ptr;
	struct pagemap_entry e = pagemap_lookup(addr);
	if (HAK_UNLIKELY(e.tag == TAG_NONE))
		return false;
	if (HAK_UNLIKELY(!tag_is_slab(e.tag)))
		return free_other(h, e, addr, kind);
	if (!misuse_check_block(OP_FREE, e.desc, addr))
		return true;
	count_free(h, slab_class_at(e.desc, addr));
	if (secure_is_on()) {
		if (secure_check(OP_FREE, e.desc, addr, (enum block_kind)kind))
			secure_free(h, e.desc, addr);
		return true;
	}
	if (h != NULL && heap_owns(h, e.tag))
		free_local(h, e.desc, addr);
	else
		free_remote(h, e.desc, addr);
	return true;
}

bool free_block(struct heap *h, void *ptr) {
	return free_block_as(h, ptr, KIND_MALLOC);
}

/* ---- sizes ---- */

size_t small_usable_size(const void *ptr) {
	uintptr_t addr = (uintptr_t)ptr;
	struct pagemap_entry e = pagemap_lookup(addr);
	const struct slab *s = e.desc;
	if (!tag_is_slab(e.tag) || secure_is_on())
		return 0;
	unsigned sc = slab_mosaic(s) != NULL || slab_has_own_block(s, addr) ? slab_class_at(s, addr) : 0;
	if (sc == 0 || block_looks_free(addr))
		return 0;
	return hak_size_classes[sc].size;
}
