/* SPDX-License-Identifier: MIT */
#include "front/bigcache.h"

#include "base/bits.h"
#include "base/settings.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/pagemap.h"

enum {
	EXACT = 64,         /* bins of one granule count each */
	PER_DOUBLING = 8,
	BINS = EXACT + PER_DOUBLING * 26 + 1, /* up to 2^48 bytes */
	WORDS = (BINS + 63) / 64,
	TRIES = 8,          /* spans looked at in a bin of several sizes */
	CLOCK_EVERY = 64,
	REGRET_MAX = 2,
};
static const size_t FLOOR = 8 * HAK_MIB;      /* bytes always allowed */
static const size_t DEFAULT_MAX = 512 * HAK_MIB;

struct bigcache_stats hak_bigcache_stats;

/* Under `lock`. */
static struct {
	struct lock lock;
	struct list bin[BINS];
	uint64_t nonempty[WORDS];
	struct queue age;       /* oldest first */
	size_t granules;        /* kept */
	unsigned events;
	uint64_t now_ms;
	unsigned regret;        /* doublings of the allowance */
	uint64_t evicted_ms;    /* when the allowance last forced a span out; 0: never */
	uint64_t regret_ms;
	uint32_t generation;    /* of this cache: bigcache_reset begins a new one */
} cache;

struct lock *bigcache_lock(void) {
	return &cache.lock;
}

void bigcache_reset(void) {
	for (unsigned i = 0; i < BINS; i++)
		cache.bin[i].first = NULL;
	for (unsigned i = 0; i < WORDS; i++)
		cache.nonempty[i] = 0;
	cache.age = (struct queue){ 0 };
	cache.granules = 0;
	cache.generation++;
}

size_t bigcache_bytes(void) {
	return __atomic_load_n(&cache.granules, __ATOMIC_RELAXED) * GRANULE;
}

/* Monotonic in `granules`; exact up to EXACT. */
static unsigned bin_of(size_t granules) {
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
	return (struct large *)(void *)((char *)n - offsetof(struct large, age_link));
}

static void add(struct large *l) {
	unsigned b = bin_of(l->span.granules);
	list_push(&cache.bin[b], &l->bin_link);
	cache.nonempty[b / 64] |= (uint64_t)1 << b % 64;
	queue_append(&cache.age, &l->age_link);
	cache.granules += l->span.granules;
	l->freed_ms = cache.now_ms;
	l->generation = cache.generation;
}

static void take_out(struct large *l) {
	unsigned b = bin_of(l->span.granules);
	list_remove(&l->bin_link);
	if (cache.bin[b].first == NULL)
		cache.nonempty[b / 64] &= ~((uint64_t)1 << b % 64);
	queue_remove(&cache.age, &l->age_link);
	cache.granules -= l->span.granules;
}

/* The first bin from `b` on that is not empty, or BINS. */
static unsigned next_bin(unsigned b) {
	uint64_t word = cache.nonempty[b / 64] & ~(uint64_t)0 << b % 64;
	for (unsigned w = b / 64;; word = cache.nonempty[w]) {
		if (word != 0)
			return w * 64 + (unsigned)__builtin_ctzll(word);
		if (++w == WORDS)
			return BINS;
	}
}

/* The smallest span that fits, as far as the bins tell. */
static struct large *find(size_t granules) {
	for (unsigned b = bin_of(granules); (b = next_bin(b)) < BINS; b++) {
		struct list_node *n = cache.bin[b].first;
		for (int i = 0; n != NULL && i < TRIES; n = n->next, i++)
			if (of_bin_node(n)->span.granules >= granules)
				return of_bin_node(n);
	}
	return NULL;
}

static uintptr_t base_of(const struct large *l) {
	return (uintptr_t)l->span.base;
}

static uintptr_t end_of(const struct large *l) {
	return base_of(l) + (l->span.granules << GRANULE_SHIFT);
}

/* Cuts what lies behind the first `granules` off into a span of its own, which is returned. NULL: no
   descriptor for it; nothing has changed. */
static struct large *split(struct large *l, size_t granules) {
	struct large *rest = large_new_descriptor();
	if (rest == NULL)
		return NULL;
	rest->span = (struct span){ .base = (char *)l->span.base + (granules << GRANULE_SHIFT),
	                            .granules = l->span.granules - granules };
	rest->usable = rest->touched = rest->span.granules << GRANULE_SHIFT;
	atomic_store_explicit(&rest->state, LARGE_FREED, memory_order_relaxed);
	l->span.granules = granules;
	return rest;
}

/* The kept span that lies at `addr`, or NULL. A descriptor that is in the cache stays what it is
   while we hold the lock. */
static struct large *kept_at(uintptr_t addr) {
	struct pagemap_entry e = pagemap_lookup(addr);
	struct large *l = e.tag == TAG_LARGE_CACHED ? e.desc : NULL;
	return l != NULL && l->generation == cache.generation ? l : NULL;
}

/* Likewise one that begins at `addr`: its first granule may tell what block began there instead. */
static struct large *kept_from(uintptr_t addr) {
	struct large *l = kept_at(addr);
	if (l == NULL && pagemap_lookup(addr).tag == TAG_LARGE_FREED)
		l = kept_at(addr + GRANULE);
	return l != NULL && base_of(l) == addr ? l : NULL;
}

/* Tags a kept span, but for the granules that tell of a freed block, so that a second free of it is
   still named. */
static void tag_kept(const struct large *l, struct large *desc) {
	for (uintptr_t at = base_of(l); at < end_of(l); at += GRANULE)
		if (pagemap_lookup(at).tag != TAG_LARGE_FREED)
			pagemap_set(at, 1, TAG_LARGE_CACHED, desc);
}

/* Joins two neighbours, neither in a bin; the larger one's descriptor survives. */
static struct large *join(struct large *low, struct large *high) {
	struct large *to = low->span.granules >= high->span.granules ? low : high;
	struct large *from = to == low ? high : low;
	uintptr_t base = base_of(low);
	tag_kept(from, to);
	to->span.granules += from->span.granules;
	to->span.base = (void *)base;
	to->usable = to->touched = to->span.granules << GRANULE_SHIFT;
	large_put_descriptor(from);
	return to;
}

/* Adds a freed span together with the kept spans beside it. */
static void add_joined(struct large *l) {
	pagemap_set(base_of(l), l->span.granules, TAG_LARGE_CACHED, l);
	pagemap_set(base_of(l), 1, TAG_LARGE_FREED, (void *)l->usable);
	struct large *low = kept_at(base_of(l) - 1), *high = kept_from(end_of(l));
	if (low != NULL) {
		take_out(low);
		l = join(low, l);
	}
	if (high != NULL) {
		take_out(high);
		l = join(l, high);
	}
	add(l);
}

/* A miss soon after the allowance forced a span out: the allowance was too small. */
static void regret_miss(void) {
	if (cache.evicted_ms == 0 || cache.now_ms - cache.evicted_ms > 1000)
		return;
	cache.evicted_ms = 0;
	if (cache.regret < REGRET_MAX)
		cache.regret++;
	cache.regret_ms = cache.now_ms;
}

static void look_at_clock(void) {
	cache.events = 0;
	cache.now_ms = os_now_ms();
	if (cache.regret > 0 && cache.now_ms - cache.regret_ms > 1000) {
		cache.regret--;
		cache.regret_ms = cache.now_ms;
	}
}

static bool is_stale(const struct large *l) {
	return hak_settings.purge_delay_ms >= 0 &&
		cache.now_ms - l->freed_ms > (uint64_t)hak_settings.purge_delay_ms;
}

static size_t allowance(void) {
	size_t live = space_big() * GRANULE;
	size_t most = hak_settings.bigcache_max != 0 ? hak_settings.bigcache_max : DEFAULT_MAX;
	return min_size(max_size(FLOOR, live / 4) << cache.regret, most) / GRANULE;
}

/* Takes the first `granules` of a kept span; the rest goes back. */
static struct large *cut(struct large *l, size_t granules) {
	take_out(l);
	if (l->span.granules > granules) {
		struct large *rest = split(l, granules);
		if (rest == NULL) {
			add(l);
			return NULL;
		}
		l->usable = granules << GRANULE_SHIFT;
		tag_kept(rest, rest);
		add(rest);
	}
	return l;
}

struct large *bigcache_take(size_t granules) {
	lock_acquire(&cache.lock);
	struct large *l = find(granules);
	if (l != NULL)
		l = cut(l, granules);
	if (l != NULL) {
		pagemap_set(base_of(l), granules, TAG_LARGE, l);
		hak_bigcache_stats.hits++;
	} else {
		hak_bigcache_stats.misses++;
		regret_miss();
	}
	lock_release(&cache.lock);
	return l;
}

/* Takes a span out that the rules say must go: all of the oldest if it is stale, else as much of it
   as is too much. */
static struct large *victim(size_t most) {
	struct large *l = NULL;
	lock_acquire(&cache.lock);
	if (cache.age.first != NULL) {
		struct large *oldest = of_age_node(cache.age.first);
		size_t excess = cache.granules > most ? cache.granules - most : 0;
		if (is_stale(oldest))
			excess = oldest->span.granules;
		if (excess != 0)
			l = cut(oldest, min_size(excess, oldest->span.granules));
		if (l != NULL) {
			pagemap_set(base_of(l), l->span.granules, TAG_LARGE, l);
			hak_bigcache_stats.evictions++;
		}
	}
	lock_release(&cache.lock);
	return l;
}

static bool evict(size_t most) {
	bool any = false;
	struct large *l;
	while ((l = victim(most)) != NULL) {
		large_release(l);
		any = true;
	}
	return any;
}

static bool is_kept(const struct large *l) {
	size_t bytes = l->span.granules * GRANULE;
	return bytes >= (hak_settings.bigcache_l25 ? LARGE_BIG_MIN : LARGE_L2_MIN);
}

void bigcache_put(struct large *l) {
	if (!is_kept(l)) {
		large_release(l);
		return;
	}
	lock_acquire(&cache.lock);
	bool look = ++cache.events >= CLOCK_EVERY || cache.age.first == NULL;
	if (look)
		look_at_clock();
	add_joined(l);
	size_t most = allowance();
	bool over = cache.granules > most;
	if (over)
		cache.evicted_ms = cache.now_ms != 0 ? cache.now_ms : 1;
	lock_release(&cache.lock);
	if (look || over)
		evict(most);
}

bool bigcache_release(size_t keep) {
	return evict(keep / GRANULE);
}

void bigcache_tick(void) {
	if (bigcache_bytes() == 0)
		return;
	lock_acquire(&cache.lock);
	look_at_clock();
	lock_release(&cache.lock);
	evict(SIZE_MAX);
}
