/* SPDX-License-Identifier: MIT */
#include "front/pocket.h"

#include "base/bits.h"
#include "base/settings.h"
#include "front/secure.h"
#include "os/os.h"
#include "space/meta.h"
#include "space/purge.h"

enum {
	PART_LARGE = 8,  /* parts of the granules of large blocks, */
	PART_LIVE = 32,  /* and of all granules in use, that the pieces in all pockets may have; */
	LEAST = 8,       /* granules they may in any case, */
	LEAST_CONTENDED = 2 * PURGE_FLOOR / GRANULE, /* or where threads wait for each other's spans */
	PART_BIG = 4,    /* likewise of the big blocks' for the spans in all pockets: all that BigCache may have, */
	LEAST_SPANS = POCKET_SPAN_LAST, /* and in any case */
	OUT_MOST = 2,    /* blocks given back to get below that, in one call: none has much to do */
};
HAK_EVERYDAY_CONST static const size_t MOST[POCKET_SORTS] = { /* granules of a sort in a pocket */
	[POCKET_PIECES] = POCKET_PIECES_MOST,
	[POCKET_SPANS] = 16 * HAK_MIB / GRANULE,
};
HAK_EVERYDAY_CONST const uint8_t hak_pocket_rows[POCKET_LENGTHS] = {
	0, POCKET_ROW_2, POCKET_ROW_3, POCKET_ROW_4, POCKET_ROW_5, POCKET_ROW_6, POCKET_ROW_7, POCKET_ROW_8,
};

/* BigCache, which keeps less for it, is told of the spans; not on the short ways: the processors would hand the count
   to and fro. */
HAK_EVERYDAY static void tell(struct pocket *p) {
	uint32_t kept = p->shelf[POCKET_SPANS].granules;
	if (kept != p->counted)
		count_shared(&hak_space.pocketed, (size_t)kept - p->counted);
	p->counted = kept;
}

/* A freed block is on its way to a pocket; no longer. */
static void mark_sent(struct large *l) {
	if (pocket_sort_of(l) == POCKET_SPANS)
		count_shared(&hak_space.pocketed, l->span.granules);
	large_set_keeper(l, KEPT_POCKET);
}
static void unmark_sent(struct large *l) {
	if (pocket_sort_of(l) == POCKET_SPANS)
		count_shared(&hak_space.pocketed, -l->span.granules);
	large_set_keeper(l, KEPT_NOT);
}

/* Takes the oldest of a length out. */
HAK_NOINLINE static struct large *pop_oldest(struct pocket *p, enum pocket_sort sort, size_t length) {
	struct large **block = pocket_row(p, sort, length), *oldest = block[0];
	unsigned count = pocket_count(p, sort, length);
	for (unsigned i = 1; i < count; i++)
		block[i - 1] = block[i];
	block[count - 1] = oldest;
	pocket_pop(p, sort, length);
	tell(p);
	return oldest;
}

/* Gives it back: a span to BigCache, */
HAK_NOINLINE static void give_back(struct large *l) {
	large_leave(l);
	large_dispose(l);
}

/* or, since it is stale, to the system. */
static void give_up(struct large *l) {
	large_leave(l);
	large_release(l);
}

/* The length of which most is kept. */
static size_t most_kept(const struct pocket *p, enum pocket_sort sort) {
	size_t length = 0, most = 0;
	for (size_t n = 0; n < POCKET_LENGTHS; n++) {
		size_t granules = pocket_count(p, sort, n) * pocket_granules(sort, n);
		if (granules > most) {
			length = n;
			most = granules;
		}
	}
	return length;
}

/* There is one. */
HAK_NOINLINE static void drop_one(struct pocket *p, enum pocket_sort sort) {
	give_back(pop_oldest(p, sort, most_kept(p, sort)));
}

/* What is set for BigCache is BigCache's alone, and below a limit another thread may need it. */
static bool keeps_no_spans(void) {
	return !hak_settings.bigcache_l25 || hak_settings.bigcache_max != BIGCACHE_AUTO || hak_settings.limit != 0;
}

/* What a background thread is to give back must not wait for another. */
static bool keeps_nothing(enum pocket_sort sort) {
	return hak_settings.purge_delay_ms == 0 || secure_is_on() || hak_settings.background ||
		(sort == POCKET_SPANS && keeps_no_spans());
}

/* Granules that all pockets together may keep, but for MOST. Relaxed: counts. */
static size_t allowance_of_all(enum pocket_sort sort) {
	if (sort == POCKET_SPANS)
		return max_size(space_big() / PART_BIG, LEAST_SPANS);
	size_t live = __atomic_load_n(&hak_space.live, __ATOMIC_RELAXED);
	size_t large = __atomic_load_n(&hak_space.large, __ATOMIC_RELAXED);
	return max_size(live / PART_LIVE + large / PART_LARGE, space_is_contended() ? LEAST_CONTENDED : LEAST);
}

static size_t threads(void) {
	return max_size(__atomic_load_n(&hak_space.threads, __ATOMIC_RELAXED), 1);
}

/* That this pocket may keep: if anything, a piece of one granule at least. */
static size_t allowance(enum pocket_sort sort) {
	if (keeps_nothing(sort))
		return 0;
	size_t max = hak_settings.bigcache_max / GRANULE;
	size_t mine = max_size(min_size(allowance_of_all(sort), max) / threads(), 1);
	return min_size(mine, min_size(max, MOST[sort]));
}

HAK_NOINLINE HAK_EVERYDAY static void review(struct pocket *p, enum pocket_sort sort) {
	tell(p);
	size_t most = allowance(sort);
	if (most != 0 && p->rows == NULL)
		p->rows = meta_alloc(sizeof *p->rows);
	p->shelf[sort].most = p->rows != NULL ? (uint32_t)most : 0;
}

/* Makes room for a block. False: there is none for it. */
static bool make_room(struct pocket *p, const struct large *l) {
	enum pocket_sort sort = pocket_sort_of(l);
	struct shelf *s = &p->shelf[sort];
	size_t granules = l->span.granules, length = pocket_length(sort, granules);
	review(p, sort);
	if (granules > s->most)
		return false;
	if (pocket_row_is_full(p, sort, length))
		give_back(pop_oldest(p, sort, length));
	for (int i = 0; i < OUT_MOST && s->granules + granules > s->most; i++)
		drop_one(p, sort);
	return pocket_has_room(p, sort, l);
}

bool pocket_send_home(struct large *l) {
	if (l->home == NULL)
		return false;
	mark_sent(l); /* once sent it is the other's */
	if (arrivals_send(&l->home->arrivals[pocket_sort_of(l)], l))
		return true;
	unmark_sent(l);
	return false;
}

void pocket_put(struct pocket *p, struct large *l) {
	enum pocket_sort sort = pocket_sort_of(l);
	l->heap = NULL; /* as the short way finds and leaves it */
	if (p->shelf[sort].most == 0)
		review(p, sort);
	bool has_room = pocket_has_room(p, sort, l);
	if (!has_room && l->home != p && pocket_send_home(l))
		return;
	if (has_room || make_room(p, l)) {
		pocket_push(p, sort, l);
		tell(p);
	} else {
		give_back(l);
	}
}

/* Takes in what came home, as far as there is room. The rest, as a list. */
HAK_NOINLINE HAK_EVERYDAY static struct large *take_in(struct pocket *p, enum pocket_sort sort) {
	struct arrivals *a = &p->arrivals[sort];
	struct large *rest = NULL;
	for (struct large *l = arrivals_take(a), *next; l != NULL; l = next) {
		next = l->next;
		if (pocket_has_room(p, sort, l)) {
			arrivals_settle(a, l);
			unmark_sent(l);
			pocket_push(p, sort, l);
		} else {
			l->next = rest;
			rest = l;
		}
	}
	tell(p);
	return rest;
}

/* Gives back what was taken. */
HAK_EVERYDAY static void refuse(struct arrivals *a, struct large *list) {
	for (struct large *l = list, *next; l != NULL; l = next) {
		next = l->next;
		arrivals_settle(a, l);
		unmark_sent(l);
		give_back(l);
	}
}

HAK_EVERYDAY bool pocket_relieve(struct pocket *p, bool old_only) {
	bool any = false;
	for (enum pocket_sort sort = 0; sort < POCKET_SORTS; sort++) {
		struct arrivals *a = &p->arrivals[sort];
		if (!old_only || arrivals_are_old(a))
			refuse(a, arrivals_take(a));
		any |= arrivals_are_there(a);
	}
	return any;
}

/* False: nothing has come. */
HAK_NOINLINE HAK_EVERYDAY static bool collect(struct pocket *p, enum pocket_sort sort) {
	struct arrivals *a = &p->arrivals[sort];
	review(p, sort);
	arrivals_invite(a, p->shelf[sort].most);
	if (!arrivals_are_there(a))
		return false;
	struct large *rest = take_in(p, sort);
	if (rest != NULL)
		arrivals_put_back(a, rest);
	return true;
}

HAK_EVERYDAY struct large *pocket_fetch(struct pocket *p, enum pocket_sort sort, size_t granules) {
	struct large *l = pocket_take(p, sort, granules);
	return l == NULL && collect(p, sort) ? pocket_take(p, sort, granules) : l;
}

void pocket_give_way(struct pocket *p, size_t granules) {
	/* Relaxed: a hint. That many are not always to be had in one run. */
	if (__atomic_load_n(&hak_space.dirty, __ATOMIC_RELAXED) < 2 * granules)
		drop_one(p, POCKET_PIECES);
}

/* Gives back all of a sort. */
HAK_NOINLINE HAK_EVERYDAY static void empty(struct pocket *p, enum pocket_sort sort) {
	while (pocket_has_any(p, sort))
		drop_one(p, sort);
}

bool pocket_could_give(const struct pocket *p, size_t granules) {
	/* Relaxed: a hint. */
	return pocket_has_any(p, POCKET_SPANS) &&
		__atomic_load_n(&hak_space.kept, __ATOMIC_RELAXED) + p->shelf[POCKET_SPANS].granules >= granules;
}

void pocket_give_spans(struct pocket *p) {
	empty(p, POCKET_SPANS);
}

/* Gives up the stale ones of a length. Their age counts from the first tick on. */
HAK_EVERYDAY static void tick(struct pocket *p, enum pocket_sort sort, size_t length, uint64_t now) {
	struct large **block = pocket_row(p, sort, length);
	for (unsigned i = pocket_count(p, sort, length); i-- > 0 && block[i]->freed_ms == 0;)
		block[i]->freed_ms = now;
	while (pocket_count(p, sort, length) != 0 && now - block[0]->freed_ms > (uint64_t)hak_settings.purge_delay_ms)
		give_up(pop_oldest(p, sort, length));
}

HAK_EVERYDAY void pocket_tick(struct pocket *p) {
	tell(p); /* also that the short ways have left nothing */
	if (pocket_expects_none(p) || hak_settings.purge_delay_ms < 0)
		return;
	uint64_t now = os_now_ms();
	for (enum pocket_sort sort = 0; sort < POCKET_SORTS; sort++) {
		review(p, sort);
		refuse(&p->arrivals[sort], take_in(p, sort));
		for (size_t n = 0; n < POCKET_LENGTHS && pocket_has_any(p, sort); n++)
			tick(p, sort, n, now);
	}
}

void pocket_release(struct pocket *p) {
	pocket_relieve(p, false);
	empty(p, POCKET_PIECES);
	empty(p, POCKET_SPANS);
	tell(p);
}

HAK_EVERYDAY void pocket_shut(struct pocket *p) {
	for (enum pocket_sort sort = 0; sort < POCKET_SORTS; sort++)
		refuse(&p->arrivals[sort], arrivals_shut(&p->arrivals[sort]));
}

HAK_COLD static bool is_right(const struct large *l, enum pocket_sort sort, size_t granules) {
	/* Relaxed: nothing else runs. */
	return large_keeper(l) == KEPT_POCKET && pocket_sort_of(l) == sort && l->span.granules == granules &&
		atomic_load_explicit(&l->state, memory_order_relaxed) == LARGE_FREED &&
		pagemap_find((uintptr_t)l->span.base).desc == l;
}

/* What has come home but is not on the shelf. False: not all of it is right. */
HAK_COLD static bool add_arrivals(const struct pocket *p, enum pocket_sort sort, size_t *granulesp) {
	bool right = true;
	for (const struct large *l = arrivals_list(&p->arrivals[sort]); l != NULL && right; l = l->next) {
		right = is_right(l, sort, l->span.granules);
		*granulesp += l->span.granules;
	}
	return right;
}

HAK_COLD static const char *check_sort(const struct pocket *p, enum pocket_sort sort) {
	size_t granules = 0, arrived = 0;
	bool right = add_arrivals(p, sort, &arrived);
	for (size_t n = 0; n < POCKET_LENGTHS; n++) {
		unsigned count = pocket_count(p, sort, n), room = 0;
		if (p->rows != NULL)
			room = sort == POCKET_PIECES ? POCKET_ROOM(n + 1) : POCKET_SPAN_DEPTH;
		for (unsigned i = 0; i < count && i < room; i++, granules += pocket_granules(sort, n))
			right &= is_right(pocket_row(p, sort, n)[i], sort, pocket_granules(sort, n));
	}
	if (!right)
		return "a pocket keeps a block that is none";
	/* In a fork child fewer may have been counted than arrived: then more may come. */
	int32_t counted = atomic_load_explicit(&p->arrivals[sort].granules, memory_order_relaxed);
	return granules == p->shelf[sort].granules && counted <= (int32_t)arrived ? NULL : "the sum over a pocket is wrong";
}

HAK_COLD const char *pocket_check(const struct pocket *p) {
	const char *wrong = check_sort(p, POCKET_PIECES);
	return wrong != NULL ? wrong : check_sort(p, POCKET_SPANS);
}

/* Who took them is gone before it had settled all. Not more: a handler's fork may have stopped this thread before it
   counted what it had sent. */
HAK_COLD void pocket_recount(struct pocket *p) {
	p->counted = p->shelf[POCKET_SPANS].granules;
	for (enum pocket_sort sort = 0; sort < POCKET_SORTS; sort++) {
		size_t arrived = 0;
		add_arrivals(p, sort, &arrived);
		_Atomic int32_t *count = &p->arrivals[sort].granules;
		if (atomic_load_explicit(count, memory_order_relaxed) > (int32_t)arrived)
			atomic_store_explicit(count, (int32_t)arrived, memory_order_relaxed);
	}
}

HAK_COLD size_t pocket_spans(const struct pocket *p) {
	size_t granules = p->counted;
	add_arrivals(p, POCKET_SPANS, &granules);
	return granules;
}
