/* SPDX-License-Identifier: MIT */
/*
 * Locked heap: a heap that any thread may use, one at a time. First-class heaps are locked heaps, and
 * one of them serves threads that have been torn down (abi/lifecycle.c).
 *
 * Its blocks are always freed as remote ones: no thread's tag matches. Posts to it skip the outbox,
 * so that nothing of it lingers elsewhere when it is destroyed.
 */
#ifndef HAK_FRONT_LOCKED_HEAP_H
#define HAK_FRONT_LOCKED_HEAP_H

#include "base/list.h"
#include "front/heap.h"
#include "os/lock.h"

struct large;

struct locked_heap {
	struct lock lock;        /* guards `heap`, what is in it, and `larges` */
	struct heap *heap;
	struct list larges;      /* its large blocks */
	size_t sampled;          /* of its blocks, by observe/sample.c, under the lock there */
	struct list_node unused; /* descriptor without a heap */
	struct locked_heap *next; /* all ever made; constant */
	struct bin bins[SC_COUNT];
};

struct locked_heap *locked_heap_new(void);

/* As alloc_block. Takes the lock. */
void *locked_heap_alloc(struct locked_heap *lh, size_t size, size_t align, bool zero);

/* Unlinks a large block that is about to be freed. Takes the lock. */
void locked_heap_forget(struct locked_heap *lh, struct large *l);

/* What they have cached and what others freed of theirs comes home, and empty slabs go; but for those in use this moment,
   one of which may be the caller's. */
void locked_heap_flush_all(void);

/* Likewise only what others freed, of heaps to which all of a slab has come home. */
void locked_heap_drain(void);

/* Is any of their locks held? */
bool locked_heap_holds_locks(void);

/* In a fork child: sets locks right that threads that are gone held. */
void locked_heap_repair_after_fork(void);

/* Frees all blocks and the heap. */
void locked_heap_destroy(struct locked_heap *lh);

#endif
