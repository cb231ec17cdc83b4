/* SPDX-License-Identifier: MIT */
/*
 * BigCache: freed spans with mappings of their own, and the ends of those that became shorter, kept for the next
 * request. (Pieces of SuperSlabs, and a heap's own few: front/pocket.h.)
 *
 * A freed span waits as it is. A request takes one that is at most half too long, whole: then not a tag
 * changes, and its pages are used where they were used before. Failing that it cuts what it needs
 * off a longer one; and if there is none, spans that lie side by side are joined and it looks again. So
 * the dirty memory serves any size, and little of it is enough. Spans are binned by granules: one bin per
 * count up to EXACT, then eight per doubling.
 *
 * What is kept is bounded in bytes (an allowance that follows the live bytes, less what pockets keep, under
 * HAKMEM_BIGCACHE_MAX) and in age (the purge delay): the oldest goes first, back to the system. A miss less than a
 * second after the allowance forced a span out doubles it, up to three times; misses of half of all that it forced out,
 * if that is much, do so three times at once. Then a program that frees all and takes as much again, wave after wave,
 * keeps what it used at most in the last second, and a quarter of that more for what lies in pieces, up to PURGE_BREATH
 * with what lives, as long as each second all but the floor of what is kept is used again.
 *
 * Tags of a kept span: all TAG_LARGE as when it was live (`untouched`); or, once it was cut or joined, its
 * last granule says TAG_LARGE_CACHED and points at its descriptor, and so does its first or, if that one
 * tells of the block that was freed there, its second. The others mean nothing: who finds a descriptor by a
 * granule looks whether the granule is in its span. They may still lead to the live block whose end it was.
 * Everything under one lock; giving back outside it.
 */
#ifndef HAK_FRONT_BIGCACHE_H
#define HAK_FRONT_BIGCACHE_H

#include "front/large.h"

/* Asks how much memory there is, if the setting says so. With the settings loaded. */
void bigcache_init(void);

/* A span of `granules`, or half as many more, out of the cache, tagged TAG_LARGE; NULL: there is none that begins at a
   multiple of `align`, a power of two. `is_last`: then the request is a miss; else it is going to ask again. */
struct large *bigcache_take(size_t granules, size_t align, bool is_last);

/* Likewise a span that is shorter, but not by more than half. No hit, and no miss. */
struct large *bigcache_take_part(size_t granules);

/* Is a span kept that bigcache_take would find without joining? A hint: others may take it first. */
bool bigcache_has(size_t granules);

/* The program wants so much memory that the cache does not have, and that does not come by bigcache_take. */
void bigcache_miss(size_t granules);

/* Lengthens a live block by what is kept right behind it, if that is `least` granules or more, up to `most`. How many. */
size_t bigcache_extend(struct large *l, size_t least, size_t most);

/* Gives a freed span, and its descriptor, to the cache; it may release it, or others, at once. `is_unused`: the cache gave
   it a moment ago, and it is as old as it was then. */
void bigcache_put(struct large *l, bool is_unused);

/* Likewise what lies behind the first `granules` of a live block. False: nothing has changed. */
bool bigcache_put_end(struct large *l, size_t granules);

/* Releases everything but `keep` bytes. True if anything was released. */
bool bigcache_release(size_t keep);

/* Releases what is older than the purge delay. */
void bigcache_tick(void);

/* When bigcache_tick has something to do next, by os_now_ms, or PURGE_NEVER. */
uint64_t bigcache_due(void);

/* A hint. */
bool bigcache_is_empty(void);

/* Where the number of granules kept is. */
const void *bigcache_granules_at(void);

struct bigcache_stats {
	uint64_t hits, misses, evictions;
};
extern struct bigcache_stats hak_bigcache_stats;

/* NULL, or what is wrong with the cache's books. Nothing else may run. */
const char *bigcache_check(void);

/* After fork with the lock held by a thread that is gone: forgets what was kept. */
void bigcache_reset(void);

struct lock *bigcache_lock(void);

#endif
