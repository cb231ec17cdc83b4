/* SPDX-License-Identifier: MIT */
/*
 * The watch: after a burst of frees, what is left of it has to go back when the purge delay is over, and
 * that is looked at on slow paths. But a program may go on with blocks of one size that its bin serves for
 * ever: a malloc and its free leave the bin as it was, so there is nothing on the fast paths that runs out.
 *
 * So every thread is called by when a burst begins (heap_call_threads), and for two delays after its end its
 * frees are counted (struct counted), which costs each a few ns: every so many of a class, one takes the slow
 * path. How many follows how fast they come. Where all frees are out of line anyway nothing is needed, and
 * nothing is done for delays above WATCH_DELAY_MOST.
 *
 * Touched by the heap's thread, on slow paths.
 */
#ifndef HAK_FRONT_WATCH_H
#define HAK_FRONT_WATCH_H

#include <stdatomic.h>

#include "front/heap.h"
#include "space/purge.h"

enum {
	WATCH_DELAY_MOST = 5000, /* ms */
};

struct watch {
	struct counted counted;
	uint16_t frees[SC_COUNT];  /* between the last look, by a free of the class, and the next */
	uint64_t looked[SC_COUNT]; /* in os_cycles */
	uint64_t asked;            /* as of which look of the heap's (heap_look) the end was asked for */
};

void watch_begin(struct heap *h);

/* A thread that is watched frees a block on the slow path. */
void watch_count(struct heap *h, uintptr_t block);

/* May a thread that is watched free one more large block, or of a mosaic or another thread, unseen? Counts it. */
HAK_INLINE bool watch_lets_pass(const struct heap *h) {
	struct counted *c = hak_tcache.counted;
	if (!h->is_watched || c == NULL || c->left[COUNTED_REST] <= 0)
		return false;
	c->left[COUNTED_REST]--;
	return true;
}

/* Was there a burst that the thread has not seen? */
HAK_INLINE bool watch_is_due(const struct heap *h) {
	/* Acquire: the time of the burst. */
	return h->bursts_seen != atomic_load_explicit(&hak_purge_bursts.count, memory_order_acquire);
}

/* The thread's frees are about to be quick though it was not watched to the end, or not at all meanwhile: the last
   burst is one that it has not seen. watch_look has to follow. */
HAK_INLINE void watch_again(struct heap *h) {
	h->is_watched = false;
	h->bursts_seen--;
}

/* A thread has freed one there, or has just begun: bursts before that are its business, too. */
HAK_INLINE void watch_look(struct heap *h) {
	if (HAK_UNLIKELY(watch_is_due(h)))
		watch_begin(h);
}

#endif
