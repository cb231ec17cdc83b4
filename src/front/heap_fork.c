/* SPDX-License-Identifier: MIT */
/* Heaps in a fork child, which has one thread: see abi/fork.h. */
#include <string.h>

#include "front/bins.h"
#include "front/heap_slabs.h"
#include "front/quarantine.h"
#include "front/secure.h"
#include "os/lock.h"
#include "slab/emptied.h"
#include "slab/mosaic.h"
#include "slab/pool.h"
#include "space/meta.h"

/* QUEUED slabs that will have to be routed point to themselves: a signal handler amid all this may free, and what it puts
   in an inbox points elsewhere. */
static bool is_lost(const struct slab *s) {
	return s->inbox_next == s;
}

/* All inboxes, which stay open: to look for a slab in each would take long where they are long. On top of each may lie
   what a handler has put there since QUEUED slabs were marked. */
static void empty_inboxes(void) {
	for (struct heap *h = heap_registry(); h != NULL; h = h->next)
		for (struct slab *s = inbox_take_others(&h->inbox), *next; s != NULL && !is_lost(s); s = next) {
			next = s->inbox_next;
			s->inbox_next = s;
		}
}

/* Takes all blocks but those on the remote list for used. */
static void forget_free_blocks(struct slab *s) {
	s->free = slab_end(s);
	s->free_count = 0;
	if (slab_mosaic(s) != NULL) {
		mosaic_seal(s);
	} else {
		s->carved = s->capacity = hak_size_classes[s->sc].capacity;
		if (s->has_canaries)
			secure_forget_uncarved(s);
		s->used = (uint16_t)(s->capacity - slab_reserved(s));
	}
}

/* Is that the page map's entry of a slab that has its granule? The descriptor may still say what it held before: a slab
   mapped alone, say, that is unmapped now. */
static bool is_known(const struct slab *s, struct pagemap_entry e) {
	return e.desc == s && tag_is_slab(e.tag);
}

/* Marks what is in a queue, or was on its way. A slab without an owner that is in no queue, and that the page map does
   not know or says is somebody's, or whose numbers do not add up, was being made or deleted by a thread that is gone. */
static void settle_unfinished(struct slab *s, void *arg) {
	uint64_t word = atomic_load_explicit(&s->remote, memory_order_relaxed);
	if (remote_is_queued(word))
		s->inbox_next = s;
	if ((word & REMOTE_EMPTIED) != 0 && is_known(s, pagemap_find(s->base)))
		slab_free_granule(s); /* which its looker was about to do */
	if (atomic_load_explicit(&s->owner, memory_order_relaxed) != NULL || word != 0 || list_is_linked(&s->pool_link))
		return;
	struct pagemap_entry e = pagemap_find(s->base);
	if (!is_known(s, e)) {
		slab_forget(s); /* nobody has a block of it */
		return;
	}
	if (e.tag >> TAG_OWNER_SHIFT != 0)
		slab_set_tag(s, 0);
	if (slab_mosaic(s) == NULL && !slab_adds_up(s))
		forget_free_blocks(s);
}

/* A thread that is gone was inside it: its own, or one without a thread, whose spares it gave back. */
static bool is_broken(const struct heap *h, const struct heap *mine) {
	return h != mine && h->busy && !h->locked && !h->forsaken;
}

/* The heap of a thread that is gone, which was not inside it. (A signal handler amid the repair may have got one.) */
static bool is_left(const struct heap *h, const struct heap *mine) {
	return h != mine && h != hak_tcache.heap && h->bins != NULL && !h->busy && !h->locked && !h->forsaken;
}

/* The heap's thread was stopped inside a slow path: its lists cannot be trusted, so its free blocks
   are lost to the child; what the child itself frees from now on is not. */
static void disown_broken(struct slab *s, void *mine) {
	struct inbox *owner = atomic_load_explicit(&s->owner, memory_order_relaxed);
	if (owner == NULL || !is_broken(LIST_ENTRY(owner, struct heap, inbox), mine))
		return;
	forget_free_blocks(s);
	s->ready = s->all = (struct list_node){ 0 };
	remote_disown(s);
}

/* QUEUED but in no queue: it was in an inbox, or its router is gone. PUBLISHED but not in the pool: its publisher is, or
   the pool was reset. In the pool without a block out: its reaper is gone. */
static void route_lost(struct slab *s, void *arg) {
	uint64_t word = atomic_load_explicit(&s->remote, memory_order_relaxed);
	if (!remote_is_queued(word))
		return;
	if (list_is_linked(&s->pool_link)) {
		if (remote_is_published(word) && remote_count(word) == 0)
			pool_reap(s);
	} else if (remote_is_published(word)) {
		pool_repair(s);
	} else if (is_lost(s)) {
		remote_route(s);
	}
}

/* A locked heap was in use by a thread that is gone: its free blocks are lost, not the others. */
void heap_forget_free(struct heap *h) {
	h->flushes = false;
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		struct heap_class *hc = &h->classes[sc];
		hc->end = NULL; /* it may have been about to change */
		hc->capacity = (uint16_t)policy_initial_capacity(sc);
		hc->listed = hc->overran = 0;
		bin_reset(h, sc);
		hc->current = NULL;
		hc->ready.first = NULL;
		list_relink(&hc->all);
		for (struct list_node *n = hc->all.first; n != NULL; n = n->next) {
			struct slab *s = slab_of_all_node(n);
			s->ready = (struct list_node){ 0 };
			forget_free_blocks(s);
			if (remote_has_blocks(s)) /* left there by a drain, after which no inbox has the slab */
				list_push(&hc->ready, &s->ready);
		}
	}
}

static void retire_broken(struct heap *h) {
	quarantine_forget(h);
	memset(h->classes, 0, sizeof h->classes);
	memset(h->holes, 0, sizeof h->holes);
	h->slabs = 0;
	h->spares = (struct spares){ 0 };
	h->flushes = false;
	outbox_forget(&h->outbox);
	h->pocket = (struct pocket){ 0 }; /* its blocks stay freed, kept, and nobody's */
	h->bins = NULL;
	inbox_take(&h->inbox, true); /* its slabs are QUEUED and found by route_lost */
}

/* Threads that are gone, and heaps that no thread has, count no longer, nor do their spares. */
static void recount_threads(void) {
	size_t threads = 0, spare = 0;
	for (const struct heap *h = heap_registry(); h != NULL; h = h->next) {
		threads += h->bins != NULL && !h->locked && !h->forsaken;
		spare += h->forsaken ? 0 : h->spares.counted;
	}
	hak_space.threads = threads;
	hak_space.spare = spare;
}

void heap_forsake(struct heap *h) {
	/* The interrupted call goes on with these bins, so that nobody else may: the thread's next heap has its own. */
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		bin_reset(h, sc);
		h->classes[sc].listed = 0;
	}
	inbox_take_messages(&h->inbox, true); /* nobody is to read them, */
	for (enum pocket_sort sort = 0; sort < POCKET_SORTS; sort++)
		arrivals_shut(&h->pocket.arrivals[sort]); /* or to take what comes home, which is lost */
	h->forsaken = true;
	recount_threads();
}

void heap_forget_bins(struct heap *h) {
	lock_acquire(heap_registry_lock());
	__atomic_store_n(&h->bins, NULL, __ATOMIC_RELAXED); /* under the lock: as in put_idle */
	lock_release(heap_registry_lock());
}

/* Threads that are gone may have stopped between a large block and its count. */
static void recount_large(void) {
	struct large_sums sums = large_sum();
	hak_space.big = sums.big;
	hak_space.large = sums.in_superslabs;
	hak_space.pocketed = 0;
	for (struct heap *h = heap_registry(); h != NULL; h = h->next) {
		pocket_recount(&h->pocket);
		hak_space.pocketed += pocket_spans(&h->pocket);
	}
}

/* The bins of heaps that are left: those of threads lie in their thread-local memory, which the child may use for
   anything. Empty but for the heap that is retired just now. */
HAK_LATE_IN_BSS static struct tcache left;

/* False: out of memory. */
static bool note_bins(struct heap *h) {
	if (h->left_counts == NULL)
		h->left_counts = meta_alloc(SC_COUNT * sizeof *h->left_counts);
	if (h->left_counts == NULL)
		return false;
	for (unsigned sc = 0; sc < SC_COUNT; sc++)
		h->left_counts[sc] = (uint16_t)bin_count(h, sc);
	h->bins = left.bin;
	return true;
}

bool heap_note_left(const struct heap *mine) {
	bool all = true;
	for (struct heap *h = heap_registry(); h != NULL && all; h = h->next)
		all = !is_left(h, mine) || h->bins == left.bin || note_bins(h);
	return all;
}

static void retire_left(struct heap *h) {
	heap_enter(h);
	for (unsigned sc = 0; sc < SC_COUNT && h->bins == left.bin; sc++) {
		left.bin[sc] = bin_empty(&h->classes[sc], sc);
		left.bin[sc].top -= h->left_counts[sc] * sizeof(void *);
	}
	heap_retire(h);
}

void heap_repair_after_fork(struct heap *mine) {
	bool any_broken = false;
	for (struct heap *h = heap_registry(); h != NULL; h = h->next)
		any_broken |= is_broken(h, mine);
	if (any_broken)
		slab_for_each(disown_broken, mine);
	for (struct heap *h = heap_registry(); h != NULL; h = h->next)
		if (is_broken(h, mine))
			retire_broken(h);
	slab_for_each(settle_unfinished, NULL);
	empty_inboxes();
	slab_for_each(route_lost, NULL);
	for (struct heap *h = heap_registry(); h != NULL; h = h->next)
		if (is_left(h, mine))
			retire_left(h);
	/* The slabs are in order now, and all that heaps had to send is sent. It goes to them, also what this thread could
	   read: else a message that is OUT would not tell whether it lies there or was in the hands of a reader who is gone. */
	for (struct heap *h = heap_registry(); h != NULL; h = h->next)
		if (!h->locked && (h == mine || h->bins == NULL))
			heap_close_messages(h);
	if (mine != NULL)
		inbox_open(&mine->inbox);
	for (struct heap *h = heap_registry(); h != NULL; h = h->next)
		outbox_recall(&h->outbox);
	recount_large();
	recount_threads();
}
