/* SPDX-License-Identifier: MIT */
/*
 * SuperSlab: 2 MiB of address space, aligned to 2 MiB, handed out as spans of granules. It is the
 * unit of address space, of huge pages, and of the purge queue.
 *
 * State of a granule, from three masks:
 *   in use                 free = 0
 *   free, dirty            free = 1, zero = 0     its pages may be resident
 *   free, clean            free = 1, zero = 1     reads as zero, costs no memory
 *   being purged           free = 0, and counted in no mask; in use by the purger
 *
 * Everything here is under the space lock (space_lock), which guards all SuperSlabs together, but what says
 * otherwise: `touched` of a granule in use is its user's, and the lock under which it changes hands orders it.
 * Lock order: slab pool, then slab descriptors, then space, then page map, then metadata.
 */
#ifndef HAK_SPACE_SUPERSLAB_H
#define HAK_SPACE_SUPERSLAB_H

#include "base/list.h"
#include "base/settings.h"

#define SUPERSLAB ((size_t)2 << 20)
#define SUPERSLAB_GRANULES 32

struct superslab {
	uintptr_t base;
	struct superslab *next;      /* all ever made; constant, and followed without the lock */
	uint32_t free;               /* granules that hold nothing */
	uint32_t zero;               /* of those: known to read as zero */
	uint64_t dirty_ms;           /* when it last joined the dirty queue */
	uint64_t purged_ms;          /* when it was last purged; 0: never */
	struct list_node by_run;     /* in the list of its longest free run; unlinked: run 0 */
	struct list_node by_dirty;   /* likewise of its longest run of dirty granules */
	struct queue_node dirty_link; /* in the dirty queue iff `queued` */
	uint32_t hollow;             /* bytes of dirty granules that no block touched, about */
	uint8_t touched[SUPERSLAB_GRANULES]; /* what a dirty granule's last slab says: touched_note */
	bool queued;
	bool regretted;              /* its last purge was */
	bool huge;                   /* asked for huge pages: for dense spans only */
	uint8_t place;               /* of threads for which it is, while others rather take from elsewhere; 0: none */
};

enum { TOUCHED_UNIT = 8192 }; /* bytes */

/* How much of a granule, from its beginning, slabs have touched since it was clean, about, and whether that was before a
   fork: a page that a process shares with its parent costs as much as a new one when it is written to. 0: none. (After two
   forks it passes for its own again.) */
extern HAK_HIDDEN uint8_t hak_touch_era; /* 0 or 1 */
HAK_INLINE uint8_t touched_note(size_t bytes) {
	return (uint8_t)(bytes / TOUCHED_UNIT << 1 | hak_touch_era);
}
HAK_INLINE size_t touched_bytes(uint8_t note) {
	return (note & 1) == hak_touch_era ? (note >> 1) * (size_t)TOUCHED_UNIT : 0;
}

/* The note of a granule, which is the caller's. */
HAK_INLINE uint8_t *superslab_touched(struct superslab *ss, uintptr_t granule) {
	return &ss->touched[(granule - ss->base) / (SUPERSLAB / SUPERSLAB_GRANULES)];
}

/* A run of granules as it is handed out and taken back. */
struct span {
	void *base;
	size_t granules;
	struct superslab *ss; /* NULL: a mapping of its own */
	bool zero;            /* out: all of it reads as zero */
	bool lately;          /* out: and some of it, or near it, was given back less than a second ago */
	size_t slack;         /* bytes at its end that no block used when it was handed out, but that may be resident; kept for
	                         span_free, as */
	size_t idle;          /* those behind them that are not */
	size_t last_size;     /* in, at free: size of the blocks it held, for reports; 0: not known */
	bool was_large;       /* in, at free: it held one large block */
};

/* Are its blocks so small that all its pages are used? Roomy ones keep clear of huge pages, which would make the
   rest resident, too. Who could as well map memory takes only what is dirty. */
enum span_use { SPAN_DENSE, SPAN_ROOMY, SPAN_DIRTY };

/* 1..SUPERSLAB_GRANULES granules, tagged TAG_FREE, for blocks of `size` bytes, if that is known, else 0. False: out of
   memory, or of dirty granules, if it is to be those. Thread-safe. */
bool span_alloc(size_t granules, enum span_use use, size_t size, struct span *span);

/* The same for a granule, and for up to `most` - 1 more while many are dirty, or none, all for blocks whose span_idle
   is 0, under the lock once. How many there are; 0: out of memory. */
unsigned span_alloc_several(enum span_use use, size_t size, struct span *span, unsigned most);

/* Bytes of whole pages at the end of a span that blocks of `size` > 0 bytes leave unused; 0 if they are not worth a
   system call. */
size_t span_idle(size_t granules, size_t size);

/* Its first `bytes` will be used: if that is more than when it was handed out, nothing of it is idle or slack any longer.
   Thread-safe. */
void span_use(struct span *span, size_t bytes);

/* Takes `n` spans back, all from SuperSlabs, or none; what lies behind the first `touched` bytes of each reads as zero.
   Thread-safe. */
void span_free_several(const struct span *span, const size_t *touched, unsigned n);
HAK_INLINE void span_free(const struct span *span, size_t touched) {
	span_free_several(span, &touched, 1);
}
enum { SPAN_BATCH = 8 }; /* are enough for the lock to cost little */

/* Makes a span longer by taking the free granules behind it. `zerop`: the new part reads as zero. */
bool span_extend(struct span *span, size_t granules, bool *zerop);

/* Gives the granules behind the first `granules` back. */
void span_shrink(struct span *span, size_t granules);

/* Space counters, in granules; approximate for readers without the lock. What changes with each span comes first: who
   takes the lock has to fetch it from another processor's cache. */
struct space_stats {
	size_t live;     /* in use; looked at without the lock, too */
	size_t dirty;    /* free and maybe resident */
	size_t hollow;   /* bytes of those that are not, about */
	size_t superslabs; /* looked at without the lock, too */
	size_t kept;     /* in BigCache, under its lock; the next is under neither */
	size_t retained_most; /* of those, and free ones of SuperSlabs */
	size_t locks, waits; /* times the lock was taken, and of those after waiting */
	size_t dirty_most, live_most; /* the most there were at a time */
	size_t idle;     /* bytes at the ends of spans in use that are not resident; */
	size_t slack;    /* those that no block used as they were handed out, but that may be */
	size_t regrets;
	size_t purged;   /* purged, ever; looked at without the lock, too */
	size_t purges;   /* calls of os_purge */
	/* Not under the lock: */
	size_t alone HAK_CACHE_ALIGNED; /* granules mapped alone, without a SuperSlab */
	size_t large;    /* granules of large blocks in SuperSlabs, those in pockets (front/pocket.h) among them */
	size_t big;      /* granules of large blocks with a mapping of their own, likewise */
	size_t pocketed; /* granules of `big` in pockets */
	size_t threads;  /* that have a heap */
	size_t spare;    /* TOUCHED_UNITs of the empty slabs that heaps keep for themselves (front/spares.h) */
	size_t guards;   /* slabs and large blocks that have any, live or not */
};
extern struct space_stats hak_space;

/* Have threads often waited for the space lock of late? Then they had better take it seldom, and several spans at once.
   Written under the lock, when it changes. */
extern HAK_HIDDEN bool hak_space_contended;
HAK_INLINE bool space_is_contended(void) {
	/* Relaxed: a hint. */
	return __atomic_load_n(&hak_space_contended, __ATOMIC_RELAXED);
}

/* The newest descriptor ever made; the others follow by `next`. */
struct superslab *const *superslab_all(void);

/* `dirty` and `big` are looked at without the lock, too: purge_pending, BigCache's allowance. */
HAK_INLINE void space_count_dirty(ptrdiff_t granules) {
	/* Relaxed: a hint for those without the lock. */
	__atomic_store_n(&hak_space.dirty, hak_space.dirty + (size_t)granules, __ATOMIC_RELAXED);
	if (hak_space.dirty > hak_space.dirty_most)
		hak_space.dirty_most = hak_space.dirty;
}
HAK_INLINE void space_change_live(ptrdiff_t granules) {
	/* Relaxed: for space_note_retained. */
	__atomic_store_n(&hak_space.live, hak_space.live + (size_t)granules, __ATOMIC_RELAXED);
}
HAK_INLINE void space_count_live(size_t granules) {
	space_change_live((ptrdiff_t)granules);
	if (hak_space.live > hak_space.live_most)
		hak_space.live_most = hak_space.live;
}
/* Relaxed, these, too: they decide what is worth doing, not what is right. */
HAK_INLINE void space_count_purged(size_t granules) {
	__atomic_store_n(&hak_space.purged, hak_space.purged + granules, __ATOMIC_RELAXED);
}
HAK_INLINE void space_count_superslabs(ptrdiff_t n) {
	__atomic_store_n(&hak_space.superslabs, hak_space.superslabs + (size_t)n, __ATOMIC_RELAXED);
}
HAK_INLINE size_t space_superslabs(void) {
	return __atomic_load_n(&hak_space.superslabs, __ATOMIC_RELAXED);
}
HAK_INLINE size_t space_big(void) {
	return __atomic_load_n(&hak_space.big, __ATOMIC_RELAXED);
}

/* After retained memory has become more. Under the space lock or BigCache's: of what the others do meanwhile
   a peak may be missed, or be off by that. */
HAK_INLINE void space_note_retained(void) {
	size_t live = __atomic_load_n(&hak_space.live, __ATOMIC_RELAXED);
	ptrdiff_t retained = (ptrdiff_t)(space_superslabs() * SUPERSLAB_GRANULES - live +
		__atomic_load_n(&hak_space.kept, __ATOMIC_RELAXED));
	if (retained > (ptrdiff_t)__atomic_load_n(&hak_space.retained_most, __ATOMIC_RELAXED))
		__atomic_store_n(&hak_space.retained_most, (size_t)retained, __ATOMIC_RELAXED);
}
/* Relaxed: a hint for those without BigCache's lock. */
HAK_INLINE void space_set_kept(size_t granules) {
	__atomic_store_n(&hak_space.kept, granules, __ATOMIC_RELAXED);
	space_note_retained();
}

/* Level 3 of HAKMEM_SECURE: inaccessible pages in front of a slab make two mappings more of it, those around a large
   block three. The system allows some 65 000 (vm.max_map_count): at most half are for this. */
enum { GUARDS_MOST = 10 * 1024 };

/* Relaxed: threads that ask at once may have one each too many. */
HAK_INLINE bool space_allows_guard(void) {
	return hak_settings.secure >= 3 && __atomic_load_n(&hak_space.guards, __ATOMIC_RELAXED) < GUARDS_MOST;
}
HAK_INLINE void space_count_guards(ptrdiff_t n) {
	__atomic_fetch_add(&hak_space.guards, (size_t)n, __ATOMIC_RELAXED);
}

struct lock *space_lock(void);
void space_acquire(void); /* takes it */

/* Puts inaccessible pages around all metadata, once the process is hardened or no longer small (space/meta.h). */
void space_guard(void);

/* After fork with that lock held by a thread that is gone: files every SuperSlab again. */
void superslab_rebuild(void);

/* NULL, or what is wrong with the SuperSlabs' books. Nothing else may run. */
const char *superslab_check(void);

/* ---- for purge.c and span.c: all need the space lock ---- */

/* Takes a run of granules, dirty ones if there are; NULL: no SuperSlab for this use has one. */
struct superslab *superslab_take(size_t granules, enum span_use use, unsigned *firstp, bool *zerop);

/* Puts granules back; `dirty`: which of them may be resident. */
void superslab_put(struct superslab *ss, uint32_t mask, uint32_t dirty);

/* How many granules a mask has. Out of line, for it is much code, and wanted in many places. */
unsigned superslab_count(uint32_t mask);

/* `n` of its dirty granules are about to leave the free or the dirty ones, or all have. */
void superslab_uncount_dirty(struct superslab *ss, unsigned n);

/* After dirty granules were put back of which so many bytes were not touched. */
void superslab_count_hollow(struct superslab *ss, size_t bytes);

/* Files the SuperSlab under its longest runs again after its masks changed. */
void superslab_refile(struct superslab *ss);

/* Adds address space for this use. False: the system has none; then what some threads have for their own is
   everybody's. */
bool superslab_grow(enum span_use use);

/* A huge page has come. After slow ones new SuperSlabs ask for none for a while. */
void superslab_note_huge_page(bool was_slow);

/* Unmaps some SuperSlabs that are wholly free; again until it returns 0, and the lock dropped meanwhile. `*passedp`: 0 at
   first, then how many the system refused, which are passed by. Number unmapped. */
size_t superslab_release_empty(size_t *passedp);

#endif
