/* SPDX-License-Identifier: MIT */
#include "front/watch.h"

#include "base/bits.h"
#include "base/settings.h"
#include "front/bigcache.h"
#include "os/os.h"
#include "space/meta.h"

enum { FREES_MOST = 256 };
#define SOON (OS_CYCLES_A_MOMENT / 16)

/* The first who sees a burst calls the others. */
static void call_others(uint32_t burst) {
	static _Atomic uint32_t called;
	/* Relaxed: once is enough, twice does no harm. */
	if (atomic_exchange_explicit(&called, burst, memory_order_relaxed) != burst)
		heap_call_threads(false);
}

/* Does the thread take the fast path of free? (The heap may be one that a fork child has forsaken.) */
static bool is_quick(const struct heap *h) {
	return hak_tcache.heap == h && h->bins == hak_tcache.bin && hak_tcache.counted == NULL;
}

static void begin(struct heap *h) {
	if (h->watch == NULL)
		h->watch = meta_alloc(sizeof *h->watch);
	/* Never, which is -1, is above it, too. */
	if (h->watch == NULL || (uint64_t)hak_settings.purge_delay_ms > WATCH_DELAY_MOST) {
		heap_count_frees(h, NULL);
		return;
	}
	*h->watch = (struct watch){ .counted.mask = counted_mask(h->tag) };
	h->is_watched = true;
	heap_count_frees(h, &h->watch->counted);
}

static uint64_t age_of_burst(void) {
	/* Acquire: the clock is read after that, or the burst might be one of the future. */
	uint64_t last = atomic_load_explicit(&hak_purge_bursts.last_ms, memory_order_acquire);
	return os_now_ms() - last;
}

/* Is nothing left of it? Early on there may be more to come. */
static bool is_settled(const struct heap *h) {
	return age_of_burst() > (uint64_t)hak_settings.purge_delay_ms / 2 && !purge_pending() && bigcache_is_empty() &&
		pocket_is_empty(&h->pocket) && !arrivals_wait();
}

static bool is_over(const struct heap *h) {
	return age_of_burst() > 2 * (uint64_t)hak_settings.purge_delay_ms || is_settled(h);
}

/* Asked once a look, whoever looked: others do so, too, and would leave this one none. */
static bool still_waits(struct heap *h) {
	heap_look(h);
	if (h->watch->asked == h->looked)
		return true;
	h->watch->asked = h->looked;
	return !is_over(h);
}

/* Frees of a class may be as many more before the next look if they come fast. */
static void set_frees(struct watch *w, unsigned sc) {
	uint64_t now = os_cycles();
	bool soon = now - w->looked[sc] < SOON;
	w->looked[sc] = now;
	w->frees[sc] = soon ? (uint16_t)min_size(w->frees[sc] * 2u, FREES_MOST) : 1;
	w->counted.left[sc] = w->frees[sc];
}

void watch_count(struct heap *h, uintptr_t block) {
	uint32_t code = pagemap_find(block).tag ^ h->tag;
	unsigned sc = code < SC_CODE_END ? code >> SC_CODE_SHIFT : COUNTED_REST;
	if (!still_waits(h)) {
		h->is_watched = false;
		heap_count_frees(h, NULL);
	} else if (h->watch->counted.left[sc] <= 0) {
		set_frees(h->watch, sc);
	}
}

void watch_begin(struct heap *h) {
	uint32_t burst = atomic_load_explicit(&hak_purge_bursts.count, memory_order_acquire);
	h->bursts_seen = burst;
	if (is_settled(h))
		return;
	call_others(burst);
	if (!h->is_watched && is_quick(h))
		begin(h);
}
