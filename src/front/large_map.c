/* SPDX-License-Identifier: MIT */
/*
 * Large blocks and the system: mappings for them, and what becomes of those that it does not take back. It refuses
 * to unmap amid a mapping, which leaves two, or to make accessible what lies amid inaccessible memory, where a process
 * has as many mappings as it may. Such a block waits, freed and without its pages unless it is a SuperSlab's, until
 * something else could be given back.
 */
#include "base/bits.h"
#include "base/list.h"
#include "base/settings.h"
#include "front/bigcache.h"
#include "front/large.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/pagemap.h"
#include "space/purge.h"

enum {
	RETRIES = 2, /* by the way: there may be many */
	OTHERS = 8,  /* blocks up to LARGE_COPIED_MOST are moved where all big ones together are at most so many times as long */
};

struct queue large_refused;

/* ---- giving back ---- */

/* With its guards. */
static size_t bytes_of(const struct large *l) {
	return (l->span.granules << GRANULE_SHIFT) + 2 * l->guard;
}

static bool release_big(struct large *l) {
	if (!os_unmap((char *)l->span.base - l->guard, bytes_of(l)))
		return false;
	if (l->guard != 0)
		space_count_guards(-1);
	large_put_descriptor(l);
	return true;
}

/* False: the system refuses. */
static bool release(struct large *l) {
	if (l->span.ss == NULL)
		return release_big(l);
	if (l->is_breached) /* left where it is, as by the quarantine */
		return true;
	if (!large_make_accessible(l))
		return false;
	large_release_piece(l);
	return true;
}

static void keep_refused(struct large *l) {
	lock_acquire(large_lock());
	queue_append(&large_refused, &l->age_link);
	lock_release(large_lock());
}

static struct large *take_refused(void) {
	lock_acquire(large_lock());
	struct queue_node *n = large_refused.first;
	if (n != NULL)
		queue_remove(&large_refused, n);
	lock_release(large_lock());
	return n != NULL ? LIST_ENTRY(n, struct large, age_link) : NULL;
}

/* Without the lock, for a hint. */
HAK_GUESS static size_t refused_count(void) {
	return large_refused.count;
}

static bool retry(size_t most) {
	bool any = false;
	struct large *l;
	for (size_t left = min_size(most, refused_count()); left > 0 && (l = take_refused()) != NULL; left--) {
		if (release(l))
			any = true;
		else
			keep_refused(l);
	}
	return any;
}

void large_give_up(struct large *l) {
	if (release(l)) {
		retry(RETRIES);
		return;
	}
	if (l->span.ss == NULL)
		os_purge((char *)l->span.base - l->guard, bytes_of(l));
	keep_refused(l);
}

bool large_retry(void) {
	return retry(SIZE_MAX);
}

/* ---- mapping ---- */

/* Everything of the mapping but its first `usable` bytes behind `guard` ones becomes inaccessible. */
static bool shut_edges(char *p, size_t guard, size_t usable, size_t bytes) {
	return os_protect(p, guard, false) && os_protect(p + guard + usable, bytes - guard - usable, false);
}

struct large *large_map(size_t usable, size_t granules, size_t align, size_t guard) {
	size_t all = granules + 2 * (guard >> GRANULE_SHIFT), bytes = all << GRANULE_SHIFT;
	struct large *l = large_new_descriptor();
	if (l == NULL)
		return NULL;
	char *p = os_map_aligned(bytes, max_size(align, GRANULE));
	if (p == NULL) {
		large_put_descriptor(l);
		return NULL;
	}
	l->span = (struct span){ .base = p + guard, .granules = granules, .zero = true };
	l->touched = 0;
	l->guard = guard;
	if (guard != 0)
		space_count_guards(1);
	if (!pagemap_cover((uintptr_t)p, all) || (guard != 0 && !shut_edges(p, guard, usable, bytes))) {
		large_give_up(l);
		return NULL;
	}
	pagemap_set((uintptr_t)p, all, TAG_LARGE, l);
	large_count_big((ptrdiff_t)granules);
	purge_excess();
	return l;
}

/* ---- moving ---- */

/* What was mapped for nothing. */
static void drop(char *p, size_t granules) {
	struct large *l = large_new_descriptor();
	if (l == NULL) {
		os_unmap(p, granules << GRANULE_SHIFT);
		return;
	}
	l->span = (struct span){ .base = p, .granules = granules };
	l->guard = 0;
	large_give_up(l);
}

bool large_map_in_front(struct large *l, size_t more) {
	size_t bytes = more << GRANULE_SHIFT;
	char *start = (char *)l->span.base - bytes, *p = os_map(start, bytes);
	if (p == NULL)
		return false;
	if (p != start || !pagemap_cover((uintptr_t)p, more)) {
		drop(p, more);
		return false;
	}
	pagemap_set((uintptr_t)p, more, TAG_LARGE, l);
	l->span.base = p;
	l->span.granules += more;
	return true;
}

bool large_move(struct large *l, size_t size, bool must) {
	size_t usable = large_good_size(size);
	if (usable == 0 || l->span.ss != NULL || l->guard != 0 || l->is_fixed)
		return false;
	/* Far more than there is, and than the block has: no page map for that. */
	if (os_facts.memory != 0 && usable / 2 > max_size(os_facts.memory, l->usable))
		return false;
	size_t old = l->span.granules, granules = large_span_granules(usable);
	/* Where there are many such blocks, what a copy leaves serves the next. Near a limit there may be no room for both. */
	if (!must && usable < LARGE_COPIED_MOST && space_big() > OTHERS * granules && hak_settings.limit == 0)
		return false;
	uintptr_t from = (uintptr_t)l->span.base;
	/* For a fork child, which may find any part of this done. Relaxed: the tags, which follow, release it. */
	atomic_store_explicit(&l->state, LARGE_MOVING, memory_order_relaxed);
	/* Tags first, as in large_release. */
	pagemap_set_tag(from, old, TAG_NONE);
	pagemap_set(from, 1, TAG_LARGE_GONE, (void *)l->size);
	/* An eighth more address space: a block that grows step by step moves only now and then. Where there is no memory for
	   that, there may be for as much as it asks for. */
	size_t all = granules + granules / 8;
	enum os_move_result moved;
	char *target;
	for (;; all = granules, must = true) {
		target = os_map_target(all << GRANULE_SHIFT, GRANULE, old << GRANULE_SHIFT);
		moved = target == NULL ? MOVE_TARGET_LOST : MOVE_REFUSED;
		if (target != NULL && pagemap_cover((uintptr_t)target, all))
			moved = os_move((void *)from, old << GRANULE_SHIFT, all << GRANULE_SHIFT, target, must);
		if (moved != MOVE_TARGET_LOST || all == granules)
			break;
	}
	if (moved != MOVE_DONE) {
		pagemap_set(from, old, TAG_LARGE, l);
		large_set_live(l);
		if (moved == MOVE_REFUSED) {
			os_target_stays(old << GRANULE_SHIFT);
			drop(target, all);
		}
		return false;
	}
	bigcache_miss(all - old);
	l->span.base = target;
	l->span.granules = all;
	pagemap_set((uintptr_t)target, all, TAG_LARGE, l);
	large_clear_gained(l, size, usable);
	large_start(l, size, usable);
	large_count_big((ptrdiff_t)all - (ptrdiff_t)old);
	purge_excess();
	return true;
}
