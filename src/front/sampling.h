/* SPDX-License-Identifier: MIT */
/*
 * Sampling: which allocations the heap profiler looks at. What it does with them is observe/sample.c.
 *
 * Points lie on the stretch of all bytes a thread asks for, a mean distance apart and independent of each
 * other (a Poisson process). An allocation is sampled if at least one lies in its bytes, so with probability
 * 1 - exp(-size / mean) whatever came before. The fast path of malloc cannot count bytes. But such a process
 * splits by class, and within a class bytes are blocks: the K-th allocation from now on has the next point,
 * K geometric. Where the point lies in the block tells whether it is in the part that was asked for.
 *
 * That K-th allocation takes the slow path by data. An allocation takes a block out of the bin, a free puts
 * one in, and
 *
 *   left = allocations before the sampled one - blocks in the bin
 *
 * changes by frees alone. So the thread's tag is TAG_MATCHES_NONE meanwhile: frees go out of line
 * (tcache_free_counted), where each lowers `left`; malloc runs as ever. A free that finds it 0 puts its block
 * aside, in the spare, and then the bin runs empty when the allocation is due.
 *
 * A thread follows the process's switch on its slow paths. `struct sampling` is its heap's, and touched as
 * the heap is.
 */
#ifndef HAK_FRONT_SAMPLING_H
#define HAK_FRONT_SAMPLING_H

#include <stdatomic.h>

#include "front/heap.h"

struct sampling {
	struct counted frees;     /* `left`: see above */
	uint32_t point[SC_COUNT]; /* bytes of the sampled block up to the point, 1 .. block size */
	int64_t large_left;       /* bytes of blocks without a bin before the next point */
	uint64_t random;
	size_t mean;              /* bytes between points */
	bool is_sampling;         /* amid a sample: what the thread allocates now is none */
};

/* The process's switch. */
struct sampling_switch {
	_Atomic size_t mean;         /* 0: off */
	_Atomic uint32_t generation; /* rises with every change; starts at 0, which is off */
};
extern HAK_HIDDEN struct sampling_switch hak_sampling;

/* Turns the switch; 0: off. Thread-safe, async-signal-safe. */
void sampling_set(size_t mean);

/* The heap's thread does as the switch says. */
void sampling_follow(struct heap *h);

HAK_INLINE void sampling_look(struct heap *h) {
	/* Acquire: the mean. */
	if (HAK_UNLIKELY(h->sampling_seen != atomic_load_explicit(&hak_sampling.generation, memory_order_acquire)))
		sampling_follow(h);
}

/* An allocation of `size` bytes that came to the slow path, in class `sc` (0: a large block): is it to be
   sampled? Asked once for each, while sampling. */
bool sampling_is_due(struct heap *h, unsigned sc, size_t size);

/* A free on the slow path. True: the block was put aside. */
bool sampling_put(struct heap *h, unsigned sc, uintptr_t block);

/* The bin is about to be emptied other than by allocations; has been filled other than by frees. */
void sampling_bin_emptied(struct heap *h, unsigned sc);
void sampling_bin_filled(struct heap *h, unsigned sc);

/* -ln of a number that is uniform in (0, 1): the distance to the next point, in means. `state` is the
   generator's. */
double sampling_distance(uint64_t *state);

#endif
