/* SPDX-License-Identifier: MIT */
#include "front/locked_heap.h"

#include "front/alloc.h"
#include "front/bigcache.h"
#include "front/large.h"
#include "front/secure.h"
#include "front/sleepers.h"
#include "space/meta.h"

static struct {
	struct lock lock;
	struct list unused;
	struct locked_heap *all;
} locked;

static struct locked_heap *new_descriptor(void) {
	lock_acquire(&locked.lock);
	struct list_node *n = locked.unused.first;
	struct locked_heap *lh = NULL;
	if (n != NULL) {
		list_remove(n);
		lh = LIST_ENTRY(n, struct locked_heap, unused);
	} else if ((lh = meta_alloc(sizeof *lh)) != NULL) {
		lh->next = locked.all;
		/* Release: who walks them without the lock sees the link. */
		__atomic_store_n(&locked.all, lh, __ATOMIC_RELEASE);
	}
	lock_release(&locked.lock);
	return lh;
}

static void put_descriptor(struct locked_heap *lh) {
	lock_acquire(&locked.lock);
	list_push(&locked.unused, &lh->unused);
	lock_release(&locked.lock);
}

static struct locked_heap *make(void) {
	struct locked_heap *lh = new_descriptor();
	if (lh == NULL)
		return NULL;
	struct heap *h = heap_acquire(lh->bins, true);
	if (h == NULL) {
		put_descriptor(lh);
		return NULL;
	}
	heap_leave(h); /* its lock says whether it is in use */
	lock_acquire(&lh->lock);
	lh->heap = h;
	lock_release(&lh->lock);
	return lh;
}

struct locked_heap *locked_heap_new(void) {
	struct locked_heap *lh;
	for (bool again = false; (lh = make()) == NULL && !again; again = true)
		release_unused(); /* as for a thread's heap (lifecycle.c) */
	return lh;
}

void *locked_heap_alloc(struct locked_heap *lh, size_t size, size_t align, bool zero) {
	lock_acquire(&lh->lock);
	void *p = alloc_block(lh->heap, size, align, zero);
	struct large *l = p != NULL ? large_of((uintptr_t)p) : NULL;
	if (l != NULL) {
		l->heap = lh;
		list_push(&lh->larges, &l->heap_link);
	}
	lock_release(&lh->lock);
	if (inboxes_wait() && !hak_tcache.torn_down) /* which heap_look leaves to us */
		sleepers_relieve(false);
	return p;
}

void locked_heap_forget(struct locked_heap *lh, struct large *l) {
	struct lock *lock = &lh->lock;
	lock_acquire(lock);
	if (list_is_linked(&l->heap_link))
		list_remove(&l->heap_link);
	lock_release(lock);
}

/* All that are in nobody's hands this moment. */
HAK_COLD static void for_each_idle(void (*call)(struct heap *h)) {
	for (struct locked_heap *lh = __atomic_load_n(&locked.all, __ATOMIC_ACQUIRE); lh != NULL; lh = lh->next) {
		if (!lock_try(&lh->lock))
			continue;
		if (lh->heap != NULL)
			call(lh->heap);
		lock_release(&lh->lock);
	}
}

void locked_heap_flush_all(void) {
	for_each_idle(heap_flush);
}

static void drain_whole(struct heap *h) {
	/* Relaxed: a hint. */
	if (atomic_load_explicit(&h->inbox.whole, memory_order_relaxed) != 0)
		heap_drain_inbox(h);
}

void locked_heap_drain(void) {
	for_each_idle(drain_whole);
}

void locked_heap_destroy(struct locked_heap *lh) {
	lock_acquire(&lh->lock);
	struct heap *h = lh->heap;
	lh->heap = NULL; /* others may be about to flush it */
	lock_release(&lh->lock);
	while (lh->larges.first != NULL) {
		struct large *l = LIST_ENTRY(lh->larges.first, struct large, heap_link);
		list_remove(&l->heap_link);
		secure_check_large(OP_FREE, l, KIND_FREED);
		large_free(NULL, l);
	}
	heap_destroy_slabs(h);
	put_descriptor(lh);
}

bool locked_heap_holds_locks(void) {
	const struct locked_heap *lh = locked.all;
	while (lh != NULL && !lock_is_held(&lh->lock))
		lh = lh->next;
	return lh != NULL || lock_is_held(&locked.lock);
}

void locked_heap_repair_after_fork(void) {
	if (lock_is_held(&locked.lock)) {
		lock_reset(&locked.lock);
		locked.unused.first = NULL;
	}
	for (struct locked_heap *lh = locked.all; lh != NULL; lh = lh->next) {
		if (!lock_is_held(&lh->lock))
			continue;
		lock_reset(&lh->lock);
		list_relink(&lh->larges);
		if (lh->heap != NULL)
			heap_forget_free(lh->heap);
	}
}
