/* SPDX-License-Identifier: MIT */
#include "space/purge.h"

#include "base/bits.h"
#include "base/report.h"
#include "base/settings.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/pagemap.h"

enum {
	CLOCK_EVERY = 64,   /* span frees between two looks at the clock */
	REGRET_MAX = 3,     /* from the floor to the ceiling */
	BACKOFF = 1000,     /* ms until what the system refused is tried again */
	MORE_MOST = 16 * SUPERSLAB_GRANULES, /* given back beyond what must be: one free should not take long */
	AT_ONCE = 64 * SUPERSLAB_GRANULES,   /* what is old goes over several looks at the clock: likewise */
	REFUSALS_MOST = 64, /* SuperSlabs after which a walk gives up that has given nothing back */
	PATIENCE = 200,     /* ms for which who wants all of it purged, or empty SuperSlabs, waits for another purger */
};

/* Under the space lock. */
static struct {
	struct queue queue;
	unsigned events;      /* since the last look at the clock */
	uint64_t now_ms;      /* as of the last look */
	unsigned regret;
	uint64_t regret_ms;   /* when regret last changed, or was confirmed */
	bool breathes;        /* the program does the same again and again, or gives all back and wants it again */
	size_t most;          /* granules in use at a time since the last review of regret, or before, and still kept; */
	size_t least;         /* the fewest in use since there were so many; */
	size_t high, low;     /* dirty ones since the last review */
	uint64_t refused_ms;  /* when the system last refused all; 0: never */
	size_t stuck;         /* dirty granules that it refused, as locked pages are */
	uint64_t stuck_ms;    /* when */
	uint32_t purging;     /* or not: one purger at a time, and others go on without waiting, but for purge_down_to */
	/* What the purger takes away from the free granules, or has while it drops the lock. NULL: nothing. A fork child
	   may find it between any two stores. */
	struct superslab *taken_from;
	uint32_t taken;
} purge;

void (*hak_purge_waits)(void);

struct purge_bursts hak_purge_bursts;

static struct superslab *of_queue_node(struct queue_node *n) {
	return LIST_ENTRY(n, struct superslab, dirty_link);
}

static uint32_t dirty_mask(const struct superslab *ss) {
	return ss->free & ~ss->zero;
}

/* As far as it is to leave less room for what can be purged. Relaxed: a count. In a fork child it may be less than
   nothing: that of a forsaken heap goes on. */
HAK_EVERYDAY static size_t spare(void) {
	size_t n = __atomic_load_n(&hak_space.spare, __ATOMIC_RELAXED);
	return (ptrdiff_t)n > 0 ? min_size(n / (GRANULE / TOUCHED_UNIT), PURGE_FLOOR / GRANULE / 2) : 0;
}

/* Granules whose pages may be resident. */
HAK_EVERYDAY static size_t in_use(void) {
	size_t all = hak_space.live + space_big();
	return all - min_size(all, (hak_space.idle >> GRANULE_SHIFT) + spare());
}

/* Those that hold nothing. */
HAK_EVERYDAY static size_t unused(void) {
	return hak_space.dirty - min_size(hak_space.hollow >> GRANULE_SHIFT, hak_space.dirty) + spare();
}

static void watch_breath(void) {
	purge.high = purge.low = unused();
	purge.least = in_use();
	purge.most = max_size(purge.least, min_size(purge.most, purge.least + unused()));
}

/* While the program breathes, and uses again what is dirty, regret lasts. */
static void review_regret(void) {
	purge.breathes &= purge.high >= PURGE_FLOOR / GRANULE && purge.low < PURGE_FLOOR / GRANULE;
	purge.regret -= !purge.breathes;
	purge.regret_ms = purge.now_ms;
	watch_breath();
}

HAK_EVERYDAY static void look_at_clock(void) {
	purge.events = 0;
	purge.now_ms = os_now_ms();
	if (purge.regret > 0 && purge.now_ms - purge.regret_ms >= PURGE_REGRET_MS)
		review_regret();
	if (purge.now_ms - purge.stuck_ms >= BACKOFF)
		purge.stuck = 0;
}

HAK_EVERYDAY static void dequeue(struct superslab *ss) {
	if (!ss->queued)
		return;
	ss->queued = false;
	queue_remove(&purge.queue, &ss->dirty_link);
}

void purge_enqueue(struct superslab *ss, uint32_t dirty) {
	if (ss->queued && (dirty_mask(ss) & ~dirty) != 0)
		return;
	dequeue(ss); /* what was dirty before is in use again */
	/* The time is not known while nothing is dirty: nobody asks then. */
	if (purge.queue.first == NULL)
		look_at_clock();
	ss->queued = true;
	ss->dirty_ms = purge.now_ms;
	queue_append(&purge.queue, &ss->dirty_link);
}

void purge_forget(struct superslab *ss) {
	superslab_uncount_dirty(ss, superslab_count(dirty_mask(ss)));
	dequeue(ss);
}

void purge_reset(void) {
	purge.queue = (struct queue){ 0 };
	purge.stuck = 0;
}

bool purge_is_going_on(void) {
	return purge.purging;
}

void purge_after_fork(bool purger_is_gone) {
	purge.purging = false;
	struct superslab *ss = purge.taken_from;
	if (!purger_is_gone || ss == NULL)
		return;
	uint32_t lost = purge.taken & ~ss->free; /* it may have been about to take them, or have put them back */
	superslab_put(ss, lost, lost);
	purge.taken_from = NULL;
}

static bool was_lately(const struct superslab *ss, uint64_t now_ms) {
	return ss->purged_ms != 0 && now_ms - ss->purged_ms < PURGE_REGRET_MS;
}

HAK_EVERYDAY bool purge_was_lately(const struct superslab *ss) {
	return was_lately(ss, purge.now_ms) && was_lately(ss, os_now_ms());
}

void purge_regret(struct superslab *ss) {
	if (ss->regretted || !purge_was_lately(ss))
		return;
	ss->regretted = true; /* once per purge */
	purge.breathes |= purge.least < purge.most / 4;
	if (purge.regret == 0)
		watch_breath();
	if (purge.regret < REGRET_MAX)
		purge.regret++;
	purge.regret_ms = purge.now_ms;
	hak_space.regrets++;
}

void purge_note_breath(void) {
	purge.breathes = true;
}

static size_t allowance(void) {
	if (hak_settings.purge_delay_ms == 0)
		return 0;
	/* Relaxed: a count. */
	if (hak_settings.tiny_profile == TINY_LARSON_GUARD)
		return __atomic_load_n(&hak_space.threads, __ATOMIC_RELAXED) * SUPERSLAB_GRANULES;
	size_t live = in_use(), ceiling = PURGE_CEILING / GRANULE;
	size_t least = max_size(PURGE_FLOOR / GRANULE, live / 4), wanted = least << purge.regret;
	if (purge.breathes) {
		ceiling = max_size(ceiling, min_size(purge.most, PURGE_BREATH / GRANULE));
		wanted = ceiling;
	}
	size_t room = ceiling > live ? ceiling - live : 0;
	return max_size(least, min_size(wanted, room));
}

/* Will anything be purged at all? */
HAK_EVERYDAY static bool has_duty(void) {
	return hak_settings.purge_delay_ms >= 0 && space_superslabs() * SUPERSLAB > PURGE_HEAP;
}

/* Does the system take what it is given? */
HAK_EVERYDAY static bool is_taken(void) {
	return has_duty() && (purge.refused_ms == 0 || purge.now_ms - purge.refused_ms >= BACKOFF);
}

static bool may_purge(void) {
	return !purge.purging && is_taken();
}

HAK_EVERYDAY bool purge_breathes(void) {
	return purge.breathes && is_taken();
}

static void log_purge(const struct superslab *ss, size_t bytes, const char *outcome) {
	struct line l;
	if (!hak_settings.pagebox_log)
		return;
	line_begin(&l);
	line_str(&l, "SuperSlab ");
	line_ptr(&l, (const void *)ss->base);
	line_str(&l, outcome);
	line_dec(&l, bytes);
	line_write(&l);
}

/* Purges granules, a run of neighbours by a call, or one by one if a page among them is refused; without the lock.
   Those that the system took. */
static uint32_t purge_granules(const struct superslab *ss, uint32_t mask, size_t *callsp) {
	uint32_t clean = 0, single = 0;
	for (*callsp = 0; mask != 0; (*callsp)++) {
		unsigned first = (unsigned)__builtin_ctz(mask);
		unsigned run = (single >> first & 1) != 0 ? 1 : trailing_ones32(mask >> first);
		uint32_t part = low_mask32(run) << first;
		bool done = os_purge((void *)(ss->base + first * GRANULE), run * GRANULE);
		if (done)
			clean |= part;
		if (done || run == 1)
			mask &= ~part;
		else
			single |= part;
	}
	return clean;
}

/* A fork child finds what was taken before, nothing, or what is now: never one with the mask of another. */
static void set_taken(struct superslab *ss, uint32_t mask) {
	purge.taken_from = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	purge.taken = mask;
	atomic_signal_fence(memory_order_seq_cst);
	purge.taken_from = ss;
	atomic_signal_fence(memory_order_seq_cst);
}

/* Does the first touch make all of a SuperSlab resident? With THP_ALWAYS the system may hand out a huge page unasked. */
static bool may_be_huge(const struct superslab *ss) {
	return ss->huge || hak_settings.thp == THP_ALWAYS;
}

/* Purges the dirty granules of one SuperSlab, or all that are free where those may be resident, too; adds what the
   system took and refused. The lock is dropped meanwhile. */
static bool purge_superslab(struct superslab *ss, size_t *takenp, size_t *refusedp) {
	/* In a fork child there may be what a purger had whom this one's caller interrupted, or who is gone. */
	struct superslab *outer_ss = purge.taken_from;
	uint32_t outer = purge.taken, dirty = dirty_mask(ss), mask = may_be_huge(ss) ? ss->free : dirty;
	set_taken(ss, mask);
	dequeue(ss);
	ss->free &= ~mask;
	ss->zero &= ~mask;
	superslab_refile(ss);
	superslab_uncount_dirty(ss, superslab_count(dirty));
	space_change_live((ptrdiff_t)superslab_count(mask));
	lock_release(space_lock());
	size_t calls;
	uint32_t clean = purge_granules(ss, mask, &calls);
	log_purge(ss, superslab_count(clean) * GRANULE,
	          clean == mask ? " purged, bytes " : " refused in part, purged bytes ");
	space_acquire();
	if (HAK_UNLIKELY(purge.taken_from != ss)) /* this is a fork child, and they have been put back */
		return false;
	ss->purged_ms = purge.now_ms;
	ss->regretted = false;
	hak_space.purges += calls;
	size_t taken = superslab_count(clean & dirty);
	space_count_purged(taken);
	superslab_put(ss, mask, mask & ~clean);
	atomic_signal_fence(memory_order_seq_cst);
	set_taken(outer_ss, outer);
	*takenp += taken;
	*refusedp += superslab_count(mask & ~clean);
	return true;
}

/* Purges from the head of the queue while there is more than `keep` dirty, or what has been dirty
   since before `before_ms`, but not much more than `most` granules. How many were purged. */
static size_t purge_until(size_t keep, uint64_t before_ms, size_t most) {
	size_t taken = 0, refused = 0, refusals = 0, left;
	purge.purging = true;
	/* A SuperSlab that is refilled while it is purged joins the queue's end: bound the walk. */
	for (left = purge.queue.count; left > 0 && purge.queue.first != NULL; left--) {
		struct superslab *ss = of_queue_node(purge.queue.first);
		if (taken >= most || (unused() <= keep && ss->dirty_ms >= before_ms))
			break;
		if (dirty_mask(ss) == 0) {
			dequeue(ss);
			continue;
		}
		if (!purge_superslab(ss, &taken, &refused) || (taken == 0 && ++refusals == REFUSALS_MOST))
			break;
	}
	purge.purging = false;
	if (refused != 0 || left == 0 || purge.queue.first == NULL) {
		purge.stuck = refused;
		purge.stuck_ms = purge.now_ms;
	}
	if (refused != 0 && taken == 0) /* it may never take any, as in a sandbox */
		purge.refused_ms = purge.now_ms != 0 ? purge.now_ms : 1;
	return taken;
}

void purge_note_burst(void) {
	int64_t delay = hak_settings.purge_delay_ms;
	/* Nothing will wait, or the purge thread sees to it. */
	if (delay <= 0 || __atomic_load_n(&hak_purge_waits, __ATOMIC_RELAXED) != NULL)
		return;
	uint64_t now = os_now_ms();
	/* Relaxed: the time is a matter of many ms. */
	uint64_t last = atomic_exchange_explicit(&hak_purge_bursts.last_ms, now, memory_order_relaxed);
	if (last == 0 || (int64_t)(now - last) >= delay / 2) /* negative: others have read the clock since */
		/* Release: the time. */
		atomic_fetch_add_explicit(&hak_purge_bursts.count, 1, memory_order_release);
}

HAK_EVERYDAY static void apply_age(void) {
	uint64_t delay = (uint64_t)hak_settings.purge_delay_ms;
	if (may_purge() && purge.now_ms >= delay && purge_until(SIZE_MAX, purge.now_ms - delay, AT_ONCE) >= AT_ONCE)
		purge_note_burst(); /* there may be more: whoever waits for that goes on */
}

HAK_EVERYDAY static void purge_excess_locked(bool is_growth) {
	/* What the system refused is no reason to keep nothing else. */
	size_t allowed = allowance() + min_size(purge.stuck, hak_space.dirty);
	bool is_excess = unused() > allowed;
	/* What a program keeps because it breathes must go as well if it stops. */
	bool is_kept = purge.breathes && !is_growth && unused() > max_size(PURGE_CEILING / GRANULE, in_use() / 4);
	if (!(is_excess || is_kept) || !is_taken())
		return;
	purge_note_burst();
	if (is_excess && !purge.purging) {
		/* Somewhat more, so that not every free has to; but what serves again and again is as much as there is. */
		size_t more = min_size(allowed / 8, purge.breathes ? SUPERSLAB_GRANULES : MORE_MOST);
		purge_until(allowed - more, 0, SIZE_MAX);
	}
}

HAK_EVERYDAY void purge_poke(void) {
	void (*waits)(void) = __atomic_load_n(&hak_purge_waits, __ATOMIC_RELAXED);
	if (HAK_UNLIKELY(waits != NULL) && has_duty())
		waits();
}

HAK_EVERYDAY void purge_after_free_locked(void) {
	purge.least = min_size(purge.least, in_use());
	purge.high = max_size(purge.high, unused());
	purge.low = min_size(purge.low, unused());
	if (++purge.events >= CLOCK_EVERY) {
		look_at_clock();
		apply_age();
	}
	purge_excess_locked(false);
	if (purge.queue.first != NULL)
		purge_poke();
}

HAK_EVERYDAY static void note_growth(void) {
	size_t live = in_use();
	if (live > purge.most)
		purge.most = purge.least = live;
}

HAK_EVERYDAY void purge_after_growth_locked(void) {
	note_growth();
	if (HAK_UNLIKELY(purge.breathes))
		purge_excess_locked(true);
}

void purge_excess(void) {
	if (!purge_pending())
		return;
	space_acquire();
	note_growth();
	purge_excess_locked(false);
	lock_release(space_lock());
}

uint64_t purge_due(void) {
	uint64_t due = PURGE_NEVER;
	space_acquire();
	if (purge.queue.first != NULL && has_duty()) {
		due = of_queue_node(purge.queue.first)->dirty_ms + (uint64_t)hak_settings.purge_delay_ms;
		if (purge.refused_ms != 0 && due < purge.refused_ms + BACKOFF)
			due = purge.refused_ms + BACKOFF;
	}
	lock_release(space_lock());
	return due;
}

void purge_tick(void) {
	space_acquire();
	look_at_clock();
	apply_age();
	lock_release(space_lock());
}

static void log_unmapped(size_t count) {
	struct line l;
	if (!hak_settings.pagebox_log)
		return;
	line_begin(&l);
	line_str(&l, "SuperSlabs unmapped: ");
	line_dec(&l, count);
	line_write(&l);
}

/* Not for ever: a signal handler may have interrupted the purger. */
static void await_purger(void) {
	for (int ms = 0; purge.purging && ms < PATIENCE; ms++) {
		lock_release(space_lock());
		os_wait_ms(&purge.purging, true, 1);
		space_acquire();
	}
}

/* All that there were; the lock is dropped now and then. */
static size_t release_empty(void) {
	size_t most = hak_space.superslabs, unmapped = 0, passed = 0, n;
	while (unmapped <= most && (n = superslab_release_empty(&passed)) != 0) {
		unmapped += n;
		lock_release(space_lock());
		space_acquire();
	}
	return unmapped;
}

bool purge_down_to(size_t keep, bool unmaps) {
	space_acquire();
	bool any = false;
	await_purger();
	if (!purge.purging)
		any = purge_until(keep / GRANULE, 0, SIZE_MAX) != 0;
	size_t unmapped = unmaps ? release_empty() : 0;
	lock_release(space_lock());
	if (unmapped != 0)
		log_unmapped(unmapped);
	return any || unmapped != 0;
}

HAK_EVERYDAY bool purge_is_discreet(void) {
	/* Relaxed: a count. */
	size_t others = space_big() + __atomic_load_n(&hak_space.alone, __ATOMIC_RELAXED);
	return space_superslabs() * SUPERSLAB + others * GRANULE <= PURGE_HEAP;
}

HAK_EVERYDAY bool purge_pending(void) {
	/* Relaxed: a hint. */
	return __atomic_load_n(&hak_space.dirty, __ATOMIC_RELAXED) > 0;
}
