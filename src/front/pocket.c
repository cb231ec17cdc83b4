/* SPDX-License-Identifier: MIT */
#include "front/pocket.h"

#include "base/bits.h"
#include "base/settings.h"
#include "front/secure.h"
#include "os/os.h"

enum {
	PART_LARGE = 8,  /* parts of the granules of large blocks, */
	PART_LIVE = 32,  /* and of all granules in use, that all pockets may keep; */
	LEAST = 8,       /* granules they may in any case */
	OUT_MOST = 2,    /* pieces given back to get below that, in one call: none has much to do */
};
static const size_t MOST = 8 * HAK_MIB / GRANULE; /* granules */

/* Gives back the oldest of a length. */
static void drop(struct pocket *p, unsigned length) {
	struct large **piece = p->piece[length - 1], *oldest = piece[0];
	unsigned count = pocket_count(p, length);
	for (unsigned i = 1; i < count; i++)
		piece[i - 1] = piece[i];
	piece[count - 1] = oldest;
	large_release(pocket_pop(p, length));
}

/* The pocket is not empty. */
static unsigned most_kept(const struct pocket *p) {
	unsigned most = 1;
	for (unsigned n = 2; n <= POCKET_LENGTHS; n++)
		if (pocket_count(p, n) * n > pocket_count(p, most) * most)
			most = n;
	return most;
}

/* Granules that this pocket may keep. */
static size_t allowance(void) {
	/* What a background thread is to give back must not wait for this one. */
	if (hak_settings.purge_delay_ms == 0 || secure_is_on() || hak_settings.background)
		return 0;
	/* Relaxed: counts. */
	size_t live = __atomic_load_n(&hak_space.live, __ATOMIC_RELAXED);
	size_t large = __atomic_load_n(&hak_space.large, __ATOMIC_RELAXED);
	size_t threads = __atomic_load_n(&hak_space.threads, __ATOMIC_RELAXED);
	size_t all = max_size(live / PART_LIVE + large / PART_LARGE, LEAST);
	size_t mine = max_size(all / max_size(threads, 1), 1);
	return min_size(mine, min_size(hak_settings.bigcache_max / GRANULE, MOST));
}

/* Makes room for a piece of that length. False: there is none for it. */
static bool make_room(struct pocket *p, unsigned length) {
	p->most = (uint32_t)allowance();
	if (length > min_size(p->most, POCKET_LENGTHS))
		return false;
	if (pocket_count(p, length) == POCKET_DEPTH)
		drop(p, length);
	for (int i = 0; i < OUT_MOST && p->granules + length > p->most; i++)
		drop(p, most_kept(p));
	return pocket_has_room(p, length);
}

void pocket_put(struct pocket *p, struct large *l) {
	l->heap = NULL; /* as the short way finds and leaves it */
	if (pocket_has_room(p, l->span.granules) || make_room(p, (unsigned)l->span.granules))
		pocket_push(p, l);
	else
		large_release(l);
}

void pocket_give_way(struct pocket *p, size_t granules) {
	/* Relaxed: a hint. That many are not always to be had in one run. */
	if (__atomic_load_n(&hak_space.dirty, __ATOMIC_RELAXED) < 2 * granules)
		drop(p, most_kept(p));
}

/* Gives back the stale ones of a length. Their age counts from the first tick on. */
static void tick(struct pocket *p, unsigned length, uint64_t now) {
	struct large **piece = p->piece[length - 1];
	for (unsigned i = pocket_count(p, length); i-- > 0 && piece[i]->freed_ms == 0;)
		piece[i]->freed_ms = now;
	while (pocket_count(p, length) != 0 && now - piece[0]->freed_ms > (uint64_t)hak_settings.purge_delay_ms)
		drop(p, length);
}

void pocket_tick(struct pocket *p) {
	if (pocket_is_empty(p) || hak_settings.purge_delay_ms < 0)
		return;
	uint64_t now = os_now_ms();
	for (unsigned n = 1; n <= POCKET_LENGTHS; n++)
		tick(p, n, now);
	p->most = (uint32_t)allowance();
}

void pocket_release(struct pocket *p) {
	while (!pocket_is_empty(p))
		drop(p, most_kept(p));
}

static bool is_right(const struct large *l, unsigned length) {
	/* Relaxed: nothing else runs. */
	return l->kept && l->span.ss != NULL && l->span.granules == length &&
		atomic_load_explicit(&l->state, memory_order_relaxed) == LARGE_FREED &&
		pagemap_lookup((uintptr_t)l->span.base).desc == l;
}

const char *pocket_check(const struct pocket *p) {
	unsigned granules = 0;
	for (unsigned n = 1; n <= POCKET_LENGTHS; n++) {
		unsigned count = pocket_count(p, n);
		for (unsigned i = 0; i < count && i < POCKET_DEPTH; i++, granules += n)
			if (!is_right(p->piece[n - 1][i], n))
				return "a pocket keeps a piece that is none";
	}
	return granules == p->granules ? NULL : "the sum over a pocket is wrong";
}
