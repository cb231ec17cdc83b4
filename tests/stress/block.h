/* SPDX-License-Identifier: MIT */
/*
 * A block under test: how it is allocated, resized and freed at random, and what it must hold. All
 * the usable bytes are filled, not only those that were asked for. A fault ends the program with
 * exit status 1 after saying what was wrong with which block.
 */
#ifndef TESTS_STRESS_BLOCK_H
#define TESTS_STRESS_BLOCK_H

#include "random.h"

#include <stddef.h>

struct block {
	unsigned char *ptr; /* NULL: none */
	size_t size;        /* bytes filled, at least what was asked for */
};

enum block_spoiling {
	BLOCK_INTACT,
	BLOCK_OVERWRITTEN, /* one byte changed */
	BLOCK_SHARED,      /* the same memory for two */
	BLOCK_CLEARED,     /* its end given back to the system */
};

/* Named in every message. */
void block_set_seed(unsigned long long seed);

/* A block of random size and alignment, from any of the allocating functions; filled. Left empty
   when there is no memory. */
void block_allocate(struct block *block, struct random *random);

/* Reallocates to another size; checks what it held, then fills it anew. */
void block_resize(struct block *block, struct random *random);

/* Checks and frees a block, if there is one. */
void block_free(struct block *block);

/* Does to `block`, which has at least 64 bytes, what a faulty allocator would; `other` may be used
   for a second block. */
void block_spoil(struct block *block, struct block *other, enum block_spoiling how);

#endif
