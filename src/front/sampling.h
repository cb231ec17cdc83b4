/* SPDX-License-Identifier: MIT */
/*
 * Sampling: which allocations the heap profiler looks at. What it does with them is observe/sample.c.
 *
 * Points lie on the stretch of all bytes a thread asks for, a mean distance apart and independent of each
 * other (a Poisson process). An allocation is sampled if at least one lies in its bytes, so with probability
 * 1 - exp(-size / mean) whatever came before. The fast paths of malloc and free cannot count bytes, nor
 * allocations: a pair leaves the bin as it was. But what is allocated comes out of bins, and what comes into
 * a bin from the slabs comes on the slow path. So it is the blocks that are drawn: of those that enter a bin
 * each is *marked* with the probability of a point in its size, and whatever allocation takes a marked one is
 * sampled, if the point lies in the part that it asked for.
 *
 *   left   blocks that enter the bin before the next marked one: geometric, so it need not be drawn anew
 *   bin    [ not marked ... | marked | not drawn ... ], where the block below the marked one is hidden (front/bins.h),
 *          so that the allocation that comes to it takes the slow path
 *
 * A mark stays with its block. The program is given one of the profiler's heap in its place, which comes to
 * the slow path when it is freed. Then the mark lies on top of the bin, where the block would, and the others
 * in the bin are drawn again. What the thread freed and allocates again on the fast paths is not marked, and
 * remains so.
 *
 * Why that is right: at any time every block, used or free, is marked with the same probability, independent
 * of the others and of all that the program does. That holds as long as a block is drawn again whether it is
 * marked or not: when it leaves the bin, or when another block's mark comes back.
 *
 * So an estimate of what *lives* is as good as that from allocations each sampled by itself: blocks that
 * live are different blocks. The estimate of what was allocated *in all* has the right expectation, too, but
 * allocations that used one block are sampled together: n rounds through a bin of k blocks tell as much as k
 * allocations. That is the price of fast paths that do nothing. Who needs better (sample_totals) has each free
 * of a block counted as entering the bin, out of line (struct counted), and every
 * allocation is sampled by itself. A thread that had slabs before sampling began does so for a while, until
 * most of its blocks of before, none of which is marked, have been drawn.
 *
 * A loop that allocates and frees a marked block is slow. So from MARK_USES uses on a mark is given up with
 * probability 1/2 whenever its uses have doubled, and counts for twice as much if it is not.
 *
 * A thread follows the process's switch on its slow paths. `struct sampling` is its heap's, and touched as
 * the heap is.
 */
#ifndef HAK_FRONT_SAMPLING_H
#define HAK_FRONT_SAMPLING_H

#include <stdatomic.h>

#include "front/heap.h"

struct mark {
	void *below;     /* while it is in a bin: the block under it there; NULL: none */
	uint32_t point;  /* bytes of the block up to the point, 1 .. block size; 0: not marked */
	uint32_t uses;
	uint32_t weight; /* the marks that it stands for */
};

struct sampling {
	struct counted frees;        /* `left`: see above */
	uint32_t point[SC_COUNT];    /* of the next marked block */
	struct mark above[SC_COUNT]; /* in the bin, above the block that is hidden */
	bool counts_frees;           /* as entering the bin */
	uint64_t marks_to_count;     /* until it no longer does */
	int64_t large_left;          /* bytes of blocks without a bin before the next point */
	uint64_t random;
	size_t mean;                 /* bytes between points */
	bool is_sampling;            /* amid a sample: what the thread allocates now is none */
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

HAK_INLINE bool sampling_is_due(const struct heap *h) {
	/* Acquire: the mean. */
	return HAK_UNLIKELY(h->sampling_seen != atomic_load_explicit(&hak_sampling.generation, memory_order_acquire));
}
/* Again, if the switch was turned meanwhile: the thread's frees may have been made quick after that. watch_look has to
   follow. */
HAK_INLINE void sampling_look(struct heap *h) {
	while (sampling_is_due(h))
		sampling_follow(h);
}

/* An allocation of `size` bytes has come to the slow path, in class `sc` (0: a large block). Asked once for
   each, while sampling. */
enum sampling_what {
	SAMPLING_NOT,
	SAMPLING_BLOCK, /* it is sampled */
	SAMPLING_MARK,  /* it is not, but took the mark, which is to come back when it is freed */
};
enum sampling_what sampling_next(struct heap *h, unsigned sc, size_t size, struct mark *markp);

/* The thread of `h` has freed the block that was given in the marked one's place. */
void sampling_return(struct heap *h, unsigned sc, struct mark m);

/* A free on the slow path has put a block in the bin. */
void sampling_freed(struct heap *h, unsigned sc);

/* Blocks are about to leave the bin other than by allocations; the bin has been filled other than by frees. */
void sampling_uncover(struct heap *h, unsigned sc);
HAK_INLINE void sampling_bin_emptied(struct heap *h, unsigned sc) {
	if (HAK_UNLIKELY(h->sampling != NULL))
		sampling_uncover(h, sc);
}
void sampling_bin_filled(struct heap *h, unsigned sc);

/* -ln of a number that is uniform in (0, 1): the distance to the next point, in means. `state` is the
   generator's. */
double sampling_distance(uint64_t *state);

/* 1 - exp(-x), x >= 0: the probability that a block of `x` means is sampled. */
double sampling_chance(double x);

#endif
