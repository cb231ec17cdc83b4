/* SPDX-License-Identifier: MIT */
/* All heaps: how they are made, kept while no thread has them, and taken up again; and how a thread's ends. */
#include "front/heap.h"

#include <string.h>

#include "base/settings.h"
#include "front/bins.h"
#include "front/heap_slabs.h"
#include "front/quarantine.h"
#include "front/secure.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/meta.h"

/* `first` is read without the lock: it only ever grows at the front. The rest is under `lock`. */
static struct {
	struct lock lock;
	_Atomic(struct heap *) first;
	struct heap *idle;        /* thread heaps without a thread; they may have slabs */
	struct heap *idle_locked; /* likewise of locked heaps; they have none */
	bool has_first;           /* a thread heap was made */
	uint32_t owners;          /* owner numbers given out */
} registry;

_Atomic bool hak_idle_spares; /* written under the lock */

struct lock *heap_registry_lock(void) {
	return &registry.lock;
}

const void *heap_registry_first(void) {
	return &registry.first;
}

struct heap *heap_registry(void) {
	/* Acquire: the heap's constant fields. */
	return atomic_load_explicit(&registry.first, memory_order_acquire);
}

/* ---- making and retiring heaps ---- */

HAK_EVERYDAY static struct heap *new_heap_locked(bool locked) {
	if (registry.owners == TAG_OWNER_MAX)
		return NULL;
	struct heap *h = meta_alloc(sizeof *h);
	if (h == NULL)
		return NULL;
	heap_enter(h); /* before it is in the registry: heap_registry_reset */
	h->locked = locked;
	h->is_first = !locked && !registry.has_first;
	registry.has_first |= h->is_first;
	h->tag = ++registry.owners << TAG_OWNER_SHIFT;
	h->sparse_class = 1;
	h->looked = os_cycles(); /* nothing is due yet */
	policy_init(&h->policy);
	for (unsigned sc = 1; sc < SC_COUNT; sc++)
		h->classes[sc].capacity = (uint16_t)policy_initial_capacity(sc);
	h->next = atomic_load_explicit(&registry.first, memory_order_relaxed);
	/* Release: the heap's constant fields. */
	atomic_store_explicit(&registry.first, h, memory_order_release);
	return h;
}

HAK_EVERYDAY static struct heap **idle_list(bool locked) {
	return locked ? &registry.idle_locked : &registry.idle;
}

HAK_EVERYDAY static void count_thread(const struct heap *h, ptrdiff_t change) {
	if (!h->locked)
		count_shared(&hak_space.threads, (size_t)change);
}

/* It stays busy until it has no bins, or a fork child would take it for whole, and retire it again; and until it is on the
   list, or it would be put there twice. */
HAK_EVERYDAY static void push_idle_locked(struct heap *h) {
	h->next_idle = *idle_list(h->locked);
	*idle_list(h->locked) = h;
	if (spares_are_there(&h->spares))
		atomic_store_explicit(&hak_idle_spares, true, memory_order_relaxed);
	heap_leave(h);
}

HAK_EVERYDAY static void put_idle(struct heap *h) {
	count_thread(h, -1);
	if (spares_are_there(&h->spares))
		h->idle_ms = os_now_ms();
	lock_acquire(&registry.lock);
	__atomic_store_n(&h->bins, NULL, __ATOMIC_RELAXED); /* under the lock: others look, see heap_registry_first */
	push_idle_locked(h);
	lock_release(&registry.lock);
}

/* Takes those heaps out, as a list, that have spares, and no thread since that time. */
HAK_COLD static struct heap *take_idle(uint64_t before_ms) {
	struct heap *list = NULL, *h;
	bool others = false;
	lock_acquire(&registry.lock);
	for (struct heap **at = &registry.idle; (h = *at) != NULL;) {
		if (h->spares.count == 0 || h->idle_ms > before_ms) {
			others |= h->spares.count != 0;
			at = &h->next_idle;
			continue;
		}
		heap_enter(h);
		*at = h->next_idle;
		h->next_idle = list;
		list = h;
	}
	atomic_store_explicit(&hak_idle_spares, others, memory_order_relaxed);
	lock_release(&registry.lock);
	return list;
}

HAK_COLD void heap_relieve_idle(uint64_t before_ms) {
	if (!heap_has_idle_spares())
		return;
	for (struct heap *h = take_idle(before_ms), *next; h != NULL; h = next) {
		next = h->next_idle;
		heap_delete_empty(h, NULL);
		lock_acquire(&registry.lock);
		push_idle_locked(h);
		lock_release(&registry.lock);
	}
}

/* What hardening needs beside. False: out of memory. */
HAK_EVERYDAY static bool harden(struct heap *h) {
	if (h->own_bins == NULL)
		h->own_bins = meta_alloc(SC_COUNT * sizeof *h->own_bins);
	if (secure_has_canaries() && h->quarantine == NULL)
		h->quarantine = quarantine_new();
	return h->own_bins != NULL && (!secure_has_canaries() || h->quarantine != NULL);
}

/* Seeds differ between heaps and processes. A thread goes on where the heap's last one ended: short ones would all have
   the same sequence, and none its guarded block. */
HAK_EVERYDAY void heap_seed(struct heap *h) {
	if (hak_settings.verbose || secure_has_canaries() || hak_settings.guard_rate != 0)
		h->thread = os_thread_id();
	if (h->random == 0) {
		h->random = (((uintptr_t)h ^ os_facts.random[0]) + h->thread) * 0x9e3779b97f4a7c15 | 1;
		if (hak_settings.guard_rate != 0)
			h->until_guard = (int64_t)(secure_random(h) % (2 * (uint64_t)hak_settings.guard_rate));
	}
}

HAK_EVERYDAY struct heap *heap_acquire(struct bin *bins, bool locked) {
	lock_acquire(&registry.lock);
	struct heap *h = *idle_list(locked);
	if (h != NULL) {
		heap_enter(h); /* until the caller is done with setting up */
		*idle_list(locked) = h->next_idle;
	} else {
		h = new_heap_locked(locked);
	}
	lock_release(&registry.lock);
	if (h == NULL)
		return NULL;
	count_thread(h, 1);
	if (bins == NULL && !harden(h)) {
		put_idle(h);
		return NULL;
	}
	if (bins == NULL)
		bins = h->own_bins;
	heap_seed(h);
	for (unsigned sc = 1; sc < SC_COUNT; sc++)
		bins[sc] = bin_empty(&h->classes[sc], sc);
	/* Release: own_bins, see heap_call_threads. */
	__atomic_store_n(&h->bins, bins, __ATOMIC_RELEASE);
	inbox_open(&h->inbox);
	return h;
}

HAK_COLD void heap_count_ops(struct heap *h, struct bin *visible) {
	if (h->ops == NULL)
		h->ops = meta_alloc(sizeof *h->ops);
	if (h->ops == NULL)
		return;
	memcpy(h->ops->bins, visible, sizeof h->ops->bins);
	memset(visible, 0, sizeof h->ops->bins);
	/* Release: ops, see heap_call_threads. */
	__atomic_store_n(&h->bins, h->ops->bins, __ATOMIC_RELEASE);
}

/* ---- flush, retire, destroy ---- */

HAK_EVERYDAY static void bring_home(struct heap *h) {
	h->flushes = true;
	heap_read_messages(h, 0);
	for (unsigned sc = 1; sc < SC_COUNT; sc++)
		bin_flush(h, sc);
	outbox_flush(&h->outbox);
	pocket_release(&h->pocket);
	heap_drain_inbox(h);
	h->flushes = false;
}

void heap_flush(struct heap *h) {
	bring_home(h);
	heap_delete_empty(h, NULL);
}

/* Unless it is a spare. */
HAK_EVERYDAY static void disown_slab(struct heap *h, struct slab *s) {
	if (spares_are_there(&h->spares) && remote_all_home(s))
		return;
	heap_unlink_slab(h, s);
	remote_disown(s);
}

static void close_inbox(struct heap *h) {
	struct slab *s = inbox_take(&h->inbox, true), *next;
	for (; s != NULL; s = next) {
		next = s->inbox_next;
		remote_route(s);
	}
	heap_close_messages(h);
}

HAK_EVERYDAY void heap_retire(struct heap *h) {
	if (h->quarantine != NULL) /* which would be asked there, too, but far from what every process runs */
		quarantine_flush(h);
	bring_home(h);
	spares_leave(h);
	h->sampling = NULL;
	h->sampling_seen = h->bursts_seen = 0; /* the next thread sees to what is left */
	h->is_watched = false;
	pocket_shut(&h->pocket);
	memset(h->bins, 0, SC_COUNT * sizeof *h->bins);
	if (hak_settings.adopt) {
		heap_for_each_slab(h, disown_slab);
		close_inbox(h);
	}
	put_idle(h);
}

/* What is freed keeps no contents in secure levels, and it is all freed here. */
static void destroy_slab(struct heap *h, struct slab *s) {
	struct slab *list = NULL;
	heap_leave_slab(h, s, &list);
	size_t guard = s->has_guard ? os_facts.page_size : 0;
	if (secure_is_on() && !os_purge((void *)s->base, GRANULE))
		memset((void *)(s->base + guard), 0, GRANULE - guard);
	slab_delete_all(list);
}

HAK_COLD void heap_destroy_slabs(struct heap *h) {
	/* Nobody frees blocks of this heap any longer, and none of them is in an outbox (they are posted
	   at once), so emptying the inbox leaves no slab queued. */
	inbox_take(&h->inbox, false);
	for (unsigned sc = 1; sc < SC_COUNT; sc++)
		h->classes[sc].listed = 0;
	heap_for_each_slab(h, destroy_slab);
	memset(h->bins, 0, SC_COUNT * sizeof *h->bins);
	put_idle(h);
}

HAK_COLD void heap_call_threads(bool try) {
	if (hak_settings.secure != 0)
		return; /* all of them do, always; `bins` are not threads' */
	if (!try)
		lock_acquire(&registry.lock);
	else if (!lock_try(&registry.lock))
		return;
	/* What the threads are called for comes first: heap_count_frees. */
	atomic_thread_fence(memory_order_seq_cst);
	/* A heap loses its bins under the lock, so these are of living threads. Acquire: whether they are the thread's.
	   Relaxed: a thread that does not see it yet sees it soon; one whose operations are counted is always on the slow
	   path. */
	for (struct heap *h = heap_registry(); h != NULL; h = h->next) {
		struct bin *bins = __atomic_load_n(&h->bins, __ATOMIC_ACQUIRE);
		if (bins != NULL && bins != h->own_bins && h->ops == NULL && !h->locked && !h->forsaken)
			__atomic_store_n(&tcache_of_bins(bins)->tag, TAG_MATCHES_NONE, __ATOMIC_RELAXED);
	}
	lock_release(&registry.lock);
}

/* A heap on its way from or to a list is busy: it is broken, and lost. */
void heap_registry_reset(void) {
	registry.idle = registry.idle_locked = NULL;
	for (struct heap *h = heap_registry(); h != NULL; h = h->next)
		if (h->bins == NULL && !h->busy && !h->forsaken)
			push_idle_locked(h);
}
