/* SPDX-License-Identifier: MIT */
/*
 * The heap profiler: where the blocks came from that live, and all that ever did, estimated from a sample
 * (front/sampling.h says which blocks are in it).
 *
 *   site    a stack, and the estimates of what came from there; kept for good
 *   block   a sampled block that lives, by its address
 *
 * A block of `size` bytes that is sampled with probability p stands for 1 / p blocks and size / p bytes: whatever
 * sizes come together in a site, the expectation of its sums is what the program did.
 *
 * There are at most SITES_STEP * 6 + 1 sites. Once SITES_STEP have been made, a stack that is new counts by its
 * innermost STACK_MOST / 2 frames, after as many more by half of that, and so on; in the end what is new counts in
 * the site of no frames. So a program of very many stacks has whole ones in its profile, and short ones, and every
 * sample.
 *
 * A sampled small block is one of the profiler's own locked heap, so whoever frees it, and whenever, does so
 * out of line. Sites are only ever added: whoever reads them needs no lock, and may do so in a signal
 * handler.
 */
#ifndef HAK_OBSERVE_SAMPLE_H
#define HAK_OBSERVE_SAMPLE_H

#include <stdatomic.h>

#include "front/heap.h"

#define SAMPLE_MEAN ((size_t)512 << 10) /* where none is given */

struct locked_heap;

enum { SITES_STEP = 8192 };

struct estimate {
	double blocks, bytes;
};

/* The numbers are written under the lock and read by anybody. */
struct site {
	struct site *next;       /* made before it; constant */
	struct site *next_alike; /* under the lock */
	size_t samples;          /* that live, weighted */
	struct estimate live;    /* 0 if there are none */
	struct estimate total;
	unsigned depth;
	uintptr_t frame[];
};

/* All sites, the newest first. */
const struct site *sample_sites(void);

/* Bytes between samples in the mean, of the profile there is; 0: there is none. */
size_t sample_mean(void);
bool sample_is_on(void);

/* Gets ready for sample_on. Where a library may be loaded. `caller`: the return address of our caller if that
   allocates, else NULL. False: no memory. */
bool sample_prepare(const void *caller);
bool sample_is_prepared(void);

/* Forgets the profile there is. False: no memory, sampling already, or nothing is sampled, since the heap is hardened.
   As sample_prepare. */
bool sample_start(size_t mean, const void *caller);
void sample_stop(void);

/* Goes on; off, unless sample_start began it. After sample_prepare. Async-signal-safe. */
void sample_on(void);
void sample_off(void);

/* alloc_block for a thread that is sampling. `caller`: the return address of our caller. */
void *sample_alloc(struct heap *h, size_t size, size_t align, bool zero, const void *caller);

/* A block of a first-class heap that has just been made, by the thread of `h`, which is sampling. NULL `of`: another
   that takes no mark. */
void sample_heap_block(struct heap *h, struct locked_heap *of, void *ptr, size_t size, const void *caller);

/* NULL: nothing was ever sampled. */
extern HAK_HIDDEN struct sample_blocks *hak_sample_blocks;
HAK_INLINE bool sample_has_blocks(void) {
	return __atomic_load_n(&hak_sample_blocks, __ATOMIC_RELAXED) != NULL;
}

/* Any block of the program is about to be freed. With sample_has_blocks only. `h`: NULL or the thread's. False: it
   must live on, since it may be sampled, and the caller, a signal handler, would wait for long: `may_wait` is false,
   or it has interrupted a call here. */
bool sample_freed(struct heap *h, const void *ptr, bool may_wait);

/* The heap is about to be destroyed. */
void sample_heap_destroyed(struct locked_heap *of);

/* Around fork. */
bool sample_holds_locks(void);
void sample_after_fork(void);

/* Whoever writes the profile that the setting asks for has it. */
struct lock *sample_file_lock(void);

#endif
