/* SPDX-License-Identifier: MIT */
#include "front/spares.h"

#include "base/bits.h"
#include "base/settings.h"
#include "front/heap_slabs.h"
#include "os/alone.h"
#include "space/purge.h"

enum {
	PART_FREE = 2,  /* of PURGE_FLOOR, which all may have touched together, */
	PART_LIVE = 16, /* and of what is in use, of those whose threads live */
	GRANULE_UNITS = GRANULE / TOUCHED_UNIT,
	MADE = 4,       /* at once, at most */
	COUNTED = 2 * GRANULE_UNITS, /* likewise */
};

/* Does what is kept keep nobody waiting, and what is deleted stay resident? Below a limit another thread may need it. */
static bool is_worth_it(const struct heap *h) {
	return !h->locked && hak_settings.limit == 0 && hak_settings.secure == 0 && hak_settings.empty_reuse &&
		hak_settings.use_superslab && hak_settings.purge_delay_ms != 0 && !hak_settings.background;
}

/* Units of all heaps without a thread, and of all. Relaxed, here and below: counts. */
static size_t least_of_all(void) {
	return PURGE_FLOOR / TOUCHED_UNIT / PART_FREE;
}
HAK_EVERYDAY static size_t allowance_of_all(void) {
	return least_of_all() + __atomic_load_n(&hak_space.live, __ATOMIC_RELAXED) * GRANULE_UNITS / PART_LIVE;
}

HAK_EVERYDAY static void review(struct spares *sp) {
	size_t threads = max_size(__atomic_load_n(&hak_space.threads, __ATOMIC_RELAXED), 1);
	sp->most = (unsigned)min_size(allowance_of_all() / threads, SPARES_MOST * GRANULE_UNITS);
}

/* The sum over all heaps is on a cache line that all write to: now and then is enough. */
HAK_EVERYDAY static void settle_count(struct spares *sp) {
	int change = (int)sp->units - (int)sp->counted;
	sp->counted = sp->units;
	if (change != 0)
		count_shared(&hak_space.spare, (size_t)change);
}
HAK_EVERYDAY static void count(struct spares *sp) {
	int change = (int)sp->units - (int)sp->counted;
	if (change <= -COUNTED || change >= COUNTED || sp->count == 0)
		settle_count(sp);
}

static void remove_at(struct spares *sp, unsigned i) {
	sp->count--;
	sp->units -= sp->weight[i];
	for (; i < sp->count; i++) {
		sp->slab[i] = sp->slab[i + 1];
		sp->weight[i] = sp->weight[i + 1];
	}
	count(sp);
}

void spares_forget(struct spares *sp, const struct slab *s) {
	for (unsigned i = sp->count; i-- > 0;)
		if (sp->slab[i] == s) {
			remove_at(sp, i);
			return;
		}
}

/* In this heap, and in all. */
static bool has_room(const struct spares *sp, unsigned weight, size_t all) {
	return sp->count < SPARES_MOST && sp->units + weight <= sp->most &&
		__atomic_load_n(&hak_space.spare, __ATOMIC_RELAXED) + sp->units - sp->counted + weight <= all;
}

static void add(struct heap *h, struct slab *s, unsigned weight) {
	struct spares *sp = &h->spares;
	sp->slab[sp->count] = s;
	sp->weight[sp->count++] = (uint8_t)weight;
	sp->units += weight;
	h->keeps_empty = true;
	count(sp);
}
static bool add_if_room(struct heap *h, struct slab *s, size_t all) {
	unsigned weight = slab_touched_units(s);
	if (!has_room(&h->spares, weight, all))
		return false;
	slab_convert(s, s->sc); /* what is carved anew is not read first, block by block, as a list is */
	add(h, s, weight);
	return true;
}

/* Deletes the older half. */
static void delete_half(struct heap *h) {
	struct slab *list = NULL;
	for (unsigned n = (h->spares.count + 1) / 2; n > 0; n--)
		heap_leave_slab(h, h->spares.slab[0], &list);
	slab_delete_all(list);
}

bool spares_keep(struct heap *h, struct slab *s) {
	if (!is_worth_it(h) || !slab_is_whole(s->sc))
		return false;
	if (h->spares.most == 0)
		review(&h->spares);
	if (add_if_room(h, s, allowance_of_all()))
		return true;
	delete_half(h);
	review(&h->spares);
	return add_if_room(h, s, allowance_of_all());
}

struct slab *spares_take(struct heap *h, unsigned sc) {
	struct slab *s = h->spares.slab[h->spares.count - 1], *list = NULL;
	if (!slab_is_whole(sc))
		return NULL;
	heap_leave_slab(h, s, &list);
	slab_convert(s, sc);
	return s;
}

unsigned spares_to_make(struct heap *h, unsigned sc) {
	if (!is_worth_it(h) || !slab_is_whole(sc))
		return 1;
	review(&h->spares);
	return 1 + (unsigned)min_size(h->spares.most / GRANULE_UNITS, MADE - 1);
}

void spares_add(struct heap *h, struct slab **slab, unsigned n) {
	for (unsigned i = 0; i < n; i++) {
		list_push(&heap_class_of(h, slab[i])->ready, &slab[i]->ready);
		if (h->spares.count < SPARES_MOST)
			add(h, slab[i], slab_touched_units(slab[i]));
	}
}

static bool stays(struct heap *h, struct slab *s) {
	struct heap_class *hc = heap_class_of(h, s);
	if (slab_mosaic(s) != NULL || !slab_is_whole(s->sc) || !add_if_room(h, s, least_of_all()))
		return false;
	if (hc->current == s)
		hc->current = NULL;
	if (!list_is_linked(&s->ready))
		list_push(&hc->ready, &s->ready);
	return true;
}

void spares_leave(struct heap *h) {
	struct spares *sp = &h->spares;
	sp->count = sp->units = 0;
	count(sp);
	review(sp);
	heap_delete_empty(h, space_is_contended() && is_worth_it(h) ? stays : NULL);
	settle_count(sp); /* for a long time, maybe */
}
