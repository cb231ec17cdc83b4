/* SPDX-License-Identifier: MIT */
#include "slab/pool.h"

#include "build_options.h"
#include "slab/emptied.h"
#include "slab/mosaic.h"

enum { TRIES = 16 }; /* slabs looked at while the lock is held */

HAK_LATE_IN_BSS struct pool hak_pools[SC_COUNT];

static uint64_t full; /* pool_full */
static_assert(SC_COUNT <= 64, "a bit per class");

/* Has any slab been published? Until then nobody needs to look at the pools, which are on a page of their own. */
static bool has_begun;

/* Takes the lock. */
HAK_EVERYDAY static void enter(struct pool *p) {
	bool waited = !lock_try(&p->lock);
	if (waited)
		lock_acquire_slow(&p->lock, true);
	if (HAK_STATS) {
		p->counters.locks++;
		p->counters.waits += waited;
	}
}

HAK_EVERYDAY static unsigned index_of(const struct slab *s) {
	return slab_mosaic(s) != NULL ? 0 : s->sc;
}

struct lock *pool_lock(unsigned sc) {
	return &hak_pools[sc].lock;
}

/* Clears PUBLISHED. False: the last block has just come home and its poster is about to reap. */
HAK_EVERYDAY static bool unpublish(struct slab *s) {
	/* Acquire: the owner fields that the publisher wrote, and the posters' links. Release: as in
	   try_publish. */
	uint64_t old = atomic_load_explicit(&s->remote, memory_order_acquire), new;
	do {
		if (remote_count(old) == 0)
			return false;
		new = remote_pack(remote_first(old), s->used - remote_count(old), REMOTE_QUEUED);
	} while (!atomic_compare_exchange_weak_explicit(&s->remote, &old, new, memory_order_acq_rel,
	                                                memory_order_acquire));
	return true;
}

HAK_COLD static void unpublish_if_class(struct slab *s, void *arg) {
	if (index_of(s) != *(unsigned *)arg)
		return;
	s->pool_link = (struct list_node){ 0 };
	if (remote_is_published(atomic_load_explicit(&s->remote, memory_order_relaxed)))
		unpublish(s);
}

HAK_COLD void pool_reset(unsigned sc) {
	hak_pools[sc].slabs.first = NULL;
	hak_pools[sc].count = 0;
	full &= ~((uint64_t)1 << sc);
	slab_for_each(unpublish_if_class, &sc);
}

HAK_EVERYDAY unsigned pool_count(unsigned sc) {
	/* Relaxed, both: a slab published this moment is found the next time. */
	return __atomic_load_n(&has_begun, __ATOMIC_RELAXED) ? __atomic_load_n(&hak_pools[sc].count, __ATOMIC_RELAXED) : 0;
}

HAK_EVERYDAY uint64_t pool_full(void) {
	/* Relaxed: as in pool_count. */
	return __atomic_load_n(&full, __ATOMIC_RELAXED);
}

HAK_EVERYDAY static void set_count(struct pool *p, unsigned n) {
	uint64_t bit = (uint64_t)1 << (p - hak_pools);
	/* Relaxed: as in pool_count. */
	__atomic_store_n(&p->count, n, __ATOMIC_RELAXED);
	if (n == POOL_FULL)
		__atomic_fetch_or(&full, bit, __ATOMIC_RELAXED);
	else if (n == POOL_FULL - 1)
		__atomic_fetch_and(&full, ~bit, __ATOMIC_RELAXED);
}

static struct slab *of_pool_node(struct list_node *n) {
	return LIST_ENTRY(n, struct slab, pool_link);
}

HAK_EVERYDAY HAK_NOINLINE static void unlink_locked(struct pool *p, struct slab *s) {
	list_remove(&s->pool_link);
	set_count(p, p->count - 1);
}

enum fate { PUBLISHED, ALL_HOME, NOTHING_TO_GIVE };

/* Decides under the lock: a post before the exchange counts here, one after it is its poster's to
   act upon. */
static enum fate try_publish(struct slab *s) {
	/* Acquire: if all are home, the posters are done with the slab, which is deleted. */
	uint64_t old = atomic_load_explicit(&s->remote, memory_order_acquire), new;
	bool own = s->free_count != 0 || slab_has_uncarved(s);
	enum fate fate;
	do {
		unsigned n = remote_count(old);
		if (n == s->used)
			return ALL_HOME; /* nobody else has a block left to post */
		fate = own || n != 0 ? PUBLISHED : NOTHING_TO_GIVE;
		new = fate == PUBLISHED
			? remote_pack(remote_first(old), s->used - n, REMOTE_QUEUED | REMOTE_PUBLISHED) : 0;
		/* Release: what we read of the slab is over before it is anybody else's. */
	} while (!atomic_compare_exchange_weak_explicit(&s->remote, &old, new, memory_order_acq_rel,
	                                                memory_order_acquire));
	return fate;
}

HAK_COLD void pool_repair(struct slab *s) {
	if (unpublish(s))
		pool_publish(s);
	else
		slab_delete(s);
}

HAK_EVERYDAY void pool_publish(struct slab *s) {
	struct pool *p = &hak_pools[index_of(s)];
	enter(p);
	enum fate fate = try_publish(s);
	if (fate == PUBLISHED) {
		list_push(&p->slabs, &s->pool_link);
		p->counters.published += HAK_STATS;
		__atomic_store_n(&has_begun, true, __ATOMIC_RELAXED);
		set_count(p, p->count + 1);
	}
	lock_release(&p->lock);
	if (fate != ALL_HOME)
		return;
	if (HAK_UNLIKELY(remote_is_emptied(s)))
		emptied_forget(s);
	else
		slab_delete(s);
}

HAK_EVERYDAY void pool_reap(struct slab *s) {
	struct pool *p = &hak_pools[index_of(s)];
	enter(p);
	unlink_locked(p, s);
	lock_release(&p->lock);
	slab_delete(s);
}

/* A mosaic, or a slab of another class, that is of no use stays for others. What is its owner's is that of who has the
   lock. */
HAK_EVERYDAY static bool serves(const struct slab *s, unsigned sc) {
	struct mosaic *m = slab_mosaic(s);
	if (m != NULL)
		return remote_has_blocks(s) || mosaic_fits(m, sc);
	/* Relaxed: more may come home at any time. */
	return s->sc == sc || mosaic_pays(s, remote_count(atomic_load_explicit(&s->remote, memory_order_relaxed)), sc);
}

HAK_EVERYDAY static struct slab *take_locked(struct pool *p, unsigned sc) {
	unsigned tries = TRIES;
	for (struct list_node *n = p->slabs.first; n != NULL && tries > 0; n = n->next, tries--) {
		struct slab *s = of_pool_node(n);
		if (serves(s, sc) && unpublish(s)) {
			unlink_locked(p, s);
			p->counters.adopted += HAK_STATS;
			return s;
		}
	}
	return NULL;
}

HAK_EVERYDAY struct slab *pool_adopt(unsigned from, unsigned sc, struct inbox *owner, uint32_t owner_tag) {
	struct pool *p = &hak_pools[from];
	if (pool_count(from) == 0)
		return NULL;
	enter(p);
	struct slab *s = take_locked(p, sc);
	lock_release(&p->lock);
	if (s == NULL)
		return NULL;
	/* Release: routers from here on use our inbox. QUEUED is still set, so there is none yet. */
	atomic_store_explicit(&s->owner, owner, memory_order_release);
	slab_set_tag(s, owner_tag);
	if (slab_mosaic(s) != NULL)
		return s;
	if (s->free_count == 0)
		remote_collect(s, true);
	else
		remote_unqueue(s);
	return s;
}
