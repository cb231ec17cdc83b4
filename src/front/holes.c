/* SPDX-License-Identifier: MIT */
#include "front/holes.h"

#include "base/bits.h"
#include "base/settings.h"
#include "front/bins.h"
#include "front/heap_slabs.h"
#include "front/policy.h"
#include "slab/mosaic.h"
#include "slab/pool.h"
#include "space/purge.h"

enum {
	MIN_SLABS = 32,  /* in the heap: 2 MiB */
	TO_SPARE = 4,    /* slabs with free blocks that a class must have before one of them is opened */
	STARTED = 4 * GRANULE, /* bytes of blocks that a class begins with */
	TRIES = 16,      /* mosaics looked at per length of hole */
	WAIT = 31,       /* refills for which a heap opens no slab after it has looked into one for holes in vain */
};

HAK_EVERYDAY HAK_NOINLINE static void *take_from(struct heap *h, unsigned sc, struct slab *s) {
	void *p = bin_fill_holes(h, sc, s, policy_carve(sc, bin_wants(h, sc), 0));
	heap_file_mosaic(h, s);
	if (p != NULL)
		COUNT(h->count.refill_hole);
	return p;
}

/* An empty mosaic saves no memory while a granule is dirty, and what is in one is freed out of line: small blocks leave
   it to larger ones. */
static bool serves(const struct slab *s, unsigned sc) {
	return mosaic_may_fit(slab_mosaic(s), sc) &&
		(s->used != 0 || hak_size_classes[sc].size > MOSAIC_MAX_SIZE || !purge_pending());
}

/* From the mosaics with holes of one length, of 2^log units and more. */
HAK_EVERYDAY static void *take_from_list(struct heap *h, unsigned sc, unsigned log) {
	struct list_node *n = h->holes[log].first, *next;
	for (unsigned i = 0; n != NULL && i < TRIES; n = next, i++) {
		struct slab *s = slab_of_ready_node(n);
		next = n->next;
		void *p = serves(s, sc) ? take_from(h, sc, s) : NULL;
		if (p != NULL)
			return p;
	}
	return NULL;
}

HAK_EVERYDAY static void *take_from_mosaics(struct heap *h, unsigned sc) {
	unsigned units = mosaic_units(sc);
	for (unsigned log = ilog2(units); log < HOLE_LENGTHS; log++) {
		void *p = take_from_list(h, sc, log);
		if (p != NULL)
			return p;
	}
	return NULL;
}

/* ---- which slab to open ---- */

static bool is_small(const struct heap *h) {
	return h->slabs < MIN_SLABS;
}

static bool is_worth_opening(const struct slab *s, unsigned sc) {
	unsigned used = s->used - s->left_remote;
	return (used != 0 || hak_settings.empty_reuse) && mosaic_pays(s, used, sc);
}

/* A sparse slab among the first of a class's ready list, if the list is long enough. */
static struct slab *sparse_slab(const struct heap_class *hc, unsigned sc) {
	struct slab *found = NULL;
	unsigned count = 0;
	for (struct list_node *n = hc->ready.first; n != NULL && count < TO_SPARE; n = n->next, count++) {
		struct slab *s = slab_of_ready_node(n);
		if (found == NULL && is_worth_opening(s, sc))
			found = s;
	}
	return count == TO_SPARE ? found : NULL;
}

HAK_EVERYDAY HAK_NOINLINE static void search_next_class(struct heap *h) {
	h->sparse_class = (uint8_t)(h->sparse_class + 1 < SC_COUNT ? h->sparse_class + 1 : 1);
}

/* Where the last one was found there may be more: the search goes on there. */
static struct slab *find_sparse(struct heap *h, unsigned sc) {
	for (unsigned i = 1; i < SC_COUNT; i++) {
		struct slab *s = sparse_slab(&h->classes[h->sparse_class], sc);
		if (s != NULL)
			return s;
		search_next_class(h);
	}
	return NULL;
}

/* One that ended threads left, of a class of which they left many: one class is asked at a time. */
static struct slab *adopt_sparse(struct heap *h, unsigned sc) {
	uint64_t full = pool_full() & ~(uint64_t)1, onward = full >> h->sparse_class << h->sparse_class;
	if (full == 0)
		return NULL;
	h->sparse_class = (uint8_t)__builtin_ctzll(onward != 0 ? onward : full);
	struct slab *s = pool_adopt(h->sparse_class, sc, &h->inbox, h->tag);
	if (s != NULL)
		heap_add_slab(h, s);
	return s;
}

HAK_EVERYDAY static struct slab *open_slab(struct heap *h, struct slab *s, unsigned sc) {
	heap_unlink_slab(h, s);
	bool opened = mosaic_open(s, sc);
	if (opened)
		slab_set_tag(s, h->tag);
	heap_add_slab(h, s);
	if (opened)
		return s;
	list_push(&heap_class_of(h, s)->ready, &s->ready);
	return NULL;
}

static bool may_have_mosaics(const struct heap *h) {
	return hak_settings.secure == 0 && !h->locked;
}

/* From the heap's mosaics, or one that an ended thread left. */
HAK_EVERYDAY static void *take_from_any(struct heap *h, unsigned sc) {
	void *p = take_from_mosaics(h, sc);
	struct slab *s = p == NULL ? pool_adopt(0, sc, &h->inbox, h->tag) : NULL;
	if (s == NULL)
		return p;
	heap_add_slab(h, s);
	heap_collect_mosaic(h, s); /* may be gone now */
	return take_from_mosaics(h, sc);
}

HAK_EVERYDAY void *holes_refill(struct heap *h, unsigned sc) {
	size_t size = hak_size_classes[sc].size;
	if (!may_have_mosaics(h) || (is_small(h) && pool_full() == 0))
		return NULL;
	if (size < MOSAIC_MIN_SIZE || size > MOSAIC_MAX_SIZE)
		return NULL;
	void *p = take_from_any(h, sc);
	if (p != NULL)
		return p;
	if (h->sparse_wait != 0) {
		h->sparse_wait--;
		return NULL;
	}
	struct slab *s = is_small(h) ? NULL : find_sparse(h, sc);
	if (s == NULL)
		s = adopt_sparse(h, sc);
	if (s != NULL && open_slab(h, s, sc) != NULL)
		return take_from(h, sc, s);
	search_next_class(h);
	h->sparse_wait = s != NULL ? WAIT : 0;
	return NULL;
}

/* ---- the first blocks of a class ---- */

HAK_EVERYDAY void *holes_start(struct heap *h, unsigned sc) {
	struct heap_class *hc = &h->classes[sc];
	size_t taken = hc->started * (size_t)hak_size_classes[sc].size;
	if (!h->is_first || !may_have_mosaics(h) || hc->all.first != NULL || taken >= STARTED)
		return NULL;
	hc->started++;
	void *p = take_from_any(h, sc);
	if (p != NULL)
		return p;
	struct slab *s = heap_fresh_slab(h, sc);
	return s != NULL && open_slab(h, s, sc) != NULL ? take_from(h, sc, s) : NULL;
}
