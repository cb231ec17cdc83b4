/* SPDX-License-Identifier: MIT */
#include "front/heap.h"

#include <string.h>

#include "base/bits.h"
#include "base/probe.h"
#include "base/settings.h"
#include "front/bigcache.h"
#include "front/bins.h"
#include "front/heap_slabs.h"
#include "front/holes.h"
#include "front/sampling.h"
#include "front/secure.h"
#include "os/os.h"
#include "slab/mosaic.h"
#include "slab/pool.h"
#include "space/purge.h"

enum {
	RECYCLED_TRIES = 4, /* ready slabs looked at for blocks that were in use before */
	GUARD_SLABS = 4 * SUPERSLAB_GRANULES, /* TINY_LARSON_GUARD: slabs a heap takes freely */
	FILLED_FROM = 3,    /* slabs of a class that a heap has when it is clear that it is going to fill the next */
	TOUCHED_FROM = 16,  /* blocks taken off a slab's list, and at least this part of all it has, */
	TOUCHED_PART = 4,   /* before all are brought near first */
	SWEPT_FROM = 32,    /* slabs of a heap that flush_unused is for */
	SHUFFLED = 8,       /* blocks carved at a time, at least, where their order is to be random */
};

/* ---- refill ---- */

/* One of the first ready slabs that has blocks which were in use before. */
static struct slab *take_recycled(struct heap_class *hc) {
	if (HAK_UNLIKELY(!hak_settings.ready))
		return NULL;
	struct list_node *n = hc->ready.first;
	for (unsigned i = 0; n != NULL && i < RECYCLED_TRIES; n = n->next, i++) {
		struct slab *s = slab_of_ready_node(n);
		if (s->free_count != 0 || remote_has_blocks(s)) {
			list_remove(n);
			return s;
		}
	}
	return NULL;
}

/* The same without the list. */
static struct slab *search_ready(struct heap_class *hc) {
	for (struct list_node *n = hc->all.first; n != NULL; n = n->next)
		if (list_is_linked(&slab_of_all_node(n)->ready)) {
			list_remove(&slab_of_all_node(n)->ready);
			return slab_of_all_node(n);
		}
	return NULL;
}

static struct slab *take_ready(struct heap_class *hc) {
	if (HAK_UNLIKELY(!hak_settings.ready))
		return search_ready(hc);
	if (hc->ready.first == NULL)
		return NULL;
	struct slab *s = slab_of_ready_node(hc->ready.first);
	list_remove(&s->ready);
	return s;
}

/* Is the heap going to use all of a new slab of the class? Mid blocks may leave pages unused: theirs is made
   resident only where that was so a second ago. */
static bool is_to_be_filled(const struct heap_class *hc, const struct slab *s) {
	unsigned others = 0, enough = s->was_lately ? 1 : FILLED_FROM;
	for (const struct list_node *at = hc->all.first; at != NULL && others < enough; at = at->next)
		others++;
	return others == enough && (s->was_lately || s->block_size <= SC_SMALL_MAX);
}

/* A new slab becomes the heap's. */
static void own_new(struct heap *h, struct slab *s) {
	/* Relaxed: nobody has a block of it yet, and the tag releases it with the rest of the
	   descriptor to whoever finds the tag. */
	atomic_store_explicit(&s->owner, &h->inbox, memory_order_relaxed);
	slab_set_tag(s, h->tag);
	COUNT(h->count.refill_fresh);
	heap_log_slab(h, s->sc, "takes a fresh one");
	heap_add_slab(h, s);
	if (s->has_canaries)
		secure_prepare_slab(s);
}

/* For each fresh slab one class is looked at, in turn: its blocks go home if the bin is as it was the last time. Each may
   keep a slab that holds nothing else, while the program has turned to other sizes. */
HAK_COLD static void flush_unused(struct heap *h) {
	unsigned sc = h->swept = (uint8_t)(h->swept % (SC_COUNT - 1) + 1);
	struct heap_class *hc = &h->classes[sc];
	uint32_t now = (uint32_t)h->bins[sc].top + hc->listed, seen = hc->seen;
	hc->seen = now;
	if (now == seen)
		bin_flush(h, sc);
}

HAK_EVERYDAY_SMALL struct slab *heap_fresh_slab(struct heap *h, unsigned sc) {
	struct slab *slab[SPAN_BATCH], *s = spares_are_there(&h->spares) ? spares_take(h, sc) : NULL;
	if (s != NULL) {
		own_new(h, s);
		return s;
	}
	pocket_yield(&h->pocket, 1);
	if (HAK_UNLIKELY(h->slabs >= SWEPT_FROM))
		flush_unused(h);
	heap_recall(h);
	unsigned n = slab_new_several(sc, h->classes[sc].all.first == NULL, slab,
	                              spares_are_wanted() ? spares_to_make(h, sc) : 1);
	if (n == 0)
		return NULL;
	policy_note_lock(&h->policy, sc);
	if (is_to_be_filled(&h->classes[sc], slab[0]))
		slab_populate(slab[0]);
	for (unsigned i = 0; i < n; i++)
		own_new(h, slab[i]);
	if (n > 1)
		spares_add(h, slab + 1, n - 1);
	return slab[0];
}

/* A slab of the heap's own that has blocks; the stages in order of cost. */
static struct slab *own_slab(struct heap *h, struct heap_class *hc) {
	struct slab *s = take_ready(hc);
	struct warm_counters *warm = &h->warm[sc_band((unsigned)(hc - h->classes))];
	if (s != NULL) {
		COUNT(h->count.refill_ready);
		COUNT(warm->hits);
		heap_log_slab(h, s->sc, "turns to one it has");
		return s;
	}
	COUNT(warm->misses);
	heap_drain_inbox(h);
	s = take_ready(hc);
	if (s != NULL) {
		COUNT(h->count.refill_inbox);
		heap_log_slab(h, s->sc, "turns to one that others freed blocks of");
	}
	return s;
}

static struct slab *adopt_slab(struct heap *h, unsigned sc) {
	/* A locked heap may be destroyed with all its slabs: it must not have blocks of others. */
	struct slab *s = h->locked ? NULL : pool_adopt(sc, sc, &h->inbox, h->tag);
	if (s == NULL)
		return NULL;
	COUNT(h->count.refill_adopt);
	policy_note_lock(&h->policy, sc);
	heap_log_slab(h, sc, "adopts one");
	heap_add_slab(h, s);
	return s;
}

/* The beginning of the slab's own list; all of it if it is to stay a list. Meanwhile the slab has none: a signal handler
   may free. */
static void *take_own_list(struct heap *h, struct slab *s) {
	unsigned sc = s->sc, count = s->free_count, n = count;
	uintptr_t rest = s->free;
	COUNT(h->count.refill_own);
	s->free = slab_end(s);
	s->free_count = 0;
	s->used += (uint16_t)count;
	if (s->is_cold && bin_list(h, sc, rest, n))
		return bin_take(h, sc); /* a signal handler's block may lie before it */
	n = (unsigned)min_size(n, bin_wants(h, sc));
	if (n >= TOUCHED_FROM && n >= s->carved / TOUCHED_PART)
		slab_touch_blocks(s);
	void *p = bin_fill(h, sc, s, &rest, n);
	if (n == count)
		bin_check_end(s, rest);
	else if (rest != slab_end(s) && s->free_count == 0) { /* else it is lost */
		s->free = rest;
		s->free_count = (uint16_t)(count - n);
		s->used -= (uint16_t)(count - n);
	}
	return p;
}

/* Carves the next blocks of the slab: one to hand out, the others for the bin. */
static void *carve(struct heap *h, struct slab *s, bool *zerop) {
	size_t carved = (size_t)s->carved * s->block_size, touched = touched_bytes(s->touched);
	unsigned n = policy_carve(s->sc, bin_wants(h, s->sc), touched - min_size(carved, touched));
	if (secure_has_canaries())
		n = h->classes[s->sc].end != NULL ? (unsigned)max_size(n, SHUFFLED) : 1;
	n = (unsigned)min_size(n, (size_t)(s->capacity - s->carved));
	uintptr_t first = s->base + carved;
	__atomic_store_n(&s->carved, (uint16_t)(s->carved + n), __ATOMIC_RELAXED);
	s->used += (uint16_t)n;
	COUNT(h->count.refill_carve);
	if (secure_is_on() && !s->fresh_is_zero)
		memset((void *)first, 0, (size_t)n * s->block_size);
	if (secure_has_canaries()) {
		uintptr_t link = secure_link_shuffled(h, first, s->block_size, n, slab_end(s));
		return bin_fill(h, s->sc, s, &link, n);
	}
	COUNT(h->warm[sc_band(s->sc)].prefills);
	*zerop = s->fresh_is_zero;
	if (!s->fresh_is_zero)
		block_set_link(first, 0); /* what was here before must not look like a link */
	return bin_fill_run(h, s->sc, first, s->block_size, n);
}

static void grow_bin(struct heap *h, unsigned sc) {
	unsigned capacity = h->classes[sc].capacity, more = policy_growth(&h->policy, sc, capacity);
	if (!bin_resize(h, sc, capacity + more))
		policy_take_back(&h->policy, sc, more);
}

/* The bin is too small for the program's rhythm if what went home when it ran over is missed now. */
HAK_EVERYDAY_SMALL static void grow_after_overrun(struct heap *h, unsigned sc) {
	struct heap_class *hc = &h->classes[sc];
	bool was_drained = hc->overran == BIN_DRAINED;
	hc->overran = 0;
	if (was_drained)
		h->bins[sc].floor = bin_empty(hc, sc).floor; /* as large as before */
	else
		grow_bin(h, sc);
}

void heap_tick(struct heap *h) {
	if (!inbox_is_empty(&h->inbox) || purge_pending() || !bigcache_is_empty() || !pocket_is_empty(&h->pocket) ||
	    h->keeps_empty || h->outbox.used != 0 || arrivals_wait() || heap_has_idle_spares() || inboxes_wait())
		heap_look(h);
}

void *heap_pace(struct heap *h, void *block) {
	enum { PACE_MOST = 15 };
	uint64_t now = os_cycles();
	bool fast = now - h->paced < OS_CYCLES_A_MOMENT / 16;
	h->paced = now;
	h->pace = fast ? PACE_MOST : 0;
	heap_enter(h);
	heap_tick(h);
	heap_leave(h);
	return block;
}

static void turn_to(struct heap *h, struct heap_class *hc, struct slab *s) {
	if (spares_are_there(&h->spares))
		spares_forget(&h->spares, s);
	hc->current = s;
}

/* Memory that was in use before costs no page fault: if another slab of the class has some, or the current
   one by what the inbox brings, then that comes before carving. */
static bool recycle_instead(struct heap *h, struct heap_class *hc) {
	struct slab *s = take_recycled(hc);
	if (s == NULL) {
		heap_drain_inbox(h);
		if (remote_has_blocks(hc->current))
			return true;
		s = take_recycled(hc);
	}
	if (s == NULL)
		return false;
	COUNT(h->warm[sc_band(s->sc)].hits);
	list_push(&hc->ready, &hc->current->ready);
	turn_to(h, hc, s);
	return true;
}

/* ---- what settings change ---- */

HAK_NOINLINE static void rescore(struct heap *h) {
	unsigned shrunk = policy_rescore(&h->policy, h->tag >> TAG_OWNER_SHIFT);
	for (unsigned sc = 1; shrunk != 0 && sc < SC_COUNT; sc++) {
		struct heap_class *hc = &h->classes[sc];
		if ((shrunk >> policy_band(sc) & 1) == 0 || hc->capacity <= policy_initial_capacity(sc))
			continue;
		bin_flush(h, sc);
		bin_resize(h, sc, policy_initial_capacity(sc));
	}
}

/* TINY_LARSON_GUARD: beyond the budget a fresh slab is taken only when what bins hold has been brought home and
   was not enough; and once in a while only, since it costs as much as there are slabs. */
static bool has_gathered(struct heap *h) {
	if (h->slabs < GUARD_SLABS)
		h->gathered = 0;
	if (h->slabs < GUARD_SLABS || h->slabs < h->gathered + h->gathered / 8)
		return false;
	h->gathered = h->slabs;
	heap_flush(h);
	return true;
}

HAK_EVERYDAY_SMALL static struct slab *next_slab(struct heap *h, unsigned sc) {
	bool pool_first = hak_settings.bind_c7 == 0 && policy_band(sc) == POLICY_BANDS - 1;
	struct slab *s = HAK_UNLIKELY(pool_first) ? adopt_slab(h, sc) : NULL;
	if (s == NULL)
		s = own_slab(h, &h->classes[sc]);
	if (s != NULL)
		return s;
	outbox_flush(&h->outbox);
	return adopt_slab(h, sc);
}

/* What the current slab has, or those in use before that take its place. NULL: nothing. */
static void *take_from_current(struct heap *h, unsigned sc, bool *zerop) {
	struct heap_class *hc = &h->classes[sc];
	for (;;) {
		struct slab *s = hc->current;
		if (s == NULL)
			return NULL;
		unsigned before = s->left_remote; /* counted when they were left */
		if (s->free_count == 0 && remote_collect(s, false))
			COUNT_MORE(h->count.drained, s->free_count - before);
		if (s->free_count != 0)
			return take_own_list(h, s);
		if (!slab_has_uncarved(s))
			return NULL;
		if (!recycle_instead(h, hc))
			return carve(h, s, zerop);
	}
}

static void *refill(struct heap *h, unsigned sc, bool *zerop) {
	struct heap_class *hc = &h->classes[sc];
	*zerop = false;
	heap_tick(h);
	if (HAK_UNLIKELY(policy_note_miss(&h->policy, sc)))
		rescore(h);
	COUNT(h->count.bin_miss);
	if (HAK_UNLIKELY(hc->overran != 0))
		grow_after_overrun(h, sc);
	if (heap_has_messages(h)) {
		heap_read_messages(h, sc);
		void *p = bin_take(h, sc);
		if (p != NULL)
			return p;
	}
	for (;;) {
		void *p = take_from_current(h, sc, zerop);
		if (p != NULL)
			return p;
		hc->current = NULL; /* full: what comes home from here on makes it ready */
		struct slab *s = next_slab(h, sc);
		if (s == NULL) {
			bool is_large = hak_size_classes[sc].size > MOSAIC_MAX_SIZE;
			if (!spares_are_there(&h->spares))
				p = is_large ? holes_start(h, sc) : holes_refill(h, sc);
			if (p != NULL)
				return p;
			if (hak_settings.tiny_profile == TINY_LARSON_GUARD && has_gathered(h))
				continue;
			s = heap_fresh_slab(h, sc);
		}
		if (s == NULL)
			return NULL;
		turn_to(h, hc, s);
	}
}

void *heap_refill(struct heap *h, unsigned sc, bool *zerop) {
	HAK_PROBE2(refill, sc, hak_size_classes[sc].size);
	void *p = refill(h, sc, zerop);
	sampling_bin_filled(h, sc);
	return p;
}
