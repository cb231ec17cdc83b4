/* SPDX-License-Identifier: MIT */
#include "front/sleepers.h"

#include "base/bits.h"
#include "base/settings.h"
#include "front/locked_heap.h"
#include "os/lock.h"
#include "os/os.h"
#include "slab/emptied.h"
#include "space/purge.h"

/* The least time between two looks, unless much has come meanwhile; and if a thread ends. */
#define BETWEEN (2 * OS_CYCLES_A_MOMENT)
#define BEFORE_THE_LAST (OS_CYCLES_A_MOMENT / 16)
enum {
	MUCH = SUPERSLAB_GRANULES, /* slabs, if a thread ends: nobody may come by after it */
	PART_IN_USE = 4, /* of which as much may wait */
	WAIT_LEAST = 100, /* ms, however short the delay: each time the whole inbox is gone through */
	AT_ONCE = 64 * SUPERSLAB_GRANULES, /* slabs that are in no queue while they are given back, at least */
};

/* When somebody last looked, in os_cycles; when memory was last given back, and when that was too early, by os_now_ms.
   Relaxed: times. Two that look at once do no harm. */
static _Atomic uint64_t looked, purged_ms, regretted_ms;

static uint64_t time_of(const _Atomic uint64_t *event) {
	return atomic_load_explicit(event, memory_order_relaxed);
}
static void note_time(_Atomic uint64_t *event, uint64_t time) {
	atomic_store_explicit(event, time, memory_order_relaxed);
}

/* ---- an inbox ---- */

/* EMPTIED slabs that lie side by side. */
struct run {
	uintptr_t base;
	unsigned length;
	struct slab *slab[SUPERSLAB_GRANULES];
};

static bool run_takes(struct run *r, struct slab *s) {
	if (r->length == SUPERSLAB_GRANULES)
		return false;
	if (r->length == 0 || s->base + GRANULE == r->base)
		r->base = s->base;
	else if (s->base != r->base + r->length * GRANULE)
		return false;
	r->slab[r->length++] = s;
	return true;
}

/* Together, or one by one if a page among them is refused. Slabs given back. */
static unsigned purge_run(struct run *r) {
	unsigned n = r->length, purged = 0;
	bool all = n != 0 && os_purge((void *)r->base, n * GRANULE);
	for (unsigned i = 0; i < n; i++) {
		if (all || os_purge((void *)r->slab[i]->base, GRANULE)) {
			emptied_note_purged(r->slab[i]);
			purged++;
		}
		remote_route(r->slab[i]);
	}
	r->length = 0;
	space_acquire();
	hak_space.purges += all ? 1 : purged;
	space_count_purged(purged);
	lock_release(space_lock());
	return purged;
}

/* What lies in messages may be all that a slab lacks. */
static void scatter_messages(struct inbox *in) {
	for (struct message *m = inbox_take_others_messages(in), *next; m != NULL; m = next) {
		next = m->next;
		heap_scatter_message(m);
	}
}

/* EMPTIED slabs of the inbox, linked; all others are back in it: an owner that wakes while memory is given back must
   not miss those. `*leftp`: of how many all blocks have come home, too. */
static struct slab *pick(struct inbox *in, unsigned most, size_t *leftp) {
	struct slab *picked = NULL, **end = &picked;
	uint64_t since = time_of(&in->whole_ms);
	size_t left = 0;
	for (struct slab *s = inbox_take_others(in), *next; s != NULL; s = next) {
		next = s->inbox_next;
		if (most != 0 && emptied_make(s)) {
			most--;
			*end = s;
			end = &s->inbox_next;
		} else {
			left += most == 0 && emptied_could_be(s);
			remote_route(s);
		}
	}
	*end = NULL;
	if (left != 0) {
		inbox_count_whole(in, (uint32_t)left);
		note_time(&in->whole_ms, since); /* they have waited as long */
	}
	*leftp = left;
	return picked;
}

static size_t purge(struct slab *picked) {
	struct run run = { .length = 0 };
	size_t purged = 0;
	for (struct slab *s = picked, *next; s != NULL; s = next) {
		next = s->inbox_next;
		while (!run_takes(&run, s))
			purged += purge_run(&run);
	}
	return purged + purge_run(&run);
}

/* In parts, for each of which the whole inbox is gone through. `all`: else only one, since one free should not take long.
   What comes meanwhile is not waited for: there may be no end of it. */
static size_t relieve(struct inbox *in, bool all) {
	size_t left, purged;
	scatter_messages(in);
	purged = purge(pick(in, AT_ONCE, &left));
	for (size_t due = all ? left : 0, part; due != 0 && left != 0; due -= min_size(due, part)) {
		part = max_size(AT_ONCE, left / 8);
		purged += purge(pick(in, (unsigned)part, &left));
	}
	return purged;
}

/* ---- which inboxes, and when ---- */

/* Slabs that may wait in inboxes. */
static size_t allowance(uint64_t now) {
	if (hak_settings.purge_delay_ms == 0)
		return SUPERSLAB_GRANULES;
	if (now - time_of(&regretted_ms) < PURGE_REGRET_MS)
		return SIZE_MAX;
	size_t all = __atomic_load_n(&hak_space.live, __ATOMIC_RELAXED) + space_big();
	return max_size(PURGE_CEILING / GRANULE, (all - min_size(space_emptied(), all)) / PART_IN_USE);
}

/* How long what has come home may wait, in ms. */
static size_t wait_most(void) {
	return max_size((size_t)hak_settings.purge_delay_ms, WAIT_LEAST);
}

/* `whole`: slabs that would wait in all. */
static bool is_due(struct inbox *in, size_t whole, uint64_t now) {
	uint64_t since = time_of(&in->whole_ms);
	if (whole > allowance(now))
		return true;
	if (since == 0)
		note_time(&in->whole_ms, now);
	/* Others may have looked at the clock since. */
	return since != 0 && (int64_t)(now - since) >= (int64_t)wait_most();
}

enum extent { PART_OF_DUE, ALL_DUE, EVERYTHING };

/* How many slabs wait on, counted so that they make overflow with the first that may not. */
static uint32_t relieve_inboxes(enum extent extent) {
	uint64_t now = os_now_ms();
	size_t purged = 0, waits = 0; /* slabs */
	bool is_locked = false;
	for (struct heap *h = heap_registry(); h != NULL; h = h->next) {
		struct inbox *in = &h->inbox;
		unsigned whole = atomic_load_explicit(&in->whole, memory_order_relaxed);
		bool is_empty = whole == 0 && !(extent == EVERYTHING && inbox_has_messages(in));
		if (is_empty || h->forsaken) /* the latter is nobody's */
			continue;
		if (extent != EVERYTHING && !is_due(in, waits + whole, now)) {
			waits += whole;
		} else if (h->locked) {
			is_locked = true; /* it may be destroyed at any moment, but under its lock */
			inboxes_note(); /* which somebody may have */
		} else {
			purged += relieve(in, extent != PART_OF_DUE);
		}
	}
	if (purged != 0)
		note_time(&purged_ms, now);
	if (is_locked && extent != EVERYTHING)
		locked_heap_drain();
	if (waits == 0)
		return 0;
	size_t ceiling = PURGE_CEILING / GRANULE, most = allowance(now);
	return (uint32_t)(ceiling - min_size(most - min_size(waits, most), ceiling - 1));
}

void sleepers_relieve(bool ends) {
	uint64_t now = os_cycles();
	static _Atomic uint32_t left; /* what waited on at the last look. Relaxed: for a guess */
	bool much = ends ? inboxes_wait() >= atomic_load_explicit(&left, memory_order_relaxed) + MUCH : inboxes_overflow();
	if (!much && now - time_of(&looked) < (ends ? BEFORE_THE_LAST : BETWEEN))
		return;
	note_time(&looked, now);
	/* First: what comes from here on is counted anew. Acquire: and what came before is seen in its inbox. */
	atomic_exchange_explicit(&hak_whole_wait, 0, memory_order_acquire);
	uint32_t waits = 0;
	if (hak_settings.purge_delay_ms >= 0 && hak_settings.secure == 0 && !purge_is_discreet())
		waits = relieve_inboxes(ends ? ALL_DUE : PART_OF_DUE);
	atomic_store_explicit(&left, waits, memory_order_relaxed);
	/* Not where another looker has counted it just now: together they would make overflow of nothing. */
	if (waits != 0 && inboxes_wait() <= waits / 2)
		inboxes_count_whole(waits);
}

uint64_t sleepers_due(void) {
	enum { LOOKS = 4 }; /* meanwhile */
	return inboxes_wait() ? os_now_ms() + wait_most() / LOOKS : PURGE_NEVER;
}

/* Locked heaps are not: whoever releases all flushes those. */
void sleepers_relieve_all(void) {
	if (hak_settings.secure == 0)
		relieve_inboxes(EVERYTHING);
}

void sleepers_renew(struct heap *h, struct slab *s) {
	COUNT_MORE(h->count.drained, s->capacity);
	emptied_renew(s);
	slab_set_tag(s, h->tag);
	if (!s->fresh_is_zero || h->flushes) /* nothing was given back, or it is not to be used again */
		return;
	uint64_t now = os_now_ms();
	if (now - time_of(&purged_ms) < PURGE_REGRET_MS)
		note_time(&regretted_ms, now);
}
