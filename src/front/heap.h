/* SPDX-License-Identifier: MIT */
/*
 * Heap: what a thread owns. Its slabs, its inbox, its outbox.
 *
 * Thread heaps are touched by their thread alone, except for the inbox, which any thread pushes to, and takes from
 * while the owner sleeps (front/sleepers.h).
 * A locked heap (front/alloc.h: first-class heaps, and the one that serves threads after their
 * teardown) is touched under its lock. Heaps are never unmapped; a dead thread's heap has disowned
 * its slabs, or kept them if adoption is off, and is taken up by the next new thread.
 *
 * A slab of the heap is, per class,
 *   current     where blocks come from now; at most one. Blocks that were in use before, here or in a ready
 *               slab, come before new ones are carved.
 *   ready       in the ready list: not current, has blocks on its own list or remote list or
 *               uncarved ones
 *   full        neither: all its blocks are out. The first that comes home makes it ready.
 * and always in `all`. Class 0, which no slab has, lists the mosaics (slab/mosaic.h); those with holes are
 * in `holes` by the length of the largest.
 */
#ifndef HAK_FRONT_HEAP_H
#define HAK_FRONT_HEAP_H

#include "base/bits.h"
#include "base/list.h"
#include "build_options.h"
#include "front/outbox.h"
#include "front/pocket.h"
#include "front/policy.h"
#include "front/spares.h"
#include "front/tcache.h"
#include "slab/remote.h"

enum { BIN_BURST = 4, BIN_DRAINED, BIN_BURST_ROOM = 4 };
struct heap_class {
	struct slab *current;
	struct list ready;
	struct list all;
	void **end;           /* of the bin's array (front/bins.h); NULL: there is none yet */
	uint16_t length;      /* entries before that */
	uint16_t listed;      /* blocks of a slab that come when the bin is empty, as a list; */
	uintptr_t list;       /* the link to the first of them */
	uint16_t capacity;    /* blocks the bin may hold */
	bool hides_list;      /* the next of them takes the slow path */
	uint8_t overran;      /* times that since the last refill blocks went home because the bin was full, BIN_BURST at most,
	                         or BIN_DRAINED: all of them did, and the bin holds BIN_BURST_ROOM till then */
	uint8_t started;      /* blocks that holes_start has cut */
	uint32_t seen;        /* of the bin, when flush_unused last came by: what changes with each block */
	uint32_t samples;     /* requests that found the bin empty, and how many bytes they left unused in all; */
	uint32_t waste;       /* both are halved before they overflow */
};

/* Slow-path events, counted by the heap's thread; read by others without order, as counters. */
#define COUNT(counter) COUNT_MORE(counter, 1) /* nothing without the option `stats` */
#define COUNT_MORE(counter, n) ((void)(HAK_STATS && ((counter) += (n))))

struct heap_counters {
	uint64_t refill_own, refill_carve, refill_ready, refill_inbox, refill_adopt, refill_fresh;
	uint64_t refill_hole;
	uint64_t bin_miss;                  /* refills in all */
	uint64_t bin_overflow, remote_free; /* full bins; blocks sent to others, whose they are */
	uint64_t home, drained;             /* blocks that went home, that others freed and were taken up */
	uint64_t foreign_free;              /* handed on to libc */
	uint64_t slab_deleted;
};

/* Per band of sizes: the ready list had a slab for a refill, had none; blocks were carved into the bin. */
struct warm_counters {
	uint32_t hits, misses, prefills;
};

/* Setting `stats = ops`: the heap's bins are here, where neither malloc nor free finds them, so that each
   operation goes out of line and is counted. [0]: large blocks. */
struct ops {
	struct bin bins[SC_COUNT];
	uint64_t allocs[SC_COUNT], frees[SC_COUNT];
	uint64_t requested; /* bytes */
};

enum { HOLE_LENGTHS = 13 };

struct heap {
	struct inbox inbox HAK_CACHE_ALIGNED;
	struct bin *bins HAK_CACHE_ALIGNED; /* the thread's, or a locked heap's own; NULL: no thread */
	uint32_t tag;            /* owner number << TAG_OWNER_SHIFT; constant */
	bool locked;             /* a locked heap; constant */
	bool is_first;           /* the process's first heap: small programs have but this one */
	bool forsaken;           /* no thread has it, but an interrupted call may go on with it */
	volatile bool busy;      /* its thread is inside a slow path (read after fork); heap_enter */
	const void *caller;      /* return address of the call that the thread is in; for reports */
	int thread;              /* id of its thread, if reports are to name it; else 0 */
	int64_t until_guard;     /* blocks until the next is sampled (front/guard.h) */
	uint64_t random;         /* state of secure_random; not 0 */
	struct quarantine *quarantine; /* NULL: none */
	uint16_t *left_counts;   /* blocks in each bin when a fork took the thread away; NULL: that never was so */
	struct bin *own_bins;    /* of a thread heap whose thread's cache stays inert; NULL: not made yet */
	uint64_t looked;         /* at the clock, in os_cycles */
	uint64_t paced;          /* likewise, by heap_pace; */
	uint8_t pace;            /* short ways that go by until then */
	struct policy policy;
	uint64_t idle_ms;        /* when it lost its thread, if it has spares */
	uint64_t kept_ms;        /* when it was first seen that emptied slabs stay in their class; 0: not yet */
	bool keeps_empty;        /* there may be such slabs, or */
	bool keeps_others;       /* others' blocks in the bins (front/alloc.c: keep), which go home with them */
	bool flushes;            /* all blocks are being brought home: empty slabs are deleted in the end, together */
	size_t gathered;         /* slabs when all blocks were last brought home for the budget */
	struct heap *next;       /* registry of all heaps; constant */
	struct heap *next_idle;  /* under the registry lock */
	struct heap_counters count;
	struct warm_counters warm[SC_BANDS];
	struct ops *ops;         /* NULL: operations are not counted */
	struct outbox outbox;
	_Atomic(struct message *) unread; /* taken out of the inbox, and not taken up yet; front/heap_messages.c */
	struct sampling *sampling; /* NULL: not sampling; front/sampling.h */
	struct sampling *sampling_memory; /* NULL: never did */
	uint32_t sampling_seen;  /* generation of the switch that the thread follows */
	uint32_t bursts_seen;    /* front/watch.h, and what follows */
	bool is_watched;
	struct watch *watch;     /* NULL: never was */
	size_t slabs;            /* in the lists */
	uint8_t sparse_class;    /* where the search for a sparse slab goes on, */
	uint8_t sparse_wait;     /* after so many refills that would begin it */
	uint8_t swept;           /* the class that flush_unused was at */
	uint8_t recalls;         /* times that heap_recall took slabs of a class, or tried to */
	struct list holes[HOLE_LENGTHS]; /* mosaics; [k]: the largest hole has 2^k .. 2^(k+1)-1 units */
	struct heap_class classes[SC_COUNT];
	struct spares spares;
	struct pocket pocket;    /* last: few processes use much of it */
};

/* What the heap's thread does in between is half done for a fork child. The fences keep the compiler from
   moving stores out; other threads do not look. */
HAK_INLINE void heap_enter(struct heap *h) {
	h->busy = true;
	atomic_signal_fence(memory_order_seq_cst);
}
HAK_INLINE void heap_leave(struct heap *h) {
	atomic_signal_fence(memory_order_seq_cst);
	h->busy = false;
}

/* A heap with these bins, which it fills in, or with bins of its own if that is NULL; recycled or new. It is
   marked busy: whoever asked clears that when it has made the heap its own. NULL: out of memory.
   Thread-safe. */
struct heap *heap_acquire(struct bin *bins, bool locked);

/* heap_acquire does it. Once more, with `random` 0, in the child of a fork. */
void heap_seed(struct heap *h);

/* Brings bins and outbox home, gives up all slabs and puts the heap, no longer busy, up for reuse. Its
   thread. */
void heap_retire(struct heap *h);

/* A block of class `sc` for an empty bin, and more in the bin. `zerop`: whether the block is known to
   be all zero. NULL: out of memory. */
void *heap_refill(struct heap *h, unsigned sc, bool *zerop);

/* A slab of class `sc` out of fresh memory, in the heap's lists. NULL: out of memory. Bins may be flushed and empty slabs
   deleted, of any class. */
struct slab *heap_fresh_slab(struct heap *h, unsigned sc);

/* Gives back what has waited long enough, and posts the outbox, every few dozen milliseconds. False: it was too
   early. */
bool heap_look(struct heap *h);

/* On the way through a slow path: heap_look while anything waits. */
void heap_tick(struct heap *h);

/* heap_tick on a way so short that asking the clock would be half of it: when `pace` has run out, which is every 16th
   time if the calls follow fast. Returns `block`. */
void *heap_pace(struct heap *h, void *block);

/* Brings blocks of class `sc` that were in the bin, the newest first, to their slabs' own lists, or their owners. */
void heap_send_home(struct heap *h, unsigned sc, void **from, void **end);

/* Likewise `n` blocks on a list, all of one slab. */
void heap_send_list_home(struct heap *h, unsigned sc, uintptr_t link, unsigned n);

/* Takes up the slabs of which other threads freed blocks. */
void heap_drain_inbox(struct heap *h);

/* Sampling and guards count the blocks that come into a bin when it is refilled: others' must go home first. */
HAK_INLINE bool heap_goes_by_refills(const struct heap *h) {
	return h->sampling != NULL || hak_settings.guard_rate != 0;
}

/* Is this the tag of a slab of the heap's? */
HAK_INLINE bool heap_owns(const struct heap *h, uint32_t tag) {
	return (tag & ~TAG_CODE_MASK) == h->tag;
}

HAK_INLINE bool heap_has_messages(const struct heap *h) {
	/* Relaxed: a hint. */
	return atomic_load_explicit(&h->unread, memory_order_relaxed) != NULL || inbox_has_messages(&h->inbox);
}

/* Takes up blocks that other threads freed and sent in messages, until the bin of class `sc` has some; 0: all of them. */
void heap_read_messages(struct heap *h, unsigned sc);

/* The heap has no slabs any more, and takes messages no longer: what blocks are in those go to their slabs. */
void heap_close_messages(struct heap *h);

/* What its owner has taken out of the inbox and not taken up yet. Any thread. */
HAK_INLINE struct message *heap_take_unread(struct heap *h) {
	/* Acquire: the messages. */
	return atomic_exchange_explicit(&h->unread, NULL, memory_order_acquire);
}

/* Posts the blocks of a message that is OUT to their slabs, and releases it. Whoever has it to itself. */
void heap_scatter_message(struct message *m);

/* Likewise all of a list that came out of an inbox. */
void heap_scatter_messages(struct message *list);

/* Gives back the large blocks that are on their way to pockets, or, `old_only`, to those of threads that have not come
   by for a while. Any thread. */
void heap_relieve_pockets(bool old_only);

/* Deletes the spares of heaps without a thread since that time, or before. Any thread. */
void heap_relieve_idle(uint64_t before_ms);

/* Are there any? Relaxed: a hint, which is looked at now and then. */
extern HAK_HIDDEN _Atomic bool hak_idle_spares;
HAK_INLINE bool heap_has_idle_spares(void) {
	return HAK_UNLIKELY(atomic_load_explicit(&hak_idle_spares, memory_order_relaxed));
}

/* Brings every cached block home, to its slab or to its owner, and large ones to their SuperSlab; not those in
   quarantine. */
void heap_flush(struct heap *h);

/* Deletes all slabs whatever they hold. Locked heaps only. */
void heap_destroy_slabs(struct heap *h);

/* All heaps ever made, newest first; linked by `next`. */
struct heap *heap_registry(void);

/* Where that is kept: `bins` of a heap in it stays mapped while one holds the registry lock. */
const void *heap_registry_first(void);

/* The thread's heap, just acquired with `visible` bins: from here on it counts each operation, if there is
   memory for that. */
void heap_count_ops(struct heap *h, struct bin *visible);

/* In a fork child, at once: the heaps other than `mine` lost their threads, and have empty bins from here on. False: out
   of memory. */
bool heap_note_left(const struct heap *mine);

/* In a fork child, later: takes their slabs away from them, and brings home what was in the bins. Afterwards every slab
   has an owner or is in the pool. */
void heap_repair_after_fork(struct heap *mine);

/* In a fork child, for a locked heap whose lock was held: takes none of its lists for granted. */
void heap_forget_free(struct heap *h);

/* In a fork child whose fork was called by a handler that interrupted the thread inside a slow path: the
   heap is nobody's from here on, but the interrupted call can go on with it, and its bins. Its free blocks are
   lost. */
void heap_forsake(struct heap *h);

/* The thread whose cache a forsaken heap's bins are in ends. */
void heap_forget_bins(struct heap *h);

struct lock *heap_registry_lock(void);

/* Makes the threads that run on their fast paths come by the slow one at their next free. Takes the lock of
   the registry; does nothing if that is taken and `try`. */
void heap_call_threads(bool try);

/* From here on the thread's frees are quick, or go out of line and are counted, if `c` is not NULL. Where the bins in
   its cache are not the heap's, they always go out of line. */
HAK_INLINE void heap_count_frees(const struct heap *h, struct counted *c) {
	bool has_cache = h->bins == hak_tcache.bin;
	tcache_count_frees(has_cache ? c : NULL, has_cache ? h->tag : TAG_MATCHES_NONE);
	/* Seq_cst, as in heap_call_threads: who calls now either finds the quick tag to replace, or what it calls for is
	   seen by who asks from here on. */
	atomic_thread_fence(memory_order_seq_cst);
}

/* The thread has come, and for nothing: its frees are quick again. */
HAK_INLINE void heap_answer(const struct heap *h) {
	if (HAK_UNLIKELY(PAGEMAP_LOAD(&hak_tcache.tag) == TAG_MATCHES_NONE && hak_tcache.counted == NULL))
		heap_count_frees(h, NULL);
}

/* After fork with that lock held by a thread that is gone: makes the lists of idle heaps again. */
void heap_registry_reset(void);

#endif
