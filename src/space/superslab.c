/* SPDX-License-Identifier: MIT */
#include "space/superslab.h"

#include <string.h>

#include "base/bits.h"
#include "base/settings.h"
#include "build_options.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/meta.h"
#include "space/pagemap.h"
#include "space/purge.h"

enum {
	REGION_MAX = 64, /* SuperSlabs mapped at a time at most, */
	PARTED_REGION = 8, /* and at least, where threads have some for their own */
	HUGE_AFTER = 16, /* SuperSlabs in a heap before new ones ask for huge pages, or get those that the system
	                    hands out unasked: below, they would cost a small process more than they bring */
	HUGE_SLOW_RUN = 2, /* of them that were slow to come; then none is asked for */
	HUGE_PAUSE = 1000, /* for so many ms */
	WAIT_WORTH = 4,    /* times the lock is had at once that make up for one that it was waited for; */
	CONTENDED = 64,    /* what is not made up for is much, */
	CONTENDED_MOST = 1024, /* and remembered as far as that */
	PLACES = 32,       /* more threads than these share */
};

struct space_stats hak_space;
HAK_AT_START uint8_t hak_touch_era;
HAK_AT_START bool hak_space_contended;

/* SuperSlabs by the length of a run of granules; [0] is not used. */
struct run_index {
	uint64_t lengths; /* bit r: by_length[r] may not be empty */
	struct list by_length[SUPERSLAB_GRANULES + 1];
};

/* All under `lock`. */
static struct {
	struct lock lock HAK_CACHE_ALIGNED;
	unsigned contention;           /* see note_wait */
	enum parting { NOT_PARTED, PARTED, NEVER_PARTED } parting; /* see fit_own */
	struct kind {
		struct run_index free, dirty;  /* SuperSlabs by longest free run, longest dirty run */
		uintptr_t region, region_end;  /* mapped, not yet made SuperSlabs */
	} plain, huge;
	struct superslab *own[1 + PLACES]; /* where threads take granules, by their places: see fit_own */
	unsigned places;               /* given to threads, ever */
	uintptr_t huge_low;            /* where the next region for huge pages is to end; 0: there was none */
	struct list unused;            /* descriptors without memory (base 0) */
	struct superslab *all;         /* descriptors, linked by `next` */
	unsigned slow_run;             /* how many huge pages, up to the last, were slow to come */
	uint64_t slow_ms;              /* when so many were that none is asked for; 0: not lately */
} space;

static HAK_TLS uint8_t place; /* this thread's in space.own; 0: none yet */

HAK_EVERYDAY struct superslab *const *superslab_all(void) {
	return &space.all;
}

HAK_EVERYDAY struct lock *space_lock(void) {
	return &space.lock;
}

HAK_NOINLINE HAK_EVERYDAY static void note_wait(bool waited) {
	if (waited) {
		if (space.parting == NOT_PARTED && hak_settings.limit == 0)
			space.parting = PARTED;
		space.contention = (unsigned)min_size(space.contention + WAIT_WORTH, CONTENDED_MOST);
	} else {
		space.contention--;
	}
	bool contended = space.contention >= CONTENDED;
	if (contended != hak_space_contended)
		__atomic_store_n(&hak_space_contended, contended, __ATOMIC_RELAXED);
}

HAK_EVERYDAY void space_acquire(void) {
	bool waited = !lock_try(&space.lock);
	if (waited)
		lock_acquire_slow(&space.lock, true);
	if (HAK_UNLIKELY(waited || space.contention != 0))
		note_wait(waited);
	if (HAK_STATS) {
		hak_space.locks++;
		hak_space.waits += waited;
	}
}

static struct superslab *of_run_node(struct list_node *n) {
	return LIST_ENTRY(n, struct superslab, by_run);
}

static struct superslab *of_dirty_node(struct list_node *n) {
	return LIST_ENTRY(n, struct superslab, by_dirty);
}

HAK_EVERYDAY static void unfile(struct list_node *n) {
	if (list_is_linked(n))
		list_remove(n);
}

HAK_EVERYDAY static void file(struct run_index *index, struct list_node *n, unsigned length) {
	if (length != 0 && index->by_length[length].first == n)
		return;
	unfile(n);
	if (length == 0)
		return;
	list_push(&index->by_length[length], n);
	index->lengths |= (uint64_t)1 << length;
}

HAK_EVERYDAY void superslab_refile(struct superslab *ss) {
	struct kind *kind = ss->huge ? &space.huge : &space.plain;
	file(&kind->free, &ss->by_run, longest_run32(ss->free));
	file(&kind->dirty, &ss->by_dirty, longest_run32(ss->free & ~ss->zero));
}

/* The shortest run that is long enough: keeps whole SuperSlabs whole. */
HAK_EVERYDAY static struct list_node *best_fit(struct run_index *index, size_t granules) {
	for (;;) {
		uint64_t fits = index->lengths & ~(((uint64_t)1 << granules) - 1);
		if (fits == 0)
			return NULL;
		unsigned length = (unsigned)__builtin_ctzll(fits);
		if (index->by_length[length].first != NULL)
			return index->by_length[length].first;
		index->lengths &= ~((uint64_t)1 << length);
	}
}

HAK_EVERYDAY static struct superslab *fit_dirty(struct kind *kind, size_t granules, unsigned *firstp) {
	struct list_node *n = best_fit(&kind->dirty, granules);
	if (n == NULL)
		return NULL;
	struct superslab *ss = of_dirty_node(n);
	*firstp = (unsigned)find_run32(ss->free & ~ss->zero, (unsigned)granules);
	return ss;
}

/* Threads that touch new pages at once wait for each other in the kernel where the pages share a page table, and those
   of a SuperSlab do. So once threads have waited for our lock, too, each has a SuperSlab of its own for new pages, unless
   memory is limited, or ran out. */
HAK_COLD static struct superslab *fit_own(size_t granules) {
	if (place == 0)
		place = (uint8_t)(1 + space.places++ % PLACES);
	struct superslab **own = &space.own[place], *ss = *own;
	if (ss != NULL && ss->place == place) {
		if (longest_run32(ss->free) >= granules)
			return ss;
		ss->place = 0;
	}
	*own = NULL;
	for (; granules <= SUPERSLAB_GRANULES; granules++)
		for (struct list_node *n = space.plain.free.by_length[granules].first; n != NULL; n = n->next) {
			ss = of_run_node(n);
			if (ss->place != 0)
				continue;
			ss->place = place;
			return *own = ss;
		}
	return NULL;
}

/* About as many SuperSlabs are there only because threads do not share. */
HAK_EVERYDAY static size_t owned(void) {
	size_t n = 0;
	for (unsigned i = 1; i <= PLACES; i++)
		n += space.own[i] != NULL && space.own[i]->place == i;
	return n;
}

HAK_EVERYDAY static struct superslab *fit(struct kind *kind, size_t granules, unsigned *firstp) {
	struct superslab *ss = NULL;
	if (HAK_UNLIKELY(space.parting == PARTED) && kind == &space.plain) {
		ss = fit_own(granules);
	} else {
		struct list_node *n = best_fit(&kind->free, granules);
		if (n != NULL)
			ss = of_run_node(n);
	}
	if (ss != NULL)
		*firstp = (unsigned)find_run32(ss->free, (unsigned)granules);
	return ss;
}

/* One may have been slow because its thread lost the processor. */
void superslab_note_huge_page(bool was_slow) {
	space.slow_run = was_slow ? space.slow_run + 1 : 0;
	if (space.slow_run >= HUGE_SLOW_RUN)
		space.slow_ms = max_size(os_now_ms(), 1);
}

HAK_EVERYDAY static bool huge_pages_are_slow(void) {
	if (space.slow_ms != 0 && os_now_ms() - space.slow_ms >= HUGE_PAUSE)
		space.slow_ms = 0;
	return space.slow_ms != 0;
}

/* Dirty granules first: they are resident already, and clean ones cost a page fault each. */
HAK_EVERYDAY static struct superslab *choose(size_t granules, enum span_use use, unsigned *firstp) {
	bool is_huge = use == SPAN_DENSE && !huge_pages_are_slow();
	struct kind *near = is_huge ? &space.huge : &space.plain, *far = is_huge ? &space.plain : &space.huge;
	struct superslab *ss = fit_dirty(near, granules, firstp);
	if (ss == NULL)
		ss = fit_dirty(far, granules, firstp);
	if (ss == NULL && use != SPAN_DIRTY)
		ss = fit(near, granules, firstp);
	return ss == NULL && use == SPAN_DENSE ? fit(far, granules, firstp) : ss;
}

HAK_EVERYDAY void superslab_count_hollow(struct superslab *ss, size_t bytes) {
	ss->hollow += (uint32_t)bytes;
	hak_space.hollow += bytes;
}

HAK_EVERYDAY HAK_NOINLINE unsigned superslab_count(uint32_t mask) {
	return count_ones32(mask);
}

/* Which of them are hollow nobody knows: as many as of the others. (In a fork child of a signal handler amid this
   nothing is hollow any longer.) */
HAK_EVERYDAY void superslab_uncount_dirty(struct superslab *ss, unsigned n) {
	space_count_dirty(-(ptrdiff_t)n);
	if (HAK_LIKELY(ss->hollow == 0))
		return;
	unsigned all = superslab_count(ss->free & ~ss->zero);
	uint32_t part = n < all ? (uint32_t)((uint64_t)ss->hollow * n / all) : ss->hollow;
	ss->hollow -= (uint32_t)min_size(part, ss->hollow);
	hak_space.hollow -= min_size(part, hak_space.hollow);
}

HAK_EVERYDAY struct superslab *superslab_take(size_t granules, enum span_use use, unsigned *firstp, bool *zerop) {
	unsigned first;
	struct superslab *ss = choose(granules, use, &first);
	if (ss == NULL)
		return NULL;
	uint32_t mask = low_mask32((unsigned)granules) << first;
	uint32_t clean = ss->zero & mask;
	*firstp = first;
	*zerop = clean == mask;
	if (clean != 0 && ss->purged_ms != 0)
		purge_regret(ss);
	superslab_uncount_dirty(ss, superslab_count(mask & ~clean));
	space_count_live(granules);
	ss->free &= ~mask;
	ss->zero &= ~mask;
	superslab_refile(ss);
	return ss;
}

HAK_EVERYDAY void superslab_put(struct superslab *ss, uint32_t mask, uint32_t dirty) {
	ss->free |= mask;
	ss->zero |= mask & ~dirty;
	space_change_live(-(ptrdiff_t)superslab_count(mask));
	space_count_dirty(superslab_count(dirty));
	space_note_retained();
	if (dirty != 0)
		purge_enqueue(ss, dirty);
	superslab_refile(ss);
}

/* Huge pages or none for what was just mapped. Where the system hands them out unasked the first touch of a small
   heap would cost 2 MiB, and roomy spans their unused pages; with a granule apart no huge page fits, and madvise
   stays for larger heaps (sandboxes). False: the mapping, which reaches from `low` to `high`, is given up. */
HAK_EVERYDAY static bool choose_pages(const struct kind *kind, uintptr_t base, size_t n, uintptr_t low, uintptr_t high) {
	if (kind == &space.huge) {
		os_advise_huge((void *)base, n * SUPERSLAB, true);
	} else if (hak_settings.thp != THP_ALWAYS && hak_space.superslabs >= HUGE_AFTER) {
		os_advise_huge((void *)base, n * SUPERSLAB, false);
	} else if (hak_settings.thp != THP_ALWAYS) {
		for (uintptr_t end = base + n * SUPERSLAB; base < end; base += SUPERSLAB) {
			uintptr_t apart = base + SUPERSLAB - GRANULE;
			if (os_map_apart((void *)apart, GRANULE))
				continue;
			/* But for this granule: if it was unmapped, another thread may have mapped it. */
			os_unmap((void *)low, apart - low);
			os_unmap((void *)(apart + GRANULE), high - (apart + GRANULE));
			return false;
		}
	}
	return true;
}

/* The first mapping is twice what a SuperSlab needs, so that an aligned one lies in it without
   trimming; what is left over becomes metadata memory. */
HAK_EVERYDAY static bool map_first_region(void) {
	char *p = os_map(NULL, 2 * SUPERSLAB);
	if (p == NULL)
		return false;
	uintptr_t start = align_up((uintptr_t)p, SUPERSLAB);
	uintptr_t end = (uintptr_t)p + 2 * SUPERSLAB;
	if (!choose_pages(&space.plain, start, 1, (uintptr_t)p, end))
		return false;
	space.plain.region = start;
	space.plain.region_end = start + SUPERSLAB;
	meta_donate(p, start - (uintptr_t)p);
	meta_donate((void *)(start + SUPERSLAB), end - (start + SUPERSLAB));
	if (hak_settings.secure != 0)
		space_guard();
	return true;
}

HAK_EVERYDAY void space_guard(void) {
	static bool done;
	/* Relaxed: it only keeps a second call from asking the system again. */
	if (__atomic_exchange_n(&done, true, __ATOMIC_RELAXED))
		return;
	meta_guard();
	pagemap_guard();
}

/* In a GiB without small pages, next to what is there, downwards as the system places mappings. Some hypervisors keep
   page tables of their own, and touching what is resident traps again and again where pages of both sizes share a page
   directory, which spans a GiB: with 700 MiB of small pages and 4 of huge ones it took 2 us instead of 12 ns. What others
   have on the way, as after superslab_release_empty, is passed by, a GiB for each try (but what then cannot be unmapped
   is used); failing that it is anywhere. */
HAK_COLD static char *map_huge(size_t bytes) {
	enum { TRIES = 64 };
	for (unsigned i = 0; i < TRIES; i++) {
		uintptr_t end = space.huge_low != 0 ? space.huge_low : pagemap_apart();
		if (end == 0)
			break;
		char *wanted = (char *)(end - bytes), *p = os_map(wanted, bytes);
		if (p == NULL)
			return NULL;
		space.huge_low = p == wanted ? (uintptr_t)p : align_down(end - bytes, HUGE_APART);
		if (p == wanted || (!os_unmap(p, bytes) && ((uintptr_t)p & (SUPERSLAB - 1)) == 0))
			return p;
	}
	return os_map_aligned(bytes, SUPERSLAB);
}

HAK_EVERYDAY static bool map_region(struct kind *kind) {
	if (space.all == NULL && kind == &space.plain && map_first_region())
		return true;
	size_t n = hak_space.superslabs / 4;
	if (space.parting == PARTED) /* others may wait for the lock meanwhile, or for one of their own */
		n = max_size(n, PARTED_REGION);
	n = n < 1 ? 1 : n > REGION_MAX ? REGION_MAX : n;
	for (; n > 0; n /= 2) {
		bool is_huge = kind == &space.huge;
		char *p = HAK_UNLIKELY(is_huge) ? map_huge(n * SUPERSLAB) : os_map_aligned(n * SUPERSLAB, SUPERSLAB);
		if (p == NULL)
			continue;
		uintptr_t base = (uintptr_t)p, end = base + n * SUPERSLAB;
		if (!choose_pages(kind, base, n, base, end))
			return false;
		kind->region = base;
		kind->region_end = end;
		if (hak_space.superslabs != 0 || hak_settings.secure != 0)
			space_guard();
		return true;
	}
	return false;
}

HAK_EVERYDAY static struct kind *kind_for(enum span_use use) {
	if (use != SPAN_DENSE || hak_settings.thp == THP_NEVER)
		return &space.plain;
	if (hak_settings.thp == THP_ALWAYS)
		return &space.huge;
	return hak_space.superslabs >= HUGE_AFTER + owned() && !huge_pages_are_slow() ? &space.huge : &space.plain;
}

HAK_EVERYDAY static struct superslab *new_descriptor(void) {
	struct list_node *n = space.unused.first;
	if (n != NULL) {
		list_remove(n);
		return of_run_node(n);
	}
	struct superslab *ss = meta_alloc(sizeof *ss);
	if (ss != NULL) {
		ss->next = space.all;
		/* Release: `next`, for who counts them meanwhile. */
		__atomic_store_n(&space.all, ss, __ATOMIC_RELEASE);
	}
	return ss;
}

HAK_EVERYDAY bool superslab_grow(enum span_use use) {
	struct kind *kind = kind_for(use);
	struct superslab *ss = NULL;
	if ((kind->region != kind->region_end || map_region(kind)) && pagemap_cover(kind->region, SUPERSLAB_GRANULES))
		ss = new_descriptor();
	if (ss == NULL) {
		space.parting = NEVER_PARTED;
		return false;
	}
	/* All but `next`, which others may be following. */
	memset(&ss->free, 0, sizeof *ss - offsetof(struct superslab, free));
	ss->base = kind->region;
	ss->zero = UINT32_MAX;
	ss->huge = kind == &space.huge;
	kind->region += SUPERSLAB;
	pagemap_set(ss->base, SUPERSLAB_GRANULES, TAG_FREE, NULL);
	ss->free = UINT32_MAX; /* with .zero above it would be one constant, far from what every process reads */
	space_count_superslabs(1);
	space_note_retained();
	superslab_refile(ss);
	return true;
}

static bool release(struct superslab *ss) {
	/* The tags go first: once unmapped, the addresses may become somebody else's at once. */
	uintptr_t base = ss->base;
	pagemap_set_tag(base, SUPERSLAB_GRANULES, TAG_NONE);
	ss->place = 0;
	ss->base = 0; /* before it is true: a fork child must not take it for mapped */
	if (!os_unmap((void *)base, SUPERSLAB)) {
		ss->base = base;
		pagemap_set(base, SUPERSLAB_GRANULES, TAG_FREE, NULL);
		return false;
	}
	purge_forget(ss);
	unfile(&ss->by_run);
	unfile(&ss->by_dirty);
	space_count_superslabs(-1);
	list_push(&space.unused, &ss->by_run);
	return true;
}

/* Of which `passed` the system has refused: they come first. */
struct releasing {
	size_t left, skip, passed;
};

HAK_COLD static void release_empty(struct kind *kind, struct releasing *r) {
	for (struct list_node *node = kind->free.by_length[SUPERSLAB_GRANULES].first, *next; node != NULL; node = next) {
		next = node->next;
		if (r->skip != 0)
			r->skip--;
		else if (!release(of_run_node(node)))
			r->passed++;
		else if (--r->left == 0)
			return;
	}
	/* What is mapped for others to come, and not resident. */
	if (kind->region != kind->region_end && os_unmap((void *)kind->region, kind->region_end - kind->region))
		kind->region = kind->region_end;
}

HAK_COLD size_t superslab_release_empty(size_t *passedp) {
	enum { AT_ONCE = 32 }; /* so that nobody waits long for the lock */
	struct releasing r = { .left = AT_ONCE, .skip = *passedp, .passed = *passedp };
	space.huge_low = 0; /* else addresses would wander down for ever, and with them what describes them */
	release_empty(&space.plain, &r);
	if (r.left != 0)
		release_empty(&space.huge, &r);
	*passedp = r.passed;
	return AT_ONCE - r.left;
}

/* Granules without tags: the SuperSlab was about to be unmapped, or was new. */
HAK_COLD static void tag_free(struct superslab *ss) {
	for (unsigned i = 0; i < SUPERSLAB_GRANULES; i++) {
		if (pagemap_find(ss->base + i * GRANULE).tag != TAG_NONE)
			continue;
		pagemap_set(ss->base + i * GRANULE, 1, TAG_FREE, NULL);
		if ((ss->free >> i & 1) == 0)
			ss->zero |= (uint32_t)1 << i;
		ss->free |= (uint32_t)1 << i;
	}
}

HAK_COLD void superslab_rebuild(void) {
	purge_reset();
	space.plain = space.huge = (struct kind){ 0 }; /* regions may be half updated: given up */
	space.unused.first = NULL;
	space.parting = NOT_PARTED;
	space_change_live(-(ptrdiff_t)hak_space.live);
	space_count_superslabs(-(ptrdiff_t)hak_space.superslabs);
	space_count_dirty(-(ptrdiff_t)hak_space.dirty);
	hak_space.hollow = 0;
	for (struct superslab *ss = space.all; ss != NULL; ss = ss->next) {
		ss->by_run = ss->by_dirty = (struct list_node){ 0 };
		ss->queued = false;
		ss->place = 0;
		ss->hollow = 0;
		if (ss->base == 0) {
			list_push(&space.unused, &ss->by_run);
			continue;
		}
		ss->zero &= ss->free;
		tag_free(ss);
		space_count_superslabs(1);
		space_change_live(SUPERSLAB_GRANULES);
		superslab_put(ss, ss->free, ss->free & ~ss->zero);
	}
}

/* ---- checking ---- */

static bool is_filed_right(const struct list_node *n, const struct run_index *index, unsigned length) {
	return list_is_linked(n) == (length != 0) && (length == 0 || (index->lengths >> length & 1) != 0) &&
		(length == 0 || *n->pprev == n);
}

static const char *check_one(const struct superslab *ss) {
	const struct kind *kind = ss->huge ? &space.huge : &space.plain;
	if (ss->base % SUPERSLAB != 0)
		return "a SuperSlab is not aligned";
	if ((ss->zero & ~ss->free) != 0)
		return "a granule in use is clean";
	if ((ss->free & ~ss->zero) != 0 && !ss->queued)
		return "a SuperSlab is dirty and not queued";
	if (ss->hollow > superslab_count(ss->free & ~ss->zero) * GRANULE)
		return "a SuperSlab is too hollow";
	if (!is_filed_right(&ss->by_run, &kind->free, longest_run32(ss->free)) ||
	    !is_filed_right(&ss->by_dirty, &kind->dirty, longest_run32(ss->free & ~ss->zero)))
		return "a SuperSlab is not filed by its free granules";
	for (unsigned i = 0; i < SUPERSLAB_GRANULES; i++) {
		uint32_t tag = pagemap_find(ss->base + i * GRANULE).tag;
		bool tagged_free = tag == TAG_FREE || tag == TAG_LARGE_FREED;
		if (tag == TAG_NONE || ((ss->free >> i & 1) != 0 && !tagged_free))
			return "a SuperSlab and the page map disagree";
	}
	return NULL;
}

HAK_COLD const char *superslab_check(void) {
	size_t superslabs = 0, live = 0, dirty = 0, hollow = 0;
	const char *wrong = NULL;
	space_acquire();
	for (const struct superslab *ss = space.all; ss != NULL && wrong == NULL; ss = ss->next) {
		if (ss->base == 0)
			continue;
		superslabs++;
		live += SUPERSLAB_GRANULES - superslab_count(ss->free);
		dirty += superslab_count(ss->free & ~ss->zero);
		hollow += ss->hollow;
		wrong = check_one(ss);
	}
	if (wrong == NULL && (superslabs != hak_space.superslabs || live != hak_space.live || dirty != hak_space.dirty ||
	                      hollow != hak_space.hollow))
		wrong = "the sums over SuperSlabs are wrong";
	lock_release(&space.lock);
	return wrong;
}
