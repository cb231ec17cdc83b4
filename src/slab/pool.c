/* SPDX-License-Identifier: MIT */
#include "slab/pool.h"

#include "os/lock.h"

struct pool {
	struct lock lock;
	unsigned count;   /* slabs in `slabs`; read without the lock as a hint */
	struct list slabs;
} HAK_CACHE_ALIGNED;

static struct pool pools[SC_COUNT];

struct lock *pool_lock(unsigned sc) {
	return &pools[sc].lock;
}

static void unlink_if_class(struct slab *s, void *arg) {
	if (s->sc == *(unsigned *)arg)
		s->pool_link = (struct list_node){ 0 };
}

void pool_reset(unsigned sc) {
	pools[sc].slabs.first = NULL;
	pools[sc].count = 0;
	slab_for_each(unlink_if_class, &sc);
}

unsigned pool_count(unsigned sc) {
	/* Relaxed: a slab published this moment is found the next time. */
	return __atomic_load_n(&pools[sc].count, __ATOMIC_RELAXED);
}

static void set_count(struct pool *p, unsigned n) {
	__atomic_store_n(&p->count, n, __ATOMIC_RELAXED);
}

static struct slab *of_pool_node(struct list_node *n) {
	return LIST_ENTRY(n, struct slab, pool_link);
}

static void unlink_locked(struct pool *p, struct slab *s) {
	list_remove(&s->pool_link);
	set_count(p, p->count - 1);
}

void pool_publish(struct slab *s) {
	struct pool *p = &pools[s->sc];
	lock_acquire(&p->lock);
	list_push(&p->slabs, &s->pool_link);
	set_count(p, p->count + 1);
	/* Under the lock: once it is dropped the slab may be adopted, even deleted. Blocks that came
	   home before the slab was linked are seen here, later ones by whoever brings them. */
	bool all_home = remote_count(atomic_load_explicit(&s->remote, memory_order_acquire)) == s->used;
	if (all_home)
		unlink_locked(p, s);
	lock_release(&p->lock);
	if (all_home)
		slab_delete(s);
}

struct slab *pool_adopt(unsigned sc, struct inbox *owner, uint32_t owner_tag) {
	struct pool *p = &pools[sc];
	if (pool_count(sc) == 0)
		return NULL;
	lock_acquire(&p->lock);
	struct slab *s = p->slabs.first != NULL ? of_pool_node(p->slabs.first) : NULL;
	if (s != NULL)
		unlink_locked(p, s);
	lock_release(&p->lock);
	if (s == NULL)
		return NULL;
	slab_set_tag(s, owner_tag);
	/* Release: routers from here on use our inbox. QUEUED is still set, so there is none yet. */
	atomic_store_explicit(&s->owner, owner, memory_order_release);
	if (s->free_count == 0)
		remote_collect(s, true);
	else
		remote_unqueue(s);
	return s;
}

void pool_reap_if_free(struct slab *s, uint64_t word) {
	/* Relaxed: hints. An owner, if there is one, looks after the slab itself; while there is none
	   `used` does not change. */
	if (atomic_load_explicit(&s->owner, memory_order_relaxed) != NULL ||
	    remote_count(word) != __atomic_load_n(&s->used, __ATOMIC_RELAXED))
		return;
	/* Our block has gone home, so the slab may be deleted by now and its descriptor be another
	   slab's. That does no harm: whatever slab it is, if it is in this pool and free, it goes. */
	uint8_t sc = __atomic_load_n(&s->sc, __ATOMIC_RELAXED);
	struct pool *p = &pools[sc];
	lock_acquire(&p->lock);
	bool ours = s->sc == sc && list_is_linked(&s->pool_link) &&
		remote_count(atomic_load_explicit(&s->remote, memory_order_acquire)) == s->used;
	if (ours)
		unlink_locked(p, s);
	lock_release(&p->lock);
	if (ours)
		slab_delete(s);
}
