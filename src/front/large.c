/* SPDX-License-Identifier: MIT */
#include "front/large.h"

#include <string.h>

#include "base/bits.h"
#include "base/settings.h"
#include "front/bigcache.h"
#include "front/canary.h"
#include "front/pocket.h"
#include "front/quarantine.h"
#include "front/secure.h"
#include "os/alone.h"
#include "os/lock.h"
#include "os/os.h"
#include "slab/size_class.h"
#include "space/meta.h"
#include "space/pagemap.h"
#include "space/purge.h"

/* Under `lock`: descriptors without a block, all chunks ever made. */
static struct {
	struct lock lock;
	struct list unused;
	struct large_chunk *chunks;
	unsigned made; /* descriptors of the first chunk that were handed out at least once */
} larges;

HAK_EVERYDAY struct large_chunk *const *large_chunks(void) {
	return &larges.chunks;
}

struct lock *large_lock(void) {
	return &larges.lock;
}

void large_reset(void) {
	larges.unused.first = NULL;
	larges.made = LARGE_CHUNK;
	large_refused = (struct queue){ 0 };
}

static bool is_counted(const struct large *l) {
	/* Relaxed: nothing else runs. */
	uint32_t state = atomic_load_explicit(&l->state, memory_order_relaxed);
	if (l->span.ss != NULL)
		return state != LARGE_UNUSED; /* a quarantine's, too */
	return state == LARGE_LIVE || state == LARGE_MOVING || (state == LARGE_FREED && large_keeper(l) == KEPT_POCKET);
}

struct large_sums large_sum(void) {
	struct large_sums sums = { 0 };
	for (const struct large_chunk *c = larges.chunks; c != NULL; c = c->next)
		for (const struct large *l = c->large; l < c->large + LARGE_CHUNK; l++)
			if (is_counted(l))
				*(l->span.ss != NULL ? &sums.in_superslabs : &sums.big) += l->span.granules;
	return sums;
}

HAK_EVERYDAY static struct large *take_descriptor_locked(void) {
	struct list_node *n = larges.unused.first;
	if (n != NULL) {
		list_remove(n);
		return LIST_ENTRY(n, struct large, bin_link);
	}
	if (larges.chunks == NULL || larges.made == LARGE_CHUNK) {
		struct large_chunk *c = meta_alloc(sizeof *c);
		if (c == NULL)
			return NULL;
		c->next = larges.chunks;
		/* Release: who walks the chunks without the lock sees the link. */
		__atomic_store_n(&larges.chunks, c, __ATOMIC_RELEASE);
		larges.made = 0;
	}
	return &larges.chunks->large[larges.made++];
}

HAK_EVERYDAY struct large *large_new_descriptor(void) {
	lock_acquire(&larges.lock);
	struct large *l = take_descriptor_locked();
	lock_release(&larges.lock);
	return l;
}

void large_put_descriptor(struct large *l) {
	/* Relaxed: nobody has the block any longer. */
	atomic_store_explicit(&l->state, LARGE_UNUSED, memory_order_relaxed);
	lock_acquire(&larges.lock);
	list_push(&larges.unused, &l->bin_link);
	lock_release(&larges.lock);
}

static uintptr_t base_of(const struct large *l) {
	return (uintptr_t)l->span.base;
}

static bool is_big(const struct large *l) {
	return l->span.ss == NULL;
}

HAK_EVERYDAY static void count_in_superslabs(ptrdiff_t granules) {
	count_shared(&hak_space.large, (size_t)granules);
}

HAK_EVERYDAY size_t large_good_size(size_t size) {
	size_t page = os_facts.page_size;
	return size >> ADDRESS_BITS != 0 ? 0 : align_up(size, page);
}

HAK_EVERYDAY struct large *large_of(uintptr_t addr) {
	struct pagemap_entry e = pagemap_lookup(addr);
	if (e.tag != TAG_LARGE)
		return NULL;
	struct large *l = e.desc;
	/* Relaxed: the holder of the block knows; for others it is a guess either way. */
	bool live = atomic_load_explicit(&l->state, memory_order_relaxed) == LARGE_LIVE;
	return live && addr - base_of(l) < l->usable ? l : NULL;
}

/* ---- allocation ---- */

HAK_NOINLINE HAK_EVERYDAY void large_touch(struct large *l, size_t usable) {
	l->touched = usable;
	if (l->span.idle != 0)
		span_use(&l->span, usable);
}

HAK_EVERYDAY static struct large *alloc_in_superslab(struct pocket *pocket, size_t size, enum span_use use) {
	struct large *l = pocket != NULL ? pocket_fetch(pocket, POCKET_PIECES, large_granules(size)) : NULL;
	if (l != NULL) {
		l->span.zero = false;
		return l;
	}
	l = large_new_descriptor();
	if (l == NULL)
		return NULL;
	if (pocket != NULL)
		pocket_yield(pocket, large_granules(size));
	if (!span_alloc(large_granules(size), use, size, &l->span)) {
		large_put_descriptor(l);
		return NULL;
	}
	count_in_superslabs((ptrdiff_t)l->span.granules);
	l->touched = l->span.zero ? 0 : (l->span.granules << GRANULE_SHIFT) - l->span.idle;
	l->guard = 0;
	pagemap_set(base_of(l), l->span.granules, TAG_LARGE, l);
	return l;
}

/* What was kept is a block again. With hardening it was cleared when it was freed. */
static struct large *reuse(struct large *l) {
	l->span.zero = secure_is_on();
	l->guard = 0;
	return l;
}

/* A span that is kept: by the pocket, by BigCache, or by both together. Alignments are for BigCache to find. */
static struct large *take_kept(struct pocket *pocket, size_t granules, size_t align) {
	struct large *l = pocket != NULL && align <= GRANULE ? pocket_fetch(pocket, POCKET_SPANS, granules) : NULL;
	if (l == NULL) {
		bool more = pocket != NULL && pocket_could_give(pocket, granules);
		l = bigcache_take(granules, align, !more);
		if (l == NULL && more) {
			pocket_give_spans(pocket);
			l = bigcache_take(granules, align, true);
		}
		if (l == NULL)
			return NULL;
		large_count_big((ptrdiff_t)l->span.granules);
	}
	return reuse(l);
}

/* A long span: what is kept of half the length at least, and new memory in front of it, if that is free. Thus less
   becomes resident than if all were new. */
static struct large *lengthen_kept(size_t granules) {
	struct large *l = bigcache_take_part(granules);
	if (l == NULL)
		return NULL;
	if (!large_map_in_front(l, granules - l->span.granules)) {
		bigcache_put(l, true);
		return NULL;
	}
	l->touched = granules << GRANULE_SHIFT;
	large_count_big((ptrdiff_t)granules);
	purge_excess();
	return reuse(l);
}

/* Granules that a block could not grow to where it was: one of as many is about to be asked for, to be its copy.
   Relaxed, as all that is done with it: a hint. */
static size_t growing;

static bool is_growth(size_t granules) {
	if (granules != __atomic_load_n(&growing, __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&growing, 0, __ATOMIC_RELAXED);
	return true;
}

/* What smaller blocks left is much, and so are big blocks: a program that works in stages, of a size each, would keep
   what it used of either. With little, or none, see above. Relaxed: a hint. */
static bool is_dirt_worth_using(void) {
	return min_size(__atomic_load_n(&hak_space.dirty, __ATOMIC_RELAXED), space_big()) > PURGE_FLOOR / GRANULE;
}

/* `fits`: in a SuperSlab. `grows`: to be the copy of a block that did. Such a one is best had where smaller blocks were:
   what blocks grew out of would else stay resident beside what they grew to. A block that comes and goes had better not:
   it would take granules under a lock each time, while one with a mapping of its own stays in the pocket. */
static struct large *alloc_big(struct pocket *pocket, size_t size, size_t align, bool fits, bool grows) {
	size_t granules = large_span_granules(size), least = large_granules(size);
	struct large *l = take_kept(pocket, granules, align);
	if (l == NULL && fits && (grows || is_dirt_worth_using()))
		l = alloc_in_superslab(grows ? NULL : pocket, size, SPAN_DIRTY);
	if (l == NULL && size >= LARGE_L2_MIN && align <= GRANULE)
		l = lengthen_kept(granules);
	if (l == NULL)
		l = large_map(size, granules, align, 0);
	if (l == NULL && granules != least) /* no more address space: no more than it needs */
		l = large_map(size, least, align, 0);
	return l;
}

HAK_EVERYDAY struct large *large_alloc(struct pocket *pocket, size_t size, size_t align, bool *zerop) {
	size_t usable = large_good_size(max_size(size, 1)), granules = large_granules(usable);
	if (usable == 0 || align > PTRDIFF_MAX / 2)
		return NULL;
	struct large *l = NULL;
	/* In front of a block of greater alignment guards would cost as much address space again. */
	bool is_plain = align <= GRANULE;
	bool grows = is_growth(granules);
	/* Neither guards nor what lies between them is the system's to move. So a block that grows gets an eighth more address
	   space, inaccessible: by small steps it is copied only now and then. */
	if (is_plain && space_allows_guard())
		l = large_map(usable, large_span_granules(usable) + (grows ? granules / 8 : 0), align, GRANULE);
	bool fits = is_plain && granules <= SUPERSLAB_GRANULES && hak_settings.use_superslab;
	if (l == NULL && (usable >= LARGE_BIG_MIN || !fits))
		l = alloc_big(pocket, usable, align, fits, grows);
	if (l == NULL && fits)
		l = alloc_in_superslab(pocket, usable, SPAN_ROOMY); /* for a big one there may be room among smaller blocks */
	if (l == NULL && is_plain)
		l = take_kept(NULL, granules, GRANULE); /* a part of what BigCache has for longer ones */
	if (l == NULL)
		return NULL;
	l->kind = KIND_MALLOC;
	l->is_shut = l->is_breached = l->is_fixed = false;
	l->heap = NULL;
	l->home = pocket;
	*zerop = l->span.zero;
	large_start(l, size, usable);
	return l;
}

void large_clear(struct large *l, size_t from, size_t to) {
	enum { CLEARED_MOST = 16 << 20 }; /* bytes: up to here, new pages cost more than clearing those that are there */
	char *base = l->span.base;
	size_t first = align_up(from, os_facts.page_size), end = align_down(to, os_facts.page_size);
	if (to - from > CLEARED_MOST && !purge_is_discreet() && os_purge(base + first, end - first)) {
		memset(base + end, 0, to - end);
		to = first;
	}
	to = min_size(to, l->touched);
	if (from < to)
		memset(base + from, 0, to - from);
}

void large_clear_gained(struct large *l, size_t size, size_t usable) {
	bool exact = secure_has_canaries();
	size_t held = exact ? l->size : l->usable, end = exact ? size : usable;
	if (secure_is_on() && held < end)
		large_clear(l, held, end);
}

/* ---- free ---- */

void large_release_piece(struct large *l) {
	struct span span = l->span;
	span.was_large = true;
	span.last_size = l->size;
	size_t touched = l->touched;
	count_in_superslabs(-(ptrdiff_t)span.granules);
	large_put_descriptor(l);
	span_free(&span, touched);
}

bool large_make_accessible(const struct large *l) {
	return !l->is_shut || os_protect(l->span.base, l->usable, true);
}

void large_release(struct large *l) {
	if (is_big(l)) {
		size_t granules = l->span.granules + 2 * (l->guard >> GRANULE_SHIFT);
		/* Tags first: once unmapped, the addresses may become somebody else's at once. The trace lets a
		   second free be named. */
		pagemap_set_tag(base_of(l) - l->guard, granules, TAG_NONE);
		if (l->size != 0)
			pagemap_set(base_of(l), 1, TAG_LARGE_GONE, (void *)l->size);
	} else if (!l->is_shut) {
		large_release_piece(l);
		return;
	}
	large_give_up(l);
}

void large_leave(struct large *l) {
	if (is_big(l))
		large_count_big(-(ptrdiff_t)l->span.granules);
}

void large_dispose(struct large *l) {
	if (l->guard != 0 || !is_big(l) || !large_make_accessible(l))
		large_release(l);
	else
		bigcache_put(l, false);
}

/* What was freed must not be seen again. Pages that go back to the system are not only zero, but cost
   nothing until they are used. Behind the usable bytes may lie what was there before the block. */
static void wipe(struct large *l) {
	enum { WRITTEN_MOST = 256 * 1024 }; /* bytes: up to here, taking the pages anew costs more */
	bool written = secure_has_canaries() ? quarantine_zeroes(l) : !is_big(l) && l->usable <= WRITTEN_MOST;
	size_t all = l->guard != 0 ? l->usable : l->span.granules << GRANULE_SHIFT;
	if (!written && os_purge(l->span.base, all))
		l->touched = 0;
	else /* the block may have been longer */
		memset(l->span.base, 0, min_size(l->touched, all));
}

bool large_free(struct pocket *pocket, struct large *l) {
	if (!large_win(l))
		return false;
	if (secure_is_on())
		wipe(l);
	if (!secure_has_canaries() && pocket_holds(l)) {
		if (pocket != NULL) {
			pocket_put(pocket, l);
			return true;
		}
		if (pocket_send_home(l)) /* a thread that frees only has no heap */
			return true;
	}
	large_leave(l);
	if (secure_has_canaries())
		quarantine_add_large(l);
	else
		large_dispose(l);
	return true;
}

/* ---- resizing ---- */

static bool resize_in_superslab(struct large *l, size_t granules) {
	size_t old = l->span.granules;
	if (granules > SUPERSLAB_GRANULES)
		return false;
	if (granules < old) {
		span_shrink(&l->span, granules);
		count_in_superslabs((ptrdiff_t)granules - (ptrdiff_t)old);
		return true;
	}
	bool zero;
	if (!span_extend(&l->span, granules, &zero))
		return false;
	if (!zero)
		l->touched = granules << GRANULE_SHIFT;
	pagemap_set(base_of(l) + (old << GRANULE_SHIFT), granules - old, TAG_LARGE, l);
	count_in_superslabs((ptrdiff_t)(granules - old));
	return true;
}

static void shrink_big(struct large *l, size_t granules) {
	size_t less = l->span.granules - granules;
	uintptr_t end = base_of(l) + (granules << GRANULE_SHIFT);
	enum { LITTLE = 4 * HAK_MIB / GRANULE };
	/* Keep the pages unless it is worth it. */
	if (less < min_size(l->span.granules / 8, LITTLE))
		return;
	large_count_big(-(ptrdiff_t)less);
	/* Kept spans of hardened blocks are known to be cleared, and the call that was to clear this may have failed. */
	if (!secure_is_on() && bigcache_put_end(l, granules))
		return;
	/* In this order, as in bigcache_put_end: a fork child may find any part of this done. */
	l->usable = min_size(l->usable, granules << GRANULE_SHIFT);
	l->span.granules = granules;
	pagemap_set_tag(end, less, TAG_NONE);
	if (!os_unmap((void *)end, less << GRANULE_SHIFT)) {
		pagemap_set(end, less, TAG_LARGE, l);
		l->span.granules += less;
		large_count_big((ptrdiff_t)less);
	}
}

/* By new memory. */
HAK_COLD static bool extend(struct large *l, size_t more) {
	size_t old = l->span.granules;
	uintptr_t end = base_of(l) + (old << GRANULE_SHIFT);
	enum os_growth growth = os_grow((void *)base_of(l), old << GRANULE_SHIFT, (old + more) << GRANULE_SHIFT);
	l->is_fixed = growth == GROWTH_REFUSED;
	if (growth != GROWTH_DONE)
		return false;
	if (!pagemap_cover(end, more)) {
		os_unmap((void *)end, more << GRANULE_SHIFT);
		return false;
	}
	pagemap_set(end, more, TAG_LARGE, l);
	l->span.granules += more;
	bigcache_miss(more);
	return true;
}

/* `must`: where it is, by all means. Else what is kept behind it comes with it even if it has to move, and where much is
   new, copying into memory that is there costs less than its page faults. But the system may keep apart what was mapped
   apart, and lengthens or moves only one mapping at a time: no long block takes what would be little of it, and none
   what it cannot go on behind. */
static bool grow_big(struct large *l, size_t granules, bool must) {
	enum { LONG = 4 * HAK_MIB / GRANULE, LITTLE_PART = 8 };
	size_t old = l->span.granules, least = !must && old > LONG ? old / LITTLE_PART : 0;
	size_t more = granules - old - bigcache_extend(l, least, granules - old);
	bool copies = !must && more > l->span.granules / 4 && bigcache_has(granules), done;
	l->is_fixed = copies;
	/* Once more without what was kept, if that is why the system refuses, or if it does not help. */
	do
		done = l->span.granules >= granules || (!copies && extend(l, granules - l->span.granules));
	while (!done && (must || l->is_fixed != copies) && l->span.granules > old && bigcache_put_end(l, old));
	large_count_big((ptrdiff_t)(l->span.granules - old));
	purge_excess();
	return done;
}

static bool resize_big(struct large *l, size_t granules, bool must) {
	if (granules > l->span.granules)
		return grow_big(l, granules, must);
	shrink_big(l, granules);
	return true;
}

void large_stop_growing(struct large *l) {
	size_t granules = large_span_granules(l->usable);
	if (is_big(l) && l->guard == 0 && granules < l->span.granules)
		shrink_big(l, granules);
}

/* Between its guards: the rest of its last granule is inaccessible, too. */
static bool resize_guarded(struct large *l, size_t usable) {
	size_t old = l->usable;
	char *base = l->span.base;
	if (large_granules(usable) > l->span.granules)
		return false;
	if (usable > old)
		return os_protect(base + old, usable - old, true);
	if (usable == old)
		return true;
	if (!os_protect(base + usable, old - usable, false))
		return false;
	os_purge(base + usable, old - usable); /* as good as freed */
	return true;
}

static bool resize_to(struct large *l, size_t usable, bool must) {
	size_t granules = is_big(l) ? large_span_granules(usable) : large_granules(usable), old = l->span.granules;
	if (l->guard != 0)
		return resize_guarded(l, usable);
	if (large_granules(usable) <= old) /* what it needs, if not what it would like */
		granules = min_size(granules, old);
	if (granules == old || (granules < old && usable >= l->usable)) /* it goes on growing, maybe */
		return true;
	return is_big(l) ? resize_big(l, granules, must) : resize_in_superslab(l, granules);
}

bool large_resize(struct large *l, size_t size, bool must) {
	size_t usable = large_good_size(size);
	if (usable == 0)
		return false;
	/* What is given up is as good as freed, and given away; between guards it is not, and shrinking may fail. */
	char *rest = (char *)l->span.base + usable;
	if (secure_is_on() && l->guard == 0 && usable < l->usable && !os_purge(rest, l->usable - usable))
		memset(rest, 0, l->usable - usable);
	if (!resize_to(l, usable, must)) {
		__atomic_store_n(&growing, large_granules(usable), __ATOMIC_RELAXED);
		return false;
	}
	large_clear_gained(l, size, usable);
	large_set_usable(l, size, usable);
	return true;
}
