/* SPDX-License-Identifier: MIT */
#include "front/sleepers.h"

#include "base/bits.h"
#include "base/settings.h"
#include "front/heap_slabs.h"
#include "front/locked_heap.h"
#include "os/os.h"
#include "slab/emptied.h"
#include "space/purge.h"

/* The least time between two looks, unless much has come meanwhile; and if a thread ends. */
#define BETWEEN (2 * OS_CYCLES_A_MOMENT)
#define BEFORE_THE_LAST (OS_CYCLES_A_MOMENT / 16)
enum {
	MUCH = SUPERSLAB_GRANULES, /* slabs, if a thread ends: nobody may come by after it */
	PART_IN_USE = 16, /* of which as much may wait, */
	PART_OF_NO_DELAY = 64, /* and as much where nothing is to wait: a look takes time for all that lies there */
	WAIT_LEAST = 100, /* ms, however short the delay: each time the whole inbox is gone through */
	AT_ONCE = 64 * SUPERSLAB_GRANULES, /* slabs that one look frees of an inbox, if no more are asked for */
};

/* When somebody last looked, in os_cycles. Relaxed: a time. Two that look at once do no harm. */
static _Atomic uint64_t looked;

static uint64_t time_of(const _Atomic uint64_t *event) {
	return atomic_load_explicit(event, memory_order_relaxed);
}
static void note_time(_Atomic uint64_t *event, uint64_t time) {
	atomic_store_explicit(event, time, memory_order_relaxed);
}

/* ---- an inbox ---- */

/* EMPTIED slabs of the inbox, linked; all others are back in it: an owner that wakes while granules are freed must
   not miss those. */
static struct slab *pick(struct inbox *in, size_t most) {
	struct slab *picked = NULL;
	uint64_t since = time_of(&in->since_ms);
	size_t left = 0;
	struct slab *s = inbox_take_others(in);
	inbox_forget_time(in);
	for (struct slab *next; s != NULL; s = next) {
		next = s->inbox_next;
		if (most != 0 && emptied_make(s)) {
			most--;
			s->inbox_next = picked;
			picked = s;
		} else {
			remote_route(s);
			/* It may have become so in our hands, and have been counted before it lay there. */
			left += emptied_could_be(s);
		}
	}
	if (left != 0) {
		inbox_count_whole(in, (uint32_t)left);
		note_time(&in->since_ms, since); /* they have waited as long */
	}
	return picked;
}

/* All of it, or no more than one free should take the time for. */
static void relieve(struct heap *h, bool all) {
	struct inbox *in = &h->inbox;
	/* What lies in messages may be all that a slab lacks. */
	heap_scatter_messages(heap_take_unread(h));
	heap_scatter_messages(inbox_take_others_messages(in));
	for (struct slab *s = pick(in, all ? SIZE_MAX : AT_ONCE), *next; s != NULL; s = next) {
		next = s->inbox_next;
		slab_free_granule(s);
		remote_route(s);
	}
}

/* ---- which inboxes, and when ---- */

/* Slabs that may wait in inboxes. */
static size_t allowance(void) {
	size_t all = __atomic_load_n(&hak_space.live, __ATOMIC_RELAXED) + space_big();
	return max_size(WAIT_FLOOR, all / (hak_settings.purge_delay_ms != 0 ? PART_IN_USE : PART_OF_NO_DELAY));
}

/* How long what has come home may wait, in ms. */
static size_t wait_most(void) {
	return max_size((size_t)hak_settings.purge_delay_ms, WAIT_LEAST);
}

/* `whole`: slabs that would wait in all. */
static bool is_due(struct inbox *in, size_t whole, uint64_t now) {
	uint64_t since = time_of(&in->since_ms);
	if (whole > allowance())
		return true;
	if (since == 0)
		note_time(&in->since_ms, now);
	/* Others may have looked at the clock since. */
	return since != 0 && (int64_t)(now - since) >= (int64_t)wait_most();
}

enum extent { PART_OF_DUE, ALL_DUE, EVERYTHING };

/* How many slabs wait on, counted so that they make overflow with the first that may not. */
static uint32_t relieve_inboxes(enum extent extent) {
	uint64_t now = os_now_ms();
	size_t waits = 0; /* slabs */
	bool is_locked = false;
	for (struct heap *h = heap_registry(); h != NULL; h = h->next) {
		struct inbox *in = &h->inbox;
		unsigned whole = atomic_load_explicit(&in->whole, memory_order_relaxed);
		if (whole == 0 && heap_has_messages(h))
			whole = 1; /* at least, once those have come home; an owner that reads has others by the next look */
		if (whole == 0 || h->forsaken) /* the latter is nobody's */
			continue;
		if (extent != EVERYTHING && !is_due(in, waits + whole, now)) {
			waits += whole;
		} else if (h->locked) {
			is_locked = true; /* it may be destroyed at any moment, but under its lock */
			inboxes_note(); /* which somebody may have */
		} else {
			relieve(h, extent != PART_OF_DUE);
		}
	}
	if (is_locked && extent != EVERYTHING)
		locked_heap_drain();
	if (waits == 0)
		return 0;
	size_t ceiling = WAIT_FLOOR, most = allowance();
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

void sleepers_forget(struct heap *h, struct slab *s) {
	COUNT_MORE(h->count.drained, s->capacity - s->left_remote); /* those were counted when they were left */
	heap_unlink_slab(h, s);
	COUNT(h->count.slab_deleted);
	emptied_forget(s);
}
