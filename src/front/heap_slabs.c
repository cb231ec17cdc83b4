/* SPDX-License-Identifier: MIT */
#include "front/heap_slabs.h"

#include "base/bits.h"
#include "base/probe.h"
#include "base/report.h"
#include "base/settings.h"
#include "front/alloc.h"
#include "front/bins.h"
#include "front/misuse.h"
#include "front/secure.h"
#include "front/sleepers.h"
#include "os/os.h"
#include "slab/mosaic.h"
#include "space/purge.h"

enum {
	MOSAICS_KEPT = 4,              /* though empty */
	RECALL_SLABS = 64,             /* a heap that has as many does not look for a few more */
	RECALLED_LEAST = GRANULE / 4 * 3, /* bytes carved of a class: less is soon carved again, beside what others touched */
	RECALLS_MOST = 32,             /* by a heap: what was recalled so often comes back */
};

/* The slab of a freed block that is not home yet; NULL: there is no such block, or the slab is another's. */
static struct slab *slab_at(const struct heap *h, uintptr_t block) {
	struct pagemap_entry e = pagemap_lookup(block);
	if (HAK_UNLIKELY(!heap_owns(h, e.tag)))
		return NULL;
	const struct mosaic *m = slab_mosaic(e.desc);
	bool is_block = m != NULL ? mosaic_held_at(m, block % GRANULE) != 0 : slab_has_own_block(e.desc, block);
	return HAK_LIKELY(is_block) ? e.desc : NULL;
}

struct heap_class *heap_class_of(struct heap *h, const struct slab *s) {
	return &h->classes[slab_mosaic(s) != NULL ? 0 : s->sc];
}

HAK_EVERYDAY void heap_add_slab(struct heap *h, struct slab *s) {
	list_push(&heap_class_of(h, s)->all, &s->all);
	h->slabs++;
}

HAK_EVERYDAY_SMALL void heap_unlink_slab(struct heap *h, struct slab *s) {
	struct heap_class *hc = heap_class_of(h, s);
	if (spares_are_there(&h->spares))
		spares_forget(&h->spares, s);
	if (hc->current == s)
		hc->current = NULL;
	if (list_is_linked(&s->ready))
		list_remove(&s->ready);
	if (slab_mosaic(s) != NULL)
		slab_mosaic(s)->list = 0;
	list_remove(&s->all);
	h->slabs -= h->slabs != 0; /* it may be a forsaken heap's (heap_forsake) */
}

HAK_EVERYDAY void heap_log_slab(const struct heap *h, unsigned sc, const char *what) {
	struct line l;
	if (HAK_LIKELY(!hak_settings.warm_log))
		return;
	line_begin(&l);
	line_str(&l, "slabs: heap ");
	line_dec(&l, h->tag >> TAG_OWNER_SHIFT);
	line_str(&l, ", size ");
	line_dec(&l, hak_size_classes[sc].size);
	line_str(&l, ": ");
	line_str(&l, what);
	line_write(&l);
}

void heap_leave_slab(struct heap *h, struct slab *s, struct slab **list) {
	heap_log_slab(h, s->sc, "gives one back");
	heap_unlink_slab(h, s);
	if (s->has_canaries)
		secure_check_slab(s);
	COUNT(h->count.slab_deleted);
	s->inbox_next = *list;
	*list = s;
}

HAK_EVERYDAY_SMALL void heap_delete_slab(struct heap *h, struct slab *s) {
	struct slab *list = NULL;
	heap_leave_slab(h, s, &list);
	slab_delete_all(list);
}

static void for_each_of_class(struct heap *h, unsigned sc, void (*visit)(struct heap *h, struct slab *s)) {
	struct list_node *n = h->classes[sc].all.first, *next;
	for (; n != NULL; n = next) {
		next = n->next;
		visit(h, slab_of_all_node(n));
	}
}

void heap_for_each_slab(struct heap *h, void (*visit)(struct heap *h, struct slab *s)) {
	for (unsigned sc = 0; sc < SC_COUNT; sc++)
		for_each_of_class(h, sc, visit);
}

HAK_EVERYDAY_SMALL void heap_delete_if_empty(struct heap *h, struct slab *s) {
	if (remote_all_home(s))
		heap_delete_slab(h, s);
}

HAK_COLD void heap_delete_empty(struct heap *h, bool (*stays)(struct heap *h, struct slab *s)) {
	struct slab *list = NULL;
	for (unsigned sc = 0; sc < SC_COUNT; sc++)
		for (struct list_node *n = h->classes[sc].all.first, *next; n != NULL; n = next) {
			struct slab *s = slab_of_all_node(n);
			next = n->next;
			if (remote_all_home(s) && (stays == NULL || !stays(h, s)))
				heap_leave_slab(h, s, &list);
		}
	slab_delete_all(list);
}

/* ---- classes that wait ---- */

/* Has the program none of the class's blocks, though enough of them were carved? (The bin may have some of mosaics, or
   others', and then the answer be wrong.) */
static bool is_waiting(const struct heap *h, unsigned sc) {
	const struct heap_class *hc = &h->classes[sc];
	size_t used = 0, carved = 0, cached = bin_count(h, sc) + hc->listed;
	for (struct list_node *n = hc->all.first; n != NULL && used <= cached; n = n->next) {
		const struct slab *s = slab_of_all_node(n);
		used += s->used - s->left_remote;
		carved += s->carved;
	}
	return used == cached && carved * hak_size_classes[sc].size >= RECALLED_LEAST;
}

/* Would slabs that are given up stay resident, without system calls? */
static bool is_worth_recalling(void) {
	return hak_settings.empty_reuse && hak_settings.use_superslab && hak_settings.purge_delay_ms != 0 &&
		hak_settings.secure == 0;
}

HAK_EVERYDAY_SMALL void heap_recall(struct heap *h) {
	if (h->slabs >= RECALL_SLABS || h->recalls == RECALLS_MOST || purge_pending() || !is_worth_recalling())
		return;
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		if (!is_waiting(h, sc))
			continue;
		h->recalls++;
		bin_flush(h, sc);
		for_each_of_class(h, sc, heap_delete_if_empty);
		return;
	}
}

/* ---- mosaics ---- */

void heap_file_mosaic(struct heap *h, struct slab *s) {
	struct mosaic *m = slab_mosaic(s);
	unsigned list = m->largest != 0 ? ilog2(m->largest) + 1 : 0;
	if (list == m->list)
		return;
	if (m->list != 0)
		list_remove(&s->ready);
	if (list != 0)
		list_push(&h->holes[list - 1], &s->ready);
	m->list = (uint8_t)list;
}

/* The last few mosaics stay: the next large buffers need them. */
static bool is_among_last_mosaics(const struct heap *h) {
	unsigned n = 0;
	for (const struct list_node *at = h->classes[0].all.first; at != NULL && n <= MOSAICS_KEPT; at = at->next)
		n++;
	return n <= MOSAICS_KEPT;
}

static void mosaic_gained_holes(struct heap *h, struct slab *s) {
	if (s->used == 0 && !h->flushes && !is_among_last_mosaics(h) && remote_all_home(s))
		heap_delete_slab(h, s);
	else
		heap_file_mosaic(h, s);
}

static void put_in_mosaic(struct heap *h, struct slab *s, uintptr_t block, unsigned n) {
	mosaic_put(s, block, n);
	COUNT_MORE(h->count.home, n);
	mosaic_gained_holes(h, s);
}

void heap_put_in_mosaic(struct heap *h, struct slab *s, uintptr_t block) {
	put_in_mosaic(h, s, block, 1);
}

HAK_FAR void heap_collect_mosaic(struct heap *h, struct slab *s) {
	uintptr_t at = link_decode(remote_take(s)), next;
	for (; slab_at(h, at) == s; at = next) {
		next = link_decode(block_link(at));
		mosaic_put(s, at, 1);
		COUNT(h->count.drained);
	}
	misuse_check_end(0, at);
	mosaic_gained_holes(h, s);
}

/* ---- blocks come home ---- */

static bool has_blocks(const struct slab *s) {
	return s != NULL && (s->free_count != 0 || slab_has_uncarved(s));
}

/* Are there fewer than `count` slabs with blocks but for this one, which is ready? */
static bool is_among_last(const struct heap_class *hc, const struct slab *s, unsigned count) {
	unsigned others = has_blocks(hc->current);
	for (const struct list_node *n = hc->ready.first; n != NULL && others < count; n = n->next)
		others += n != &s->ready;
	return others < count;
}

/* Why an empty slab stays in its class. */
static bool is_kept(struct heap *h, const struct heap_class *hc, const struct slab *s) {
	/* The class would have to go to the pool at once. */
	if (is_among_last(hc, s, policy_warm_slabs(&h->policy, s->sc)))
		return true;
	if (HAK_LIKELY(hak_settings.empty_reuse) || hak_settings.purge_delay_ms == 0)
		return false;
	h->keeps_empty = true;
	return true;
}

/* A slab that is not current has new free blocks. */
HAK_NOINLINE static void slab_gained_blocks(struct heap *h, struct slab *s) {
	struct heap_class *hc = &h->classes[s->sc];
	if (s == hc->current)
		return;
	if (!list_is_linked(&s->ready))
		list_push(&hc->ready, &s->ready);
	if (s->used > s->left_remote || h->flushes || !remote_all_home(s))
		return;
	if (is_kept(h, hc, s) || (spares_are_wanted() && spares_keep(h, s)))
		heap_log_slab(h, s->sc, "keeps an empty one");
	else
		heap_delete_slab(h, s);
}

/* What was freed in a row often lies in one slab: from `first` on such a run, without hidden blocks, goes as a whole.
   The entry behind it. */
static void **push_run(struct heap *h, struct slab *s, uintptr_t first, void **at, void **end) {
	const uintptr_t mark = hak_secret.mark;
	void **begin = at;
	uintptr_t last = first;
	for (; at < end; at++) {
		uintptr_t next = (uintptr_t)*at;
		if (!slab_spans(s, next) || block_link(next) != mark)
			break;
		block_set_link(last, link_encode(next));
		last = next;
	}
	unsigned n = 1 + (unsigned)(at - begin);
	slab_push(s, first, last, n);
	COUNT_MORE(h->count.home, n);
	slab_gained_blocks(h, s);
	return at;
}

/* Likewise in a mosaic, as far as blocks, all of which are of class `sc`, lie side by side. */
static void **put_run(struct heap *h, struct slab *s, unsigned sc, uintptr_t first, void **at, void **end) {
	const struct mosaic *m = slab_mosaic(s);
	const uintptr_t mark = hak_secret.mark;
	unsigned n = 1;
	uintptr_t size = hak_size_classes[sc].size, last = first;
	for (; at < end; at++, n++) {
		uintptr_t next = (uintptr_t)*at;
		bool is_neighbour = next == last + size || next == first - size;
		if (!is_neighbour || !slab_spans(s, next) || !mosaic_uses(m, next - s->base) || block_link(next) != mark)
			break;
		last = max_size(last, next);
		first = min_size(first, next);
	}
	put_in_mosaic(h, s, first, n);
	return at;
}

/* Another owner's block, or none. */
HAK_EVERYDAY_SMALL static void send_other_home(struct heap *h, unsigned sc, const void *ptr) {
	uintptr_t block = (uintptr_t)ptr;
	struct pagemap_entry e = pagemap_find(block);
	if (tag_is_slab(e.tag) && !heap_owns(h, e.tag) && bin_is_untouched(ptr))
		block_put(h, e.desc, block);
	else
		misuse_written(MISUSE_AFTER_FREE, block, hak_size_classes[sc].size);
}

HAK_EVERYDAY void heap_send_home(struct heap *h, unsigned sc, void **from, void **end) {
	enum { AHEAD = 8 }; /* what has been in a bin for long is in no cache */
	while (from < end) {
		void *block = *from++;
		if (end - from > AHEAD)
			__builtin_prefetch(from[AHEAD]);
		struct slab *s = slab_at(h, (uintptr_t)block);
		if (HAK_UNLIKELY(s == NULL || !bin_is_untouched(block)))
			send_other_home(h, sc, block);
		else if (slab_mosaic(s) == NULL)
			from = push_run(h, s, (uintptr_t)block, from, end);
		else
			from = put_run(h, s, sc, (uintptr_t)block, from, end);
	}
}

HAK_COLD void heap_send_list_home(struct heap *h, unsigned sc, uintptr_t link, unsigned count) {
	uintptr_t first = link_decode(link), last = 0, at = first;
	struct slab *s = slab_at(h, first);
	unsigned n = 0;
	for (; s != NULL && n < count && !link_is_end(at) && slab_has_own_block(s, at); n++) {
		last = at;
		at = link_decode(block_link(at));
	}
	/* It may be shorter than was counted: a fork child may have caught the thread in between. */
	if (!link_is_our_end(at) && (n < count || s == NULL || !slab_has_own_block(s, at)))
		misuse_end(sc);
	if (n == 0)
		return;
	slab_push(s, first, last, n);
	COUNT_MORE(h->count.home, n);
	slab_gained_blocks(h, s);
}

HAK_EVERYDAY void heap_drain_inbox(struct heap *h) {
	inbox_forget_whole(&h->inbox); /* first: who counts does so after it has pushed */
	if (inbox_is_empty(&h->inbox))
		return;
	struct slab *s = inbox_take(&h->inbox, false), *next;
	for (; s != NULL; s = next) {
		/* Before the slab leaves our hands: the next router overwrites the link. */
		next = s->inbox_next;
		HAK_PROBE1(remote_drain, s->base);
		/* Relaxed: only we make ourselves owner. */
		if (atomic_load_explicit(&s->owner, memory_order_relaxed) != &h->inbox) {
			remote_route(s);
			continue;
		}
		if (slab_mosaic(s) != NULL) {
			heap_collect_mosaic(h, s);
			continue;
		}
		/* The list stays where it is, for when the slab's turn comes: if this thread sleeps till then, and the others
		   free the rest, all are on one list, and others can tell (front/sleepers.h). */
		if (HAK_UNLIKELY(remote_is_emptied(s))) {
			sleepers_forget(h, s);
			continue;
		}
		uint64_t before = s->left_remote;
		remote_unqueue(s);
		COUNT_MORE(h->count.drained, s->left_remote - before);
		slab_gained_blocks(h, s);
	}
}
