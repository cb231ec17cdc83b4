/* SPDX-License-Identifier: MIT */
/*
 * BigCache: freed spans of 512 KiB and more, kept for the next request of about the same size.
 *
 * Spans are binned by granules: one bin per count up to BIGCACHE_EXACT, then eight per doubling. A
 * request takes the smallest span that fits and wastes at most a quarter. What is kept is bounded in
 * bytes (an allowance that follows the live bytes, under HAKMEM_BIGCACHE_MAX) and in age (the purge
 * delay): the oldest go first, back to the system. Everything under one lock; unmapping happens
 * outside it.
 */
#ifndef HAK_FRONT_BIGCACHE_H
#define HAK_FRONT_BIGCACHE_H

#include "front/large.h"

/* Takes a span of at least `granules` out of the cache, or gives NULL. */
struct large *bigcache_take(size_t granules);

/* Gives a freed span to the cache; it may release it, or others, at once. */
void bigcache_put(struct large *l);

/* Releases everything but `keep` bytes. True if anything was released. */
bool bigcache_release(size_t keep);

/* Releases what is older than the purge delay. */
void bigcache_tick(void);

/* Bytes kept. */
size_t bigcache_bytes(void);

struct bigcache_stats {
	uint64_t hits, misses, evictions;
};
extern struct bigcache_stats hak_bigcache_stats;

/* After fork with the lock held by a thread that is gone: forgets what was kept. */
void bigcache_reset(void);

struct lock *bigcache_lock(void);

#endif
