/* SPDX-License-Identifier: MIT */
/* What a heap's thread does every few dozen milliseconds, if anything waits: gives back what has waited long enough. */
#include "base/bits.h"
#include "base/settings.h"
#include "front/bigcache.h"
#include "front/bins.h"
#include "front/heap_slabs.h"
#include "front/sleepers.h"
#include "os/os.h"
#include "space/purge.h"

/* Makes the next request of each class take the slow path, by data. */
static void hide_bins(struct heap *h) {
	for (unsigned sc = 1; sc < SC_COUNT; sc++)
		bin_hide(h, sc);
}

/* Of others' blocks each may be all that keeps a slab. */
HAK_FAR static void send_others_home(struct heap *h) {
	h->keeps_others = false;
	for (unsigned sc = 1; sc < SC_COUNT; sc++)
		if (bin_has_others(h, sc))
			bin_flush(h, sc);
}

/* Slabs that stayed in their class though they are empty serve any class after the purge delay. */
static void give_up_empty(struct heap *h) {
	uint64_t now = os_now_ms();
	if (h->kept_ms == 0)
		h->kept_ms = now;
	if (hak_settings.purge_delay_ms < 0 || now - h->kept_ms < (uint64_t)hak_settings.purge_delay_ms)
		return;
	h->kept_ms = 0;
	h->keeps_empty = false;
	if (HAK_UNLIKELY(h->keeps_others))
		send_others_home(h);
	heap_delete_empty(h, NULL);
}

HAK_COLD static void relieve_idle(void) {
	enum { LOOKS = 4 }; /* while a purge delay passes */
	static _Atomic uint64_t last;
	uint64_t now = os_now_ms(), delay = (uint64_t)hak_settings.purge_delay_ms;
	/* Relaxed: as in relieve_arrivals. */
	if (hak_settings.purge_delay_ms < 0 || now - atomic_load_explicit(&last, memory_order_relaxed) < delay / LOOKS)
		return;
	atomic_store_explicit(&last, now, memory_order_relaxed);
	heap_relieve_idle(now - min_size(delay, now));
}

HAK_COLD void heap_relieve_pockets(bool old_only) {
	bool any = false;
	for (struct heap *h = heap_registry(); h != NULL; h = h->next)
		any |= pocket_relieve(&h->pocket, old_only);
	if (any)
		atomic_store_explicit(&hak_arrivals_wait, true, memory_order_relaxed);
}

/* What came home to threads that sleep since is given back by those that do not. */
HAK_COLD static void relieve_arrivals(uint64_t now) {
	enum { MOMENTS = 8 };
	static _Atomic uint64_t last;
	/* Relaxed: two that do it at once do no harm. */
	if (now - atomic_load_explicit(&last, memory_order_relaxed) < MOMENTS * OS_CYCLES_A_MOMENT)
		return;
	atomic_store_explicit(&last, now, memory_order_relaxed);
	/* Sequentially consistent: before this looks what is there, as senders look here after they have sent. */
	atomic_store_explicit(&hak_arrivals_wait, false, memory_order_seq_cst);
	heap_relieve_pockets(true);
}

/* A program that all but idles would not come here for minutes: hence the hiding. */
HAK_EVERYDAY bool heap_look(struct heap *h) {
	uint64_t now = os_cycles();
	if (now - h->looked < OS_CYCLES_A_MOMENT && (h->locked || HAK_LIKELY(!inboxes_overflow())))
		return false;
	h->looked = now;
	outbox_flush(&h->outbox);
	/* While classes have blocks of their own no refill asks what others have freed. */
	heap_drain_inbox(h);
	purge_tick();
	bigcache_tick();
	pocket_tick(&h->pocket);
	if (HAK_UNLIKELY(arrivals_wait()))
		relieve_arrivals(now);
	if (HAK_UNLIKELY(h->keeps_empty))
		give_up_empty(h);
	if (heap_has_idle_spares())
		relieve_idle();
	if (inboxes_wait() && !h->locked) /* it takes too long for who waits for the lock */
		sleepers_relieve(false);
	if (!h->locked)
		hide_bins(h);
	return true;
}
