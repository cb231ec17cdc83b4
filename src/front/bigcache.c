/* SPDX-License-Identifier: MIT */
#include "front/bigcache.h"

#include "base/bits.h"
#include "base/settings.h"
#include "front/background.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/pagemap.h"
#include "space/purge.h"

enum {
	EXACT = 64,         /* bins of one granule count each */
	PER_DOUBLING = 8,
	BINS = EXACT + PER_DOUBLING * 26 + 1, /* up to 2^48 bytes */
	WORDS = (BINS + 63) / 64,
	TRIES = 8,          /* spans looked at in a bin */
	WASTE = 2,          /* a span taken whole is at most 1/2 too long */
	PIECES = 4,         /* such a part more than was in use at most: free spans are longer or shorter than the next */
	LITTLE = 8,         /* an evicted span is not cut if it is at most 1/8 of what may be kept */
	CLOCK_EVERY = 64,
	REGRET_MAX = 3,
};
static const size_t MOST = ((size_t)1 << 32) - 1; /* granules in the address space */
static const size_t FLOOR = 4 * HAK_MIB;      /* bytes always allowed */

struct bigcache_stats hak_bigcache_stats;

/* Under `lock`, as is hak_space.kept: the granules kept. */
HAK_LAST_IN_BSS struct bigcache {
	struct lock lock;
	struct list bin[BINS];
	uint64_t nonempty[WORDS];
	struct queue age;       /* oldest first; but what was joined stays where its beginning was */
	bool unjoined;          /* spans have come since join_all */
	unsigned events;
	uint64_t now_ms;
	unsigned regret;        /* doublings of the allowance */
	uint64_t evicted_ms;    /* when the allowance last forced a span out; 0: never */
	size_t evicted, missed; /* granules since it began to, with no second between, or since half of them were missed */
	bool regretted;         /* since evicted_ms */
	uint64_t regret_ms;
	/* Granules, since regret was last reviewed: */
	size_t most;            /* in big blocks, at a time */
	size_t high, low;       /* kept */
	uint32_t generation;    /* of this cache: bigcache_reset begins a new one */
} hak_bigcache;

/* What the cache may keep where nobody says: bytes; 0: not asked yet; constant then. */
HAK_AT_START static size_t automatic_max;

struct lock *bigcache_lock(void) {
	return &hak_bigcache.lock;
}

HAK_FAR void bigcache_reset(void) {
	for (unsigned i = 0; i < BINS; i++)
		hak_bigcache.bin[i].first = NULL;
	for (unsigned i = 0; i < WORDS; i++)
		hak_bigcache.nonempty[i] = 0;
	hak_bigcache.age = (struct queue){ 0 };
	hak_bigcache.regret = 0;
	hak_bigcache.evicted_ms = 0;
	hak_bigcache.most = hak_bigcache.high = hak_bigcache.low = 0;
	space_set_kept(0);
	hak_bigcache.generation++;
}

HAK_EVERYDAY bool bigcache_is_empty(void) {
	return __atomic_load_n(&hak_space.kept, __ATOMIC_RELAXED) == 0;
}

HAK_EVERYDAY const void *bigcache_granules_at(void) {
	return &hak_space.kept;
}

/* Monotonic in `granules`; exact up to EXACT. */
HAK_NOINLINE static unsigned bin_of(size_t granules) {
	if (granules <= EXACT)
		return (unsigned)granules;
	unsigned log = ilog2(granules);
	unsigned eighth = (unsigned)(granules >> (log - 3)) & 7;
	return EXACT + 1 + (log - ilog2(EXACT)) * PER_DOUBLING + eighth;
}

static struct large *of_bin_node(struct list_node *n) {
	return LIST_ENTRY(n, struct large, bin_link);
}

static struct large *of_age_node(struct queue_node *n) {
	return LIST_ENTRY(n, struct large, age_link);
}

static void count_kept(ptrdiff_t granules) {
	space_set_kept(hak_space.kept + (size_t)granules);
}

/* After what the program did; what the cache does itself is no use of it. */
HAK_EVERYDAY HAK_NOINLINE static void note_use(void) {
	hak_bigcache.high = max_size(hak_bigcache.high, hak_space.kept);
	hak_bigcache.low = min_size(hak_bigcache.low, hak_space.kept);
}

static void bin(struct large *l) {
	unsigned b = bin_of(l->span.granules);
	list_push(&hak_bigcache.bin[b], &l->bin_link);
	hak_bigcache.nonempty[b / 64] |= (uint64_t)1 << b % 64;
}

static void unbin(struct large *l) {
	unsigned b = bin_of(l->span.granules);
	list_remove(&l->bin_link);
	if (hak_bigcache.bin[b].first == NULL)
		hak_bigcache.nonempty[b / 64] &= ~((uint64_t)1 << b % 64);
}

/* `since`: when its memory was last used, or that of most of it. */
static void add(struct large *l, uint64_t since) {
	struct queue_node *older = hak_bigcache.age.last;
	while (older != NULL && of_age_node(older)->freed_ms > since)
		older = older->prev;
	bin(l);
	queue_insert(&hak_bigcache.age, older, &l->age_link);
	count_kept((ptrdiff_t)l->span.granules);
	l->freed_ms = since;
	l->generation = hak_bigcache.generation;
	large_set_keeper(l, KEPT_BIGCACHE);
}

static void take_out(struct large *l) {
	unbin(l);
	queue_remove(&hak_bigcache.age, &l->age_link);
	count_kept(-(ptrdiff_t)l->span.granules);
	large_set_keeper(l, KEPT_NOT);
}

/* The first bin from `b` on that is not empty, or BINS. */
HAK_NOINLINE static unsigned next_bin(unsigned b) {
	uint64_t word = hak_bigcache.nonempty[b / 64] & ~(uint64_t)0 << b % 64;
	for (unsigned w = b / 64;; word = hak_bigcache.nonempty[w]) {
		if (word != 0)
			return w * 64 + (unsigned)__builtin_ctzll(word);
		if (++w == WORDS)
			return BINS;
	}
}

static uintptr_t base_of(const struct large *l) {
	return (uintptr_t)l->span.base;
}

/* The smallest span of `granules` to `most` that begins at a multiple of `align`, as far as the bins tell. */
HAK_NOINLINE static struct large *find(size_t granules, size_t most, size_t align) {
	for (unsigned b = bin_of(granules), end = bin_of(most) + 1; (b = next_bin(b)) < end; b++) {
		struct list_node *n = hak_bigcache.bin[b].first;
		for (int i = 0; n != NULL && i < TRIES; n = n->next, i++) {
			struct large *l = of_bin_node(n);
			if (l->span.granules >= granules && l->span.granules <= most && (base_of(l) & (align - 1)) == 0)
				return l;
		}
	}
	return NULL;
}

static uintptr_t end_of(const struct large *l) {
	return base_of(l) + (l->span.granules << GRANULE_SHIFT);
}

/* ---- tags ---- */

static void tag_cached(uintptr_t at, struct large *l) {
	pagemap_set(at, 1, TAG_LARGE_CACHED, l);
}

/* Tags the ends of a kept span, but for the granule that tells of a freed block, unless it is all there is. */
static void tag_ends(struct large *l) {
	uintptr_t base = base_of(l), last = end_of(l) - GRANULE;
	if (base == last || pagemap_find(base).tag != TAG_LARGE_FREED)
		tag_cached(base, l);
	else
		tag_cached(base + GRANULE, l);
	if (last != base)
		tag_cached(last, l);
}

/* Leaves word of the block that was freed here, and tags the ends. */
HAK_NOINLINE static void touch(struct large *l) {
	if (!l->untouched)
		return;
	l->untouched = false;
	pagemap_set_tag(base_of(l), 1, TAG_LARGE_FREED); /* first: see pagemap_set */
	pagemap_set(base_of(l), 1, TAG_LARGE_FREED, (void *)l->size);
	tag_ends(l);
}

/* The kept span that the granule at `addr` is in, or NULL. A descriptor that is in the cache stays what
   it is while we hold the lock. The granule may be anybody's, who is freeing or unmapping it this moment. */
static struct large *kept_at(uintptr_t addr) {
	struct pagemap_entry e = pagemap_lookup_steady(addr);
	struct large *l = e.tag == TAG_LARGE_CACHED || e.tag == TAG_LARGE ? e.desc : NULL;
	if (l == NULL || large_keeper(l) != KEPT_BIGCACHE || l->generation != hak_bigcache.generation)
		return NULL;
	return addr >= base_of(l) && addr < end_of(l) ? l : NULL;
}

/* Likewise one that begins at `addr`: its first granule may tell what block began there instead. */
static struct large *kept_from(uintptr_t addr) {
	struct large *l = kept_at(addr);
	if (l == NULL && pagemap_find(addr).tag == TAG_LARGE_FREED)
		l = kept_at(addr + GRANULE);
	return l != NULL && base_of(l) == addr ? l : NULL;
}

/* ---- cutting and joining ---- */

/* Cuts what lies behind the first `granules` off into a span of its own, which is returned. NULL: no
   descriptor for it; nothing has changed. */
static struct large *split(struct large *l, size_t granules) {
	struct large *rest = large_new_descriptor();
	if (rest == NULL)
		return NULL;
	rest->span = (struct span){ .base = (char *)l->span.base + (granules << GRANULE_SHIFT),
	                            .granules = l->span.granules - granules };
	rest->usable = rest->touched = rest->span.granules << GRANULE_SHIFT;
	rest->size = 0; /* no block began here */
	rest->guard = 0; /* the descriptor may have been a guarded block's */
	rest->is_shut = rest->untouched = false;
	atomic_store_explicit(&rest->state, LARGE_FREED, memory_order_relaxed);
	l->usable = granules << GRANULE_SHIFT; /* first: in a fork child it may be shorter than the span, but not longer */
	l->span.granules = granules;
	return rest;
}

/* Joins `high` to the span before it; neither is in a bin. */
static void join(struct large *low, struct large *high) {
	touch(low);
	touch(high);
	if (high->span.granules > low->span.granules) /* what is young must not keep what nobody uses */
		low->freed_ms = high->freed_ms;
	low->span.granules += high->span.granules;
	low->usable = low->touched = low->span.granules << GRANULE_SHIFT;
	tag_ends(low);
	large_put_descriptor(high);
}

/* Joins to a kept span those behind it. Its place in the queue stays: others wait for one delay more at most. */
static void join_following(struct large *l) {
	struct large *high = kept_from(end_of(l));
	if (high == NULL)
		return;
	unbin(l);
	for (; high != NULL; high = kept_from(end_of(l))) {
		take_out(high);
		count_kept((ptrdiff_t)high->span.granules);
		join(l, high);
	}
	bin(l);
}

/* Joins whatever lies side by side. False: nothing has come since the last time. */
static bool join_all(void) {
	if (!hak_bigcache.unjoined)
		return false;
	hak_bigcache.unjoined = false;
	for (struct queue_node *n = hak_bigcache.age.first; n != NULL; n = n->next)
		join_following(of_age_node(n));
	return true;
}

static bool evicted_lately(void) {
	return hak_bigcache.evicted_ms != 0 && hak_bigcache.now_ms - hak_bigcache.evicted_ms <= PURGE_REGRET_MS;
}

/* The allowance forces granules out. */
static void note_evicted(size_t granules) {
	if (!evicted_lately())
		hak_bigcache.evicted = hak_bigcache.missed = 0;
	hak_bigcache.evicted += granules;
	hak_bigcache.evicted_ms = max_size(hak_bigcache.now_ms, 1);
	hak_bigcache.regretted = false;
}

/* A miss soon after the allowance forced a span out: the allowance was too small; by far, if half of all that was forced
   out is missed, and that is much. */
static void note_miss(size_t granules) {
	hak_bigcache_stats.misses++;
	if (!evicted_lately())
		return;
	hak_bigcache.missed += granules;
	bool by_far = hak_bigcache.evicted > (FLOOR << REGRET_MAX) / GRANULE && hak_bigcache.missed > hak_bigcache.evicted / 2;
	if (hak_bigcache.regretted && !by_far)
		return;
	if (by_far)
		hak_bigcache.evicted = hak_bigcache.missed = 0;
	hak_bigcache.regretted = true;
	hak_bigcache.regret = by_far ? REGRET_MAX : (unsigned)min_size(hak_bigcache.regret + 1, REGRET_MAX);
	hak_bigcache.regret_ms = hak_bigcache.now_ms;
}

/* While what is kept beyond the floor is used again, regret lasts. */
static void review_regret(void) {
	hak_bigcache.regret -= hak_bigcache.high <= FLOOR / GRANULE || hak_bigcache.low > FLOOR / GRANULE;
	hak_bigcache.regret_ms = hak_bigcache.now_ms;
	hak_bigcache.high = hak_bigcache.low = hak_space.kept;
	hak_bigcache.most = space_big() + hak_space.kept;
}

HAK_EVERYDAY static void look_at_clock(void) {
	hak_bigcache.events = 0;
	hak_bigcache.now_ms = os_now_ms();
	if (hak_bigcache.regret > 0 && hak_bigcache.now_ms - hak_bigcache.regret_ms > PURGE_REGRET_MS)
		review_regret();
}

static bool is_stale(const struct large *l) {
	return hak_settings.purge_delay_ms >= 0 &&
		hak_bigcache.now_ms - l->freed_ms > (uint64_t)hak_settings.purge_delay_ms;
}

/* Not later: sandboxes forbid asking. */
HAK_EVERYDAY void bigcache_init(void) {
	static const size_t most = 512 * HAK_MIB;
	size_t memory = os_memory();
	if (hak_settings.limit != 0 && memory != 0)
		memory = min_size(memory, hak_settings.limit);
	automatic_max = memory != 0 ? max_size(min_size(memory / 8, most), 1) : most;
}

/* Granules that a program may have kept beside those in use, if it uses as many again and again. */
static size_t breath(void) {
	size_t pieces = hak_bigcache.most / PIECES; /* that lie where nothing fits */
	size_t all = min_size(hak_bigcache.most + pieces, PURGE_BREATH / GRANULE);
	return all - min_size(space_big(), all); /* those in pockets are in use here */
}

/* Granules. */
static size_t allowance(void) {
	if (hak_settings.purge_delay_ms == 0)
		return 0;
	size_t live = space_big() * GRANULE, max = hak_settings.bigcache_max;
	if (max == BIGCACHE_AUTO)
		max = max_size(FLOOR << REGRET_MAX, automatic_max);
	size_t most = max_size(FLOOR << hak_bigcache.regret, min_size(live / 4 << hak_bigcache.regret, live)) / GRANULE;
	/* Relaxed: a hint. What pockets keep is kept of the same. */
	ptrdiff_t counted = (ptrdiff_t)__atomic_load_n(&hak_space.pocketed, __ATOMIC_RELAXED);
	size_t pocketed = counted > 0 ? (size_t)counted : 0; /* a fork child may return into what was counted anew */
	if (hak_bigcache.regret == REGRET_MAX)
		most = max_size(most, breath() + pocketed);
	if (hak_settings.purge_delay_ms < 0)
		most = max / GRANULE;
	most = min_size(most, max / GRANULE);
	return most - min_size(pocketed, most);
}

/* Takes the first `granules` of a kept span, or, `end`, the last of one that was touched; the rest goes back. NULL: no
   descriptor for that. */
static struct large *cut(struct large *l, size_t granules, bool end) {
	uint64_t since = l->freed_ms;
	take_out(l);
	if (l->span.granules == granules)
		return l;
	struct large *high = split(l, end ? l->span.granules - granules : granules);
	if (high == NULL) {
		add(l, since);
		return NULL;
	}
	struct large *rest = end ? l : high;
	tag_ends(rest);
	add(rest, since);
	return end ? high : l;
}

/* As bigcache_take; the span is not tagged yet. */
static struct large *take(size_t granules, size_t align) {
	struct large *l = find(granules, granules + granules / WASTE, align);
	if (l != NULL) {
		take_out(l);
		return l;
	}
	l = find(granules, MOST, align);
	return l != NULL ? cut(l, granules, false) : NULL;
}

/* Tags what was taken out. */
static void settle(struct large *l) {
	if (!l->untouched)
		pagemap_set(base_of(l), l->span.granules, TAG_LARGE, l);
	note_use();
}

struct large *bigcache_take(size_t granules, size_t align, bool is_last) {
	lock_acquire(&hak_bigcache.lock);
	struct large *l = take(granules, align);
	if (l == NULL && hak_space.kept >= granules && join_all())
		l = take(granules, align);
	if (l != NULL) {
		settle(l);
		hak_bigcache_stats.hits++;
	} else if (is_last) {
		note_miss(granules);
	}
	lock_release(&hak_bigcache.lock);
	return l;
}

HAK_FAR struct large *bigcache_take_part(size_t granules) {
	lock_acquire(&hak_bigcache.lock);
	struct large *l = NULL;
	/* Where there is more in several pieces, they serve others. */
	if (hak_space.kept < granules) {
		join_all();
		l = find(granules - granules / WASTE, granules, GRANULE);
	}
	if (l != NULL) {
		take_out(l);
		settle(l);
	}
	lock_release(&hak_bigcache.lock);
	return l;
}

bool bigcache_has(size_t granules) {
	lock_acquire(&hak_bigcache.lock);
	bool has = find(granules, MOST, GRANULE) != NULL;
	lock_release(&hak_bigcache.lock);
	return has;
}

HAK_COLD void bigcache_miss(size_t granules) {
	lock_acquire(&hak_bigcache.lock);
	note_miss(granules);
	lock_release(&hak_bigcache.lock);
}

HAK_COLD size_t bigcache_extend(struct large *l, size_t least, size_t most) {
	size_t got = 0;
	lock_acquire(&hak_bigcache.lock);
	struct large *next = kept_from(end_of(l));
	if (next != NULL) {
		join_following(next);
		next = next->span.granules >= least ? cut(next, min_size(next->span.granules, most), false) : NULL;
	}
	if (next != NULL) {
		got = next->span.granules;
		pagemap_set(base_of(next), got, TAG_LARGE, l);
		large_put_descriptor(next);
		l->span.granules += got;
		l->touched = l->span.granules << GRANULE_SHIFT;
		note_use();
	}
	lock_release(&hak_bigcache.lock);
	return got;
}

/* ---- giving back ---- */

/* A span that the rules say must go, taken out: all of the oldest if it is stale, or little beside what may be kept, for
   the rest of it might serve nobody and push out what does; else about as much of it as is too much. */
static struct large *victim(size_t most) {
	struct queue_node *n = hak_bigcache.age.first;
	if (n == NULL)
		return NULL;
	struct large *oldest = of_age_node(n);
	size_t all = oldest->span.granules, excess = hak_space.kept > most ? hak_space.kept - most : 0;
	if (is_stale(oldest))
		excess = all;
	if (excess == 0)
		return NULL;
	if (all <= most / LITTLE)
		excess = all;
	excess = min_size(align_up(excess, LARGE_BIG_STEP), all);
	/* From its end if it was cut or joined: before it may lie a block that grows. */
	struct large *l = cut(oldest, excess, !oldest->untouched);
	if (l != NULL)
		hak_bigcache_stats.evictions++;
	return l;
}

/* Gives back, one after the other, what must go. */
HAK_FAR static bool evict(size_t most) {
	bool any = false;
	struct large *l;
	for (;; any = true) {
		lock_acquire(&hak_bigcache.lock);
		l = victim(most);
		lock_release(&hak_bigcache.lock);
		if (l == NULL)
			return any;
		large_release(l);
	}
}

static bool is_kept(size_t bytes) {
	return hak_settings.bigcache_l25 || bytes >= LARGE_L2_MIN;
}

static void put(struct large *l, bool is_unused) {
	lock_acquire(&hak_bigcache.lock);
	bool look = ++hak_bigcache.events >= CLOCK_EVERY || hak_bigcache.age.first == NULL;
	if (look)
		look_at_clock();
	hak_bigcache.unjoined = true;
	hak_bigcache.most = max_size(hak_bigcache.most, space_big() + l->span.granules);
	add(l, is_unused ? l->freed_ms : hak_bigcache.now_ms);
	note_use();
	size_t most = allowance();
	bool over = hak_space.kept > most;
	/* What is kept only because the program uses it again must go as well if it stops. */
	bool is_breath = hak_space.kept > (FLOOR << REGRET_MAX) / GRANULE;
	if (over)
		note_evicted(hak_space.kept - most);
	lock_release(&hak_bigcache.lock);
	if (over || is_breath)
		purge_note_burst();
	if (look || over)
		evict(most);
	if (HAK_UNLIKELY(hak_settings.background) && hak_settings.purge_delay_ms > 0)
		background_poke();
}

void bigcache_put(struct large *l, bool is_unused) {
	if (!is_kept(l->usable)) {
		large_release(l);
		return;
	}
	l->untouched = true;
	put(l, is_unused);
}

HAK_COLD bool bigcache_put_end(struct large *l, size_t granules) {
	size_t usable = l->usable;
	struct large *end = is_kept((l->span.granules - granules) << GRANULE_SHIFT) ? split(l, granules) : NULL;
	if (end == NULL)
		return false;
	l->usable = min_size(l->usable, usable); /* the block gains nothing by it */
	tag_ends(end);
	put(end, false);
	return true;
}

bool bigcache_release(size_t keep) {
	return evict(keep / GRANULE);
}

uint64_t bigcache_due(void) {
	uint64_t due = PURGE_NEVER;
	lock_acquire(&hak_bigcache.lock);
	if (hak_settings.purge_delay_ms >= 0 && hak_bigcache.age.first != NULL)
		due = of_age_node(hak_bigcache.age.first)->freed_ms + (uint64_t)hak_settings.purge_delay_ms + 1;
	lock_release(&hak_bigcache.lock);
	return due;
}

HAK_EVERYDAY void bigcache_tick(void) {
	if (bigcache_is_empty())
		return;
	lock_acquire(&hak_bigcache.lock);
	look_at_clock();
	lock_release(&hak_bigcache.lock);
	evict(SIZE_MAX);
}

/* ---- checking ---- */

static const char *check_one(const struct large *l) {
	unsigned b = bin_of(l->span.granules);
	if (large_keeper(l) != KEPT_BIGCACHE || atomic_load_explicit(&l->state, memory_order_relaxed) == LARGE_LIVE)
		return "BigCache keeps a span that is not free";
	if (!list_is_linked(&l->bin_link) || *l->bin_link.pprev != &l->bin_link ||
	    (hak_bigcache.nonempty[b / 64] >> b % 64 & 1) == 0)
		return "BigCache has a span in no bin";
	if (kept_at(end_of(l) - GRANULE) != l)
		return "BigCache and the page map disagree";
	return NULL;
}

static size_t count_binned(void) {
	size_t n = 0;
	for (unsigned b = 0; b < BINS; b++)
		for (const struct list_node *at = hak_bigcache.bin[b].first; at != NULL; at = at->next)
			n++;
	return n;
}

HAK_FAR const char *bigcache_check(void) {
	const char *wrong = NULL;
	size_t granules = 0, count = 0;
	lock_acquire(&hak_bigcache.lock);
	for (struct queue_node *n = hak_bigcache.age.first; n != NULL && wrong == NULL; n = n->next, count++) {
		granules += of_age_node(n)->span.granules;
		wrong = check_one(of_age_node(n));
	}
	if (wrong == NULL && (granules != hak_space.kept || count != hak_bigcache.age.count || count != count_binned()))
		wrong = "the sums over BigCache are wrong";
	lock_release(&hak_bigcache.lock);
	return wrong;
}
