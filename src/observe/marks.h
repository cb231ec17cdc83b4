/* SPDX-License-Identifier: MIT */
/*
 * Marks: which blocks of slabs are free, found by walking every list a free block can be on, into a bit per 16
 * bytes of every slab. They lie in memory of their own that is unmapped when done.
 *
 * What is found wrong on the way is said to whoever wants to hear it, and left out. No other thread may
 * allocate or free meanwhile.
 */
#ifndef HAK_OBSERVE_MARKS_H
#define HAK_OBSERVE_MARKS_H

#include "slab/slab.h"

typedef void marks_fault_fn(void *arg, const char *what, const void *where);

struct marks {
	uint64_t *bits;
	size_t slabs; /* descriptors there is room for; later ones are not looked at */
	marks_fault_fn *fault;
	void *arg;
};

/* `fault` may be NULL. False: out of memory. */
bool marks_make(struct marks *m, marks_fault_fn *fault, void *arg);
void marks_drop(struct marks *m);

/* Is the block at `addr` of the slab free? */
bool marks_is_free(const struct marks *m, const struct slab *s, uintptr_t addr);

/* Calls `visit` for every block of the slab that is not free, until it returns other than 0. */
int marks_each_live(const struct marks *m, const struct slab *s,
                    int (*visit)(void *arg, uintptr_t block, size_t size), void *arg);
size_t marks_count_live(const struct marks *m, const struct slab *s);

/* Calls `visit` for every slab there are marks for, until it returns other than 0. */
int marks_each_slab(const struct marks *m, int (*visit)(void *arg, struct slab *s), void *arg);

#endif
