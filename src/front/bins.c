/* SPDX-License-Identifier: MIT */
#include "front/bins.h"

#include <string.h>

#include "base/bits.h"
#include "base/settings.h"
#include "front/misuse.h"
#include "front/sampling.h"
#include "slab/mosaic.h"
#include "space/meta.h"

/* ---- the array ---- */

HAK_NOINLINE HAK_EVERYDAY static bool make_array(struct heap *h, unsigned sc, unsigned length) {
	struct heap_class *hc = &h->classes[sc];
	size_t size = align_up((length + 1) * sizeof(void *), HAK_CACHE_LINE);
	char *memory = meta_alloc(size);
	if (memory == NULL)
		return false;
	/* As far up as it can be: what is behind the blocks lies on the line, and so the page, of those used first. */
	void **end = (void **)(void *)(memory + size) - 1;
	memcpy(end, &hak_class_codes.no_mark, sizeof *end);
	/* Release: who looks at another thread's bin may see an array that `top` is not in, and tells by its length. */
	hc->length = (uint16_t)length;
	__atomic_store_n(&hc->end, end, __ATOMIC_RELEASE);
	bin_reset(h, sc);
	return true;
}

HAK_EVERYDAY static bool has_array(struct heap *h, unsigned sc) {
	const struct heap_class *hc = &h->classes[sc];
	return HAK_LIKELY(hc->end != NULL) || make_array(h, sc, hc->capacity);
}

HAK_EVERYDAY bool bin_resize(struct heap *h, unsigned sc, unsigned capacity) {
	struct heap_class *hc = &h->classes[sc];
	bool fits = hc->end == NULL || capacity <= hc->length;
	if (!fits && !make_array(h, sc, policy_array_length(sc, capacity)))
		return false;
	hc->capacity = (uint16_t)capacity; /* only now: it never exceeds the array's length */
	bin_reset(h, sc);
	return true;
}

HAK_EVERYDAY unsigned bin_wants(struct heap *h, unsigned sc) {
	return has_array(h, sc) ? h->classes[sc].capacity / 2u : 1;
}

/* While the array is worked on, what signal handlers free does not enter it: the magic refuses every block. Nor do
   they take from it. Returns the top entry. */
HAK_NOINLINE HAK_EVERYDAY static void **shut(struct heap *h, unsigned sc) {
	struct bin *b = &h->bins[sc];
	b->magic = 0;
	atomic_signal_fence(memory_order_seq_cst);
	void **top = bin_top(b);
	b->top = bin_top_at(h->classes[sc].end);
	atomic_signal_fence(memory_order_seq_cst);
	return top;
}

/* The entries from `from` to the array's end are in the bin, which holds `room` at most. */
HAK_NOINLINE HAK_EVERYDAY static void open_for(struct heap *h, unsigned sc, void **from, unsigned room) {
	struct bin *b = &h->bins[sc];
	b->floor = (uint32_t)bin_top_at(h->classes[sc].end - room);
	b->top = bin_top_at(from);
	atomic_signal_fence(memory_order_seq_cst);
	b->magic = hak_size_classes[sc].magic; /* last: see shut */
}

HAK_NOINLINE HAK_EVERYDAY static void open_at(struct heap *h, unsigned sc, void **from) {
	struct heap_class *hc = &h->classes[sc];
	if (hc->overran == BIN_DRAINED)
		hc->overran = 0; /* it has all its room again, and readers go by that */
	open_for(h, sc, from, hc->capacity);
}

/* ---- taking ---- */

/* NULL: there is none, or the owner's signal handler has just freed a block into the bin. */
HAK_EVERYDAY static void *take_listed(struct heap *h, unsigned sc) {
	struct heap_class *hc = &h->classes[sc];
	hc->hides_list = false;
	void *p = bin_pop_listed(h, sc);
	if (HAK_UNLIKELY(p == NULL && hc->listed != 0 && bin_is_empty(&h->bins[sc]))) {
		misuse_end(sc);
		hc->listed = 0;
	}
	return p;
}

/* `top` is read once: in a fork child of a signal handler amid this, the bin is emptied (heap_forsake). */
HAK_EVERYDAY static void *take_from_array(struct heap *h, unsigned sc) {
	struct bin *b = &h->bins[sc];
	void *const *at = bin_top(b);
	while (*at != hak_class_codes.no_mark) {
		void *block = *at++;
		bool untouched = bin_is_untouched(block);
		b->top = bin_top_at(at);
		atomic_signal_fence(memory_order_release); /* as in bin_pop */
		if (HAK_LIKELY(untouched)) {
			block_set_link((uintptr_t)block, 0);
			return block;
		}
		misuse_written(MISUSE_AFTER_FREE, (uintptr_t)block, hak_size_classes[sc].size);
	}
	return NULL;
}

HAK_EVERYDAY void *bin_take(struct heap *h, unsigned sc) {
	void *p;
	do {
		p = take_from_array(h, sc);
		if (p == NULL)
			p = take_listed(h, sc);
	} while (HAK_UNLIKELY(p == NULL && !bin_is_empty(&h->bins[sc])));
	return p;
}

HAK_EVERYDAY void bin_hide(struct heap *h, unsigned sc) {
	h->classes[sc].hides_list = true;
	bin_hide_at(h, sc, 0);
}

HAK_NOINLINE HAK_EVERYDAY void bin_hide_at(struct heap *h, unsigned sc, unsigned depth) {
	void **at = bin_top(&h->bins[sc]) + depth;
	if (at < h->classes[sc].end && block_is_marked(*at))
		block_set_link((uintptr_t)*at, bin_hidden_mark());
}

HAK_COLD bool bin_contains(const struct heap *h, unsigned sc, uintptr_t block) {
	const struct heap_class *hc = &h->classes[sc];
	void *const *end = __atomic_load_n(&hc->end, __ATOMIC_ACQUIRE);
	const struct bin *bins = h->bins;
	if (bins == NULL || bins[sc].top == 0)
		return false;
	void *const *at = bin_top(&bins[sc]);
	if ((size_t)(end - at) > hc->length)
		return false;
	while (at < end && *at != (void *)block)
		at++;
	return at < end;
}

/* ---- filling ---- */

HAK_EVERYDAY void bin_check_end(const struct slab *s, uintptr_t link) {
	uintptr_t end = link_decode(link);
	if (HAK_UNLIKELY(!link_is_our_end(end) && !slab_has_block(s, end)))
		misuse_end(s->sc);
}

/* Takes up to `n` blocks off the list into the array from `to` on. Their number. */
HAK_NOINLINE HAK_EVERYDAY static unsigned take_list(const struct slab *s, uintptr_t *linkp, unsigned n, void **to) {
	const struct slab_blocks blocks = slab_blocks(s);
	const uintptr_t key = hak_secret.key, mark = hak_secret.mark;
	uintptr_t block = *linkp ^ key;
	unsigned i = 0;
	for (; i < n && slab_blocks_have(&blocks, block); i++) {
		to[i] = (void *)block;
		uintptr_t next = block_link(block) ^ key;
		block_set_link(block, mark);
		block = next;
	}
	*linkp = block ^ key;
	return i;
}

/* Of an empty bin; where the array ends. */
HAK_EVERYDAY static void **shut_empty(struct heap *h, unsigned sc) {
	shut(h, sc);
	return h->classes[sc].end;
}

/* The block at `at` is handed out. If `more` were asked for, they follow in the array, and are in the bin now. */
HAK_EVERYDAY static void *hand_out(struct heap *h, unsigned sc, void **at, bool more) {
	void *first = *at;
	block_set_link((uintptr_t)first, 0);
	if (more)
		open_at(h, sc, at + 1);
	return first;
}

HAK_EVERYDAY void *bin_fill(struct heap *h, unsigned sc, const struct slab *s, uintptr_t *linkp, unsigned n) {
	void *single, **to = n > 1 ? shut_empty(h, sc) - n : &single;
	unsigned taken = take_list(s, linkp, n, to);
	if (HAK_LIKELY(taken == n))
		return hand_out(h, sc, to, n > 1);
	bin_check_end(s, *linkp);
	*linkp = slab_end(s);
	if (n > 1)
		open_at(h, sc, to + n);
	return taken > 0 ? hand_out(h, sc, to, false) : NULL;
}

HAK_EVERYDAY void *bin_fill_holes(struct heap *h, unsigned sc, struct slab *s, unsigned max) {
	void *single, **end = max > 1 ? shut_empty(h, sc) : &single + 1;
	unsigned n = mosaic_take(s, sc, max, end);
	if (n > 0)
		return hand_out(h, sc, end - n, max > 1);
	if (max > 1)
		open_at(h, sc, end);
	return NULL;
}

HAK_EVERYDAY void *bin_fill_run(struct heap *h, unsigned sc, uintptr_t first, size_t size, unsigned n) {
	uintptr_t block = first;
	if (n == 1)
		return (void *)first;
	void **to = shut_empty(h, sc) - (n - 1);
	for (unsigned i = 0; i < n - 1; i++) {
		block += size;
		to[i] = (void *)block;
		block_set_link(block, hak_secret.mark);
	}
	open_at(h, sc, to);
	return (void *)first;
}

HAK_EVERYDAY bool bin_list(struct heap *h, unsigned sc, uintptr_t link, unsigned n) {
	struct heap_class *hc = &h->classes[sc];
	/* Whoever samples draws the blocks in the bin, and whoever counts operations must see each. Hardened, all links
	   are looked at before a block is served. */
	if (h->sampling != NULL || h->ops != NULL || hak_settings.secure != 0)
		return false;
	hc->list = link;
	hc->listed = (uint16_t)n;
	return true;
}

/* ---- emptying ---- */

/* Do the blocks on top, each in another slab, keep them? A program that frees on and on, here and there, may be about to
   have freed all: once little else keeps the slabs, the bin is hardly used until the next refill. */
HAK_EVERYDAY static bool keep_slabs(const struct heap *h, void *const *at) {
	enum { LITTLE = 8 };
	const struct slab *last = NULL;
	unsigned n = 0;
	for (unsigned i = 0; i < BIN_BURST_ROOM; i++) {
		struct pagemap_entry e = pagemap_find((uintptr_t)at[i]); /* what a bin has is a slab's */
		const struct slab *s = e.desc;
		n += s != last && heap_owns(h, e.tag) && (s->used - s->left_remote) * LITTLE < s->capacity;
		last = s;
	}
	return n > BIN_BURST_ROOM / 2;
}

HAK_EVERYDAY bool bin_make_room(struct heap *h, unsigned sc) {
	struct heap_class *hc = &h->classes[sc];
	if (HAK_UNLIKELY(hc->end == NULL))
		return has_array(h, sc);
	COUNT(h->count.bin_overflow);
	sampling_bin_emptied(h, sc);
	void **top = shut(h, sc), **older = top + (hc->end - top) / 2;
	/* A signal handler may have taken some. */
	bool is_burst = hc->overran >= BIN_BURST && hc->end - top >= BIN_BURST_ROOM && keep_slabs(h, top);
	if (is_burst)
		older = top;
	hc->overran = is_burst ? BIN_DRAINED : (uint8_t)min_size(hc->overran + 1u, BIN_BURST);
	heap_send_home(h, sc, older, hc->end);
	memmove(top + (hc->end - older), top, (size_t)(older - top) * sizeof *top);
	open_for(h, sc, top + (hc->end - older), is_burst ? BIN_BURST_ROOM : hc->capacity);
	sampling_bin_filled(h, sc);
	return true;
}

HAK_NOINLINE HAK_EVERYDAY void bin_unlist(struct heap *h, unsigned sc) {
	struct heap_class *hc = &h->classes[sc];
	unsigned n = hc->listed;
	if (n == 0)
		return;
	hc->listed = 0;
	heap_send_list_home(h, sc, hc->list, n);
}

HAK_EVERYDAY void bin_flush(struct heap *h, unsigned sc) {
	bin_unlist(h, sc);
	void **end = h->classes[sc].end;
	if (bin_is_empty(&h->bins[sc]))
		return;
	sampling_bin_emptied(h, sc);
	heap_send_home(h, sc, shut(h, sc), end);
	open_at(h, sc, end);
}

HAK_FAR bool bin_has_others(const struct heap *h, unsigned sc) {
	for (void *const *at = bin_top(&h->bins[sc]); *at != hak_class_codes.no_mark; at++)
		if (!heap_owns(h, pagemap_find((uintptr_t)*at).tag))
			return true;
	return false;
}
