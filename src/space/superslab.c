/* SPDX-License-Identifier: MIT */
#include "space/superslab.h"

#include "base/bits.h"
#include "base/settings.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/meta.h"
#include "space/pagemap.h"
#include "space/purge.h"

enum {
	REGION_MAX = 64, /* SuperSlabs mapped at a time at most */
	HUGE_AFTER = 16, /* SuperSlabs in a heap before new ones ask for huge pages: below, they would
	                    cost a small process more than they bring */
};

struct space_stats hak_space;

/* All under `lock`. */
static struct {
	struct lock lock;
	struct list by_run[SUPERSLAB_GRANULES + 1]; /* SuperSlabs by longest free run; [0] unused */
	uint64_t runs;                              /* bit r: by_run[r] is not empty */
	struct list unused;                         /* descriptors without memory (base 0) */
	struct superslab *all;                      /* descriptors, linked by `next` */
	uintptr_t region, region_end;               /* mapped, not yet made SuperSlabs */
	bool region_huge;
} space;

struct lock *space_lock(void) {
	return &space.lock;
}

static struct superslab *of_run_node(struct list_node *n) {
	return LIST_ENTRY(n, struct superslab, by_run);
}

static unsigned filed_under(const struct superslab *ss) {
	return longest_run32(ss->free);
}

static void unfile(struct superslab *ss) {
	if (!list_is_linked(&ss->by_run))
		return;
	list_remove(&ss->by_run);
}

void superslab_refile(struct superslab *ss) {
	unsigned run = filed_under(ss);
	unfile(ss);
	if (run == 0)
		return;
	list_push(&space.by_run[run], &ss->by_run);
	space.runs |= (uint64_t)1 << run;
}

/* The SuperSlab with the shortest run that is long enough: keeps whole SuperSlabs whole. */
static struct superslab *best_fit(size_t granules) {
	for (;;) {
		uint64_t fits = space.runs & ~(((uint64_t)1 << granules) - 1);
		if (fits == 0)
			return NULL;
		unsigned run = (unsigned)__builtin_ctzll(fits);
		if (space.by_run[run].first != NULL)
			return of_run_node(space.by_run[run].first);
		space.runs &= ~((uint64_t)1 << run);
	}
}

/* Where in the SuperSlab: dirty granules first, they are resident already. */
static unsigned choose_run(const struct superslab *ss, size_t granules) {
	int at = find_run32(ss->free & ~ss->zero, (unsigned)granules);
	if (at < 0)
		at = find_run32(ss->free, (unsigned)granules);
	return (unsigned)at;
}

struct superslab *superslab_take(size_t granules, unsigned *firstp, bool *zerop) {
	struct superslab *ss = best_fit(granules);
	if (ss == NULL)
		return NULL;
	unsigned first = choose_run(ss, granules);
	uint32_t mask = low_mask32((unsigned)granules) << first;
	uint32_t clean = ss->zero & mask;
	*firstp = first;
	*zerop = clean == mask;
	if (clean != 0 && ss->purged_ms != 0)
		purge_regret(ss);
	space_count_dirty(-__builtin_popcount(mask & ~clean));
	hak_space.live += granules;
	ss->free &= ~mask;
	ss->zero &= ~mask;
	superslab_refile(ss);
	return ss;
}

void superslab_put(struct superslab *ss, uint32_t mask, uint32_t dirty) {
	ss->free |= mask;
	ss->zero |= mask & ~dirty;
	hak_space.live -= (size_t)__builtin_popcount(mask);
	space_count_dirty(__builtin_popcount(dirty));
	if (dirty != 0)
		purge_enqueue(ss);
	superslab_refile(ss);
}

/* The first mapping is twice what a SuperSlab needs, so that an aligned one lies in it without
   trimming; what is left over becomes metadata memory. */
static bool map_first_region(void) {
	char *p = os_map(NULL, 2 * SUPERSLAB);
	if (p == NULL)
		return false;
	uintptr_t start = align_up((uintptr_t)p, SUPERSLAB);
	uintptr_t end = (uintptr_t)p + 2 * SUPERSLAB;
	space.region = start;
	space.region_end = start + SUPERSLAB;
	meta_donate(p, start - (uintptr_t)p);
	meta_donate((void *)(start + SUPERSLAB), end - (start + SUPERSLAB));
	return true;
}

static bool map_region(void) {
	if (hak_space.superslabs == 0 && map_first_region())
		return true;
	size_t n = hak_space.superslabs / 4;
	n = n < 1 ? 1 : n > REGION_MAX ? REGION_MAX : n;
	for (; n > 0; n /= 2) {
		char *p = os_map_aligned(n * SUPERSLAB, SUPERSLAB);
		if (p == NULL)
			continue;
		space.region = (uintptr_t)p;
		space.region_end = (uintptr_t)p + n * SUPERSLAB;
		space.region_huge = hak_settings.thp == THP_ALWAYS ||
			(hak_settings.thp == THP_AUTO && hak_space.superslabs >= HUGE_AFTER);
		if (space.region_huge)
			os_advise_huge(p, n * SUPERSLAB);
		return true;
	}
	return false;
}

static struct superslab *new_descriptor(void) {
	struct list_node *n = space.unused.first;
	if (n != NULL) {
		list_remove(n);
		return of_run_node(n);
	}
	struct superslab *ss = meta_alloc(sizeof *ss);
	if (ss != NULL) {
		ss->next = space.all;
		space.all = ss;
	}
	return ss;
}

bool superslab_grow(void) {
	if (space.region == space.region_end && !map_region())
		return false;
	if (!pagemap_cover(space.region, SUPERSLAB_GRANULES))
		return false;
	struct superslab *ss = new_descriptor();
	if (ss == NULL)
		return false;
	*ss = (struct superslab){ .next = ss->next, .base = space.region, .free = UINT32_MAX, .zero = UINT32_MAX,
	                          .huge = space.region_huge };
	space.region += SUPERSLAB;
	pagemap_set(ss->base, SUPERSLAB_GRANULES, TAG_FREE, NULL);
	hak_space.superslabs++;
	superslab_refile(ss);
	return true;
}

static bool release(struct superslab *ss) {
	/* The tags go first: once unmapped, the addresses may become somebody else's at once. */
	uintptr_t base = ss->base;
	pagemap_set_tag(base, SUPERSLAB_GRANULES, TAG_NONE);
	ss->base = 0; /* before it is true: a fork child must not take it for mapped */
	if (!os_unmap((void *)base, SUPERSLAB)) {
		ss->base = base;
		pagemap_set(base, SUPERSLAB_GRANULES, TAG_FREE, NULL);
		return false;
	}
	purge_forget(ss);
	unfile(ss);
	hak_space.superslabs--;
	list_push(&space.unused, &ss->by_run);
	return true;
}

size_t superslab_release_empty(void) {
	size_t n = 0;
	struct list_node *node = space.by_run[SUPERSLAB_GRANULES].first;
	while (node != NULL) {
		struct list_node *next = node->next;
		n += release(of_run_node(node));
		node = next;
	}
	return n;
}

void superslab_rebuild(void) {
	purge_reset();
	space.region = space.region_end = 0; /* may be half updated: given up */
	space.runs = 0;
	for (unsigned r = 0; r <= SUPERSLAB_GRANULES; r++)
		space.by_run[r].first = NULL;
	space.unused.first = NULL;
	hak_space.live = hak_space.superslabs = 0;
	space_count_dirty(-(ptrdiff_t)hak_space.dirty);
	for (struct superslab *ss = space.all; ss != NULL; ss = ss->next) {
		ss->by_run = (struct list_node){ 0 };
		ss->queued = false;
		if (ss->base == 0) {
			list_push(&space.unused, &ss->by_run);
			continue;
		}
		ss->zero &= ss->free;
		hak_space.superslabs++;
		hak_space.live += SUPERSLAB_GRANULES;
		superslab_put(ss, ss->free, ss->free & ~ss->zero);
	}
}
