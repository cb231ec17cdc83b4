/* SPDX-License-Identifier: MIT */
/*
 * Bins beyond the fast paths: the arrays they are in, and how they are filled, emptied and grow. All need what
 * front/heap.h asks of whoever touches a heap.
 *
 * A class gets its array with its first refill or free, a second one when the bin grows, and a third one, as long as
 * it may ever need, if it grows on; entries never move but when the older half of a full bin goes home. Meanwhile, and
 * while it is filled, the bin refuses what the owner's signal handlers free, which goes another way. Between any other
 * two stores they may free, as long as the bin has room: at worst their block is lost.
 *
 * What other threads freed comes back as a list, which is left as it is: its blocks are in those threads' caches, and
 * the processor waits for many of them at a time only if each is asked for when it is needed.
 *
 * The block on top may be *hidden*: it begins with a word that is no mark to malloc, which therefore takes the
 * slow path, but ends as marks do, so free still sees that it is free.
 */
#ifndef HAK_FRONT_BINS_H
#define HAK_FRONT_BINS_H

#include "front/heap.h"

/* What a hidden block begins with: a mark in which bytes amid the word are different, as by no slip of a program. */
HAK_INLINE uintptr_t bin_hidden_mark(void) {
	return hak_secret.mark ^ 0x5a5a5a5a00;
}

/* Is a block in a bin as we left it? */
HAK_INLINE bool bin_is_untouched(const void *block) {
	return HAK_LIKELY(block_is_marked(block)) || block_link((uintptr_t)block) == bin_hidden_mark();
}

/* Behind the oldest block lies what a bin without an array has for its top entry. */
HAK_INLINE bool bin_is_empty(const struct bin *b) {
	return *bin_top(b) == hak_class_codes.no_mark;
}

/* Blocks in the bin of class `sc`. */
HAK_INLINE unsigned bin_count(const struct heap *h, unsigned sc) {
	const struct bin *b = &h->bins[sc];
	return b->top != 0 ? (unsigned)(h->classes[sc].end - bin_top(b)) : 0;
}

/* Are some of them of other heaps' slabs? */
bool bin_has_others(const struct heap *h, unsigned sc);

/* An empty bin of the class. */
HAK_INLINE struct bin bin_empty(const struct heap_class *hc, unsigned sc) {
	struct bin b = { .magic = hak_size_classes[sc].magic };
	if (hc->end == NULL)
		return b;
	b.top = bin_top_at(hc->end);
	b.floor = (uint32_t)bin_top_at(hc->end - hc->capacity);
	return b;
}

/* Whoever calls has taken what was in the bin, or gives it up. */
HAK_INLINE void bin_reset(struct heap *h, unsigned sc) {
	h->bins[sc] = bin_empty(&h->classes[sc], sc);
}

/* The next block of the list, while the bin is empty. NULL: there is none, or it has to be looked at. Inline: where one
   thread frees what another makes, each malloc comes here. */
HAK_INLINE void *bin_pop_listed(struct heap *h, unsigned sc) {
	struct heap_class *hc = &h->classes[sc];
	const struct bin *b = &h->bins[sc];
	if (hc->listed == 0 || hc->hides_list || !bin_is_empty(b))
		return NULL;
	uintptr_t block = link_decode(hc->list), next = link_decode(block_link(block));
	uint32_t remainder = (uint16_t)next * b->magic;
	/* All are of one slab. */
	if (HAK_UNLIKELY((next ^ block) >= GRANULE || remainder >= b->magic)) {
		if (!link_is_our_end(next))
			return NULL;
		hc->listed = 1;
	}
	hc->list = link_encode(next);
	atomic_signal_fence(memory_order_release); /* what is counted is on the list, but for one: heap_send_list_home */
	hc->listed--;
	atomic_signal_fence(memory_order_release); /* as in bin_pop */
	block_set_link(block, 0);
	return (void *)block;
}

/* `n` blocks of one slab, on the list that `link` leads to, come when the bin, which is empty, is empty again. False:
   they must not. */
bool bin_list(struct heap *h, unsigned sc, uintptr_t link, unsigned n);

/* The list comes home. */
void bin_unlist(struct heap *h, unsigned sc);

/* The block on top of the bin, or the next of the list, though it be hidden; NULL: there is none. One that was written
   to is reported and left alone; if the list was, that is said, and it is given up. */
void *bin_take(struct heap *h, unsigned sc);

/* The next request for class `sc` takes the slow path; the one that comes to the block at `depth`, if there is one,
   does. */
void bin_hide(struct heap *h, unsigned sc);
void bin_hide_at(struct heap *h, unsigned sc, unsigned depth);

/* A list of the slab's blocks ends with this link, or could go on: blocks that a signal handler freed amid a slow path
   may be missing, or more than were counted. Else it was written to, which is said. */
void bin_check_end(const struct slab *s, uintptr_t link);

/* Takes the first `n` blocks off a list of blocks in slab `s`, which is no mosaic: hands out the first and puts the
   others in the bin, which is empty, in their order. `linkp`: the link to the rest. The list was written to if it leads
   to other than blocks: then all are lost but the first, or NULL if that is none, either. */
void *bin_fill(struct heap *h, unsigned sc, const struct slab *s, uintptr_t *linkp, unsigned n);

/* Likewise up to `max` blocks out of the holes of a mosaic. NULL: none fits. */
void *bin_fill_holes(struct heap *h, unsigned sc, struct slab *s, unsigned max);

/* Likewise `n` > 0 neighbours of `size` bytes, the first of which is handed out as it is. */
void *bin_fill_run(struct heap *h, unsigned sc, uintptr_t first, size_t size, unsigned n);

/* Blocks that a refill may ask for. */
unsigned bin_wants(struct heap *h, unsigned sc);

/* Makes room in a bin that is full: the older half of it goes home. False: there is no memory for a bin. */
bool bin_make_room(struct heap *h, unsigned sc);

/* Brings the blocks home. */
void bin_flush(struct heap *h, unsigned sc);

/* The bin, which is empty, holds so many blocks from here on. False: there is no memory for that. */
bool bin_resize(struct heap *h, unsigned sc, unsigned capacity);

/* Is the block in the bin? Any thread; a guess where the bin is another's. */
bool bin_contains(const struct heap *h, unsigned sc, uintptr_t block);

#endif
