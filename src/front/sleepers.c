/* SPDX-License-Identifier: MIT */
#include "front/sleepers.h"

#include "base/bits.h"
#include "base/settings.h"
#include "os/lock.h"
#include "os/os.h"
#include "slab/emptied.h"
#include "space/purge.h"

enum {
	MOMENTS = 2,     /* between two looks */
	PART_IN_USE = 4, /* of which as much may wait */
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

/* Slabs given back. */
static unsigned purge_run(struct run *r) {
	unsigned n = r->length;
	bool done = n != 0 && os_purge((void *)r->base, n * GRANULE);
	for (unsigned i = 0; i < n; i++) {
		if (done)
			emptied_note_purged(r->slab[i]);
		remote_route(r->slab[i]);
	}
	r->length = 0;
	if (!done)
		return 0;
	space_acquire();
	hak_space.purges++;
	hak_space.purged += n;
	lock_release(space_lock());
	return n;
}

/* What lies in messages may be all that a slab lacks. */
static void scatter_messages(struct inbox *in) {
	for (struct message *m = inbox_take_others_messages(in), *next; m != NULL; m = next) {
		next = m->next;
		heap_scatter_message(m);
	}
}

static size_t relieve(struct inbox *in) {
	struct run run = { .length = 0 };
	size_t purged = 0;
	scatter_messages(in);
	for (struct slab *s = inbox_take_others(in), *next; s != NULL; s = next) {
		next = s->inbox_next;
		if (!emptied_make(s)) {
			remote_route(s);
		} else if (!run_takes(&run, s)) {
			purged += purge_run(&run);
			run_takes(&run, s);
		}
	}
	return purged + purge_run(&run);
}

/* ---- which inboxes, and when ---- */

/* A locked heap is never waited for, and may be destroyed at any moment; a forsaken one is nobody's. */
static bool may_sleep(const struct heap *h) {
	return !h->locked && !h->forsaken;
}

/* Slabs that may wait in an inbox. */
static size_t allowance(uint64_t now) {
	if (hak_settings.purge_delay_ms == 0)
		return 0;
	if (now - time_of(&regretted_ms) < PURGE_REGRET_MS)
		return SIZE_MAX;
	size_t all = __atomic_load_n(&hak_space.live, __ATOMIC_RELAXED) + space_big();
	return max_size(PURGE_CEILING / GRANULE, (all - min_size(space_emptied(), all)) / PART_IN_USE);
}

static bool is_due(struct inbox *in, unsigned whole, uint64_t now) {
	uint64_t since = time_of(&in->whole_ms);
	if (whole > allowance(now))
		return true;
	if (since == 0)
		note_time(&in->whole_ms, now);
	return since != 0 && now - since >= (uint64_t)hak_settings.purge_delay_ms;
}

static void relieve_inboxes(const struct heap *but, bool all) {
	uint64_t now = os_now_ms();
	size_t purged = 0;
	bool wait = false;
	/* First: what comes from here on is noted anew. */
	atomic_store_explicit(&hak_whole_wait, false, memory_order_relaxed);
	for (struct heap *h = heap_registry(); h != NULL; h = h->next) {
		unsigned whole = may_sleep(h) ? atomic_load_explicit(&h->inbox.whole, memory_order_relaxed) : 0;
		if (whole == 0)
			continue;
		if (h != but && (all || is_due(&h->inbox, whole, now)))
			purged += relieve(&h->inbox);
		else
			wait = true;
	}
	if (wait)
		atomic_store_explicit(&hak_whole_wait, true, memory_order_relaxed);
	if (purged != 0)
		note_time(&purged_ms, now);
}

void sleepers_relieve(const struct heap *h, bool ends) {
	uint64_t now = os_cycles();
	if (hak_settings.purge_delay_ms < 0 || hak_settings.secure != 0 || purge_is_discreet())
		return;
	if (!ends && now - time_of(&looked) < MOMENTS * OS_CYCLES_A_MOMENT)
		return;
	note_time(&looked, now);
	relieve_inboxes(h, false);
}

void sleepers_relieve_all(void) {
	if (hak_settings.secure == 0)
		relieve_inboxes(NULL, true);
}

void sleepers_renew(struct heap *h, struct slab *s) {
	uint64_t now = os_now_ms();
	COUNT_MORE(h->count.drained, s->capacity);
	emptied_renew(s);
	slab_set_tag(s, h->tag);
	if (now - time_of(&purged_ms) < PURGE_REGRET_MS)
		note_time(&regretted_ms, now);
}
