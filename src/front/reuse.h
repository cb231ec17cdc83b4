/* SPDX-License-Identifier: MIT */
/*
 * Reuse: the short ways of large blocks, out of the heap's pocket and into it, while nobody wants to see what is
 * made or freed. By the heap's thread.
 *
 * Inline, and with few writes: the processor holds but so many that wait for the cache, and a program that has
 * just written to cold memory has them waiting.
 */
#ifndef HAK_FRONT_REUSE_H
#define HAK_FRONT_REUSE_H

#include "base/settings.h"
#include "front/sampling.h"
#include "front/watch.h"
#include "os/os.h"

/* Does nobody want to see the large blocks that the thread makes? Where they are hardened its pocket is empty. */
HAK_INLINE bool reuse_makes_unseen(const struct heap *h) {
	return hak_settings.guard_rate == 0 && h->ops == NULL && h->sampling == NULL && !sampling_is_due(h);
}

/* Those that it frees? (Who hardens or counts them has taken the tag away, the watch, too, which lets most pass.
   Sampled ones the caller sees to.) */
HAK_INLINE bool reuse_frees_unseen(const struct heap *h) {
	if (watch_is_due(h) || h->ops != NULL)
		return false;
	return HAK_LIKELY(PAGEMAP_LOAD(&hak_tcache.tag) == h->tag) || watch_lets_pass(h);
}

/* A block of `size` > SC_MAX_SIZE bytes that need not be zero. NULL: nothing has been done. */
HAK_INLINE void *reuse_alloc(struct heap *h, size_t size) {
	if (pocket_is_empty(&h->pocket) || size > (size_t)POCKET_SPAN_LAST * GRANULE || !reuse_makes_unseen(h))
		return NULL;
	size_t usable = align_up(size, os_facts.page_size);
	heap_enter(h);
	struct large *l = usable < LARGE_BIG_MIN ? pocket_take(&h->pocket, POCKET_PIECES, large_granules(usable)) :
		pocket_take(&h->pocket, POCKET_SPANS, large_span_granules(usable));
	if (l != NULL)
		large_start(l, size, usable);
	heap_leave(h);
	if (l == NULL)
		return NULL;
	return HAK_LIKELY(h->pace-- != 0) ? l->span.base : heap_pace(h, l->span.base);
}

/* Frees a large block, whose granule leads to `l`. False: nothing has been done. */
HAK_INLINE bool reuse_free(struct heap *h, struct large *l, void *ptr) {
	if (!reuse_frees_unseen(h) || l->span.base != ptr || !pocket_holds(l) || l->heap != NULL)
		return false;
	heap_enter(h);
	bool won = large_win(l);
	if (won && !pocket_keep(&h->pocket, l)) {
		pocket_put(&h->pocket, l);
		watch_look(h); /* what that pushes out may begin a burst */
	}
	heap_leave(h);
	if (HAK_UNLIKELY(h->pace-- == 0))
		heap_pace(h, NULL);
	return won;
}

#endif
