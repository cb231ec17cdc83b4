/* SPDX-License-Identifier: MIT */
/*
 * Pocket: freed large blocks that a heap keeps as they are for its next requests: pieces of SuperSlabs (less than
 * 512 KiB), and spans of their own up to some 2 MiB. Taking one costs neither a lock nor a tag; granules cost both,
 * BigCache a lock.
 *
 * Where threads hand blocks on, the pocket of those that free runs full, and that of the one that makes them empty. So
 * a block for which there is no room goes home (front/arrivals.h): to the pocket of the heap that made it, if that has
 * just missed one, and as much as it may keep is not on its way already.
 *
 * What is kept so serves large blocks of this heap alone, while free granules and BigCache serve all: little is kept,
 * a part of what lives, shared by the threads. It goes back with age, as far as the thread comes by, and when the
 * heap needs what the pocket withholds: granules, while those that are free are not resident; a span, while BigCache
 * has none. Of two blocks of one length the older goes first; of two lengths the one of which most is kept.
 *
 * Touched by the heap's thread, but for the arrivals; that of a locked heap stays empty, since threads free its
 * blocks. The granules' tags stay TAG_LARGE, and lead to the descriptor, which says that the block is freed.
 */
#ifndef HAK_FRONT_POCKET_H
#define HAK_FRONT_POCKET_H

#include "front/arrivals.h"
#include "front/large.h"
#include "space/pagemap.h"

enum {
	POCKET_LENGTHS = LARGE_BIG_MIN / GRANULE, /* a piece has as many granules at most */
	POCKET_PIECES_MOST = 96,                  /* granules of all pieces: programs free them by the dozen, too */
	POCKET_SPAN_DEPTH = 4,                    /* spans of one length */
	POCKET_SPAN_FIRST = LARGE_BIG_MIN / GRANULE, /* granules of the shortest span; of the longest: */
	POCKET_SPAN_LAST = POCKET_SPAN_FIRST + (POCKET_LENGTHS - 1) * (int)LARGE_BIG_STEP,
};

enum pocket_sort { POCKET_PIECES, POCKET_SPANS, POCKET_SORTS };

/* Where the rows of pieces begin, one for each length: each has room for all that there may be. */
#define POCKET_ROOM(granules) (POCKET_PIECES_MOST / (granules))
enum {
	POCKET_ROW_2 = POCKET_ROOM(1),
	POCKET_ROW_3 = POCKET_ROW_2 + POCKET_ROOM(2),
	POCKET_ROW_4 = POCKET_ROW_3 + POCKET_ROOM(3),
	POCKET_ROW_5 = POCKET_ROW_4 + POCKET_ROOM(4),
	POCKET_ROW_6 = POCKET_ROW_5 + POCKET_ROOM(5),
	POCKET_ROW_7 = POCKET_ROW_6 + POCKET_ROOM(6),
	POCKET_ROW_8 = POCKET_ROW_7 + POCKET_ROOM(7),
	POCKET_ROWS_END = POCKET_ROW_8 + POCKET_ROOM(8),
};
static_assert(POCKET_LENGTHS == 8 && POCKET_ROW_8 <= UINT8_MAX, "a byte each");
extern HAK_HIDDEN const uint8_t hak_pocket_rows[POCKET_LENGTHS];

/* What there is of a sort. */
struct shelf {
	uint64_t counts;   /* a byte for each length: how many blocks */
	uint32_t granules; /* of all of them, */
	uint32_t most;     /* and as many as there may be, when this was last asked */
};
static_assert(POCKET_LENGTHS == sizeof(uint64_t), "a byte each");

/* Of each length the oldest first. Apart: most heaps never have large blocks. */
struct pocket_rows {
	struct large *span[POCKET_LENGTHS][POCKET_SPAN_DEPTH];
	struct large *piece[POCKET_ROWS_END];
};

/* All zero: empty. */
struct pocket {
	struct shelf shelf[POCKET_SORTS];
	struct pocket_rows *rows; /* NULL: none yet, nor room for any block */
	uint32_t counted; /* granules of the spans that BigCache knows of (hak_space.pocketed) */
	struct arrivals arrivals[POCKET_SORTS] HAK_CACHE_ALIGNED; /* from other threads */
};

HAK_INLINE bool pocket_has_any(const struct pocket *p, enum pocket_sort sort) {
	return p->shelf[sort].counts != 0;
}

HAK_INLINE bool pocket_is_empty(const struct pocket *p) {
	return (p->shelf[POCKET_PIECES].counts | p->shelf[POCKET_SPANS].counts) == 0;
}

/* Nor any on the way to it? */
HAK_INLINE bool pocket_expects_none(const struct pocket *p) {
	return pocket_is_empty(p) && !arrivals_are_there(&p->arrivals[POCKET_PIECES]) &&
		!arrivals_are_there(&p->arrivals[POCKET_SPANS]);
}

HAK_INLINE enum pocket_sort pocket_sort_of(const struct large *l) {
	return l->span.ss != NULL ? POCKET_PIECES : POCKET_SPANS;
}

/* Lengths are numbered: pieces have one granule more each, spans LARGE_BIG_STEP. */
HAK_INLINE size_t pocket_step(enum pocket_sort sort) {
	return sort == POCKET_PIECES ? 1 : LARGE_BIG_STEP;
}
HAK_INLINE size_t pocket_length(enum pocket_sort sort, size_t granules) {
	return sort == POCKET_PIECES ? granules - 1 : (granules - POCKET_SPAN_FIRST) / LARGE_BIG_STEP;
}
HAK_INLINE size_t pocket_granules(enum pocket_sort sort, size_t length) {
	return (sort == POCKET_PIECES ? 1 : POCKET_SPAN_FIRST) + length * pocket_step(sort);
}

HAK_INLINE struct large **pocket_row(const struct pocket *p, enum pocket_sort sort, size_t length) {
	return sort == POCKET_PIECES ? p->rows->piece + hak_pocket_rows[length] : p->rows->span[length];
}

HAK_INLINE unsigned pocket_count(const struct pocket *p, enum pocket_sort sort, size_t length) {
	return (uint8_t)(p->shelf[sort].counts >> 8 * length);
}

/* The newest block of a length that there is: it is in the processor's caches. */
HAK_INLINE struct large *pocket_pop(struct pocket *p, enum pocket_sort sort, size_t length) {
	p->shelf[sort].counts -= (uint64_t)1 << 8 * length;
	struct large *l = pocket_row(p, sort, length)[pocket_count(p, sort, length)];
	p->shelf[sort].granules -= (uint32_t)l->span.granules;
	large_set_keeper(l, KEPT_NOT);
	return l;
}

/* A block of `granules`, as many as one of that sort may have, or half as many more, or NULL. */
HAK_INLINE struct large *pocket_take(struct pocket *p, enum pocket_sort sort, size_t granules) {
	size_t length = pocket_length(sort, granules);
	if (length >= POCKET_LENGTHS)
		return NULL;
	uint64_t fits = p->shelf[sort].counts >> 8 * length;
	if (fits == 0)
		return NULL;
	unsigned more = (unsigned)__builtin_ctzll(fits) / 8;
	if (more * pocket_step(sort) > granules / 2)
		return NULL;
	struct large *l = pocket_pop(p, sort, length + more);
	if (l->home != p)
		l->home = p;
	return l;
}

/* Likewise, or of what has come home. From the first call on blocks do. */
struct large *pocket_fetch(struct pocket *p, enum pocket_sort sort, size_t granules);

/* Is it of a sort and length that pockets keep? */
HAK_INLINE bool pocket_holds(const struct large *l) {
	size_t granules = l->span.granules;
	if (l->span.ss != NULL)
		return granules <= POCKET_LENGTHS;
	return granules - POCKET_SPAN_FIRST <= POCKET_SPAN_LAST - POCKET_SPAN_FIRST && granules % LARGE_BIG_STEP == 0 &&
		l->guard == 0;
}

/* Those of pieces never are. */
HAK_INLINE bool pocket_row_is_full(const struct pocket *p, enum pocket_sort sort, size_t length) {
	return sort == POCKET_SPANS && pocket_count(p, sort, length) == POCKET_SPAN_DEPTH;
}

/* For a block of that sort that it holds. */
HAK_INLINE bool pocket_has_room(const struct pocket *p, enum pocket_sort sort, const struct large *l) {
	const struct shelf *s = &p->shelf[sort];
	size_t granules = l->span.granules;
	return s->granules + granules <= s->most && !pocket_row_is_full(p, sort, pocket_length(sort, granules));
}

/* A freed block for which there is room. */
HAK_INLINE void pocket_push(struct pocket *p, enum pocket_sort sort, struct large *l) {
	size_t length = pocket_length(sort, l->span.granules);
	pocket_row(p, sort, length)[pocket_count(p, sort, length)] = l;
	p->shelf[sort].counts += (uint64_t)1 << 8 * length;
	p->shelf[sort].granules += (uint32_t)l->span.granules;
	if (l->freed_ms != 0)
		l->freed_ms = 0; /* pocket_tick sets it: the clock costs more than all this */
	large_set_keeper(l, KEPT_POCKET);
}

HAK_INLINE bool pocket_keep_as(struct pocket *p, enum pocket_sort sort, struct large *l) {
	if (!pocket_has_room(p, sort, l))
		return false;
	pocket_push(p, sort, l);
	return true;
}

/* A freed block that it holds, if there is room. Each sort has its own way, for speed. */
HAK_INLINE bool pocket_keep(struct pocket *p, struct large *l) {
	return pocket_sort_of(l) == POCKET_PIECES ? pocket_keep_as(p, POCKET_PIECES, l) : pocket_keep_as(p, POCKET_SPANS, l);
}

/* Sends a freed block, of a sort and length that pockets keep, to that of the heap that made it. False: that takes none,
   or has enough. Any thread. */
bool pocket_send_home(struct large *l);

/* Keeps a freed block that it holds, or sends it home, or gives it or others back. */
void pocket_put(struct pocket *p, struct large *l);

/* Gives a piece back if few granules are resident. There is one. */
void pocket_give_way(struct pocket *p, size_t granules);

/* `granules` are about to be taken from SuperSlabs. Inline: the rest is not what every process runs. */
HAK_INLINE void pocket_yield(struct pocket *p, size_t granules) {
	if (HAK_UNLIKELY(pocket_has_any(p, POCKET_PIECES)))
		pocket_give_way(p, granules);
}

/* Would BigCache have `granules`, in one piece or not, if it had all spans? */
bool pocket_could_give(const struct pocket *p, size_t granules);

/* Hands it all spans. */
void pocket_give_spans(struct pocket *p);

/* Gives back what is older than the purge delay. From time to time. */
void pocket_tick(struct pocket *p);

/* Gives back everything. */
void pocket_release(struct pocket *p);

/* Gives back what is on its way to it; `old_only`: if the heap's thread has not come by for a while. Is there any still?
   Any thread. */
bool pocket_relieve(struct pocket *p, bool old_only);

/* The heap, whose pocket has been released, loses its thread: from here on no block comes home. */
void pocket_shut(struct pocket *p);

/* In a fork child: as many arrivals as there are. */
void pocket_recount(struct pocket *p);

/* Granules of the spans that it keeps, as far as BigCache knows, or that are on their way to it. Nothing else may run. */
size_t pocket_spans(const struct pocket *p);

/* NULL, or what is wrong with its books. Likewise. */
const char *pocket_check(const struct pocket *p);

#endif
