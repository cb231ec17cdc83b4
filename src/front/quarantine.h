/* SPDX-License-Identifier: MIT */
/*
 * Quarantine: what was freed waits before it can be handed out again, so that a write through a stale
 * pointer changes nothing that is in use and is found. From level 2 of HAKMEM_SECURE on.
 *
 * Small blocks, per heap, touched by its thread alone: a freed block takes a random place among the
 * RANDOM_BLOCKS last ones, and what was there goes to the end of a queue, whose first one leaves. They are
 * zero but for their canaries while they wait, which is checked when they leave. At most
 * QUARANTINE_BYTES in all.
 *
 * Large blocks, two queues for the process under a lock: the memory of most has gone back to the system,
 * their addresses are kept inaccessible, so any access is a fault (front/fault.h). For those of one or two
 * granules the system calls would cost several times what the program does with them: at level 2 they are
 * zeroed and looked at like small ones.
 */
#ifndef HAK_FRONT_QUARANTINE_H
#define HAK_FRONT_QUARANTINE_H

#include "front/heap.h"
#include "front/large.h"

enum {
	RANDOM_BLOCKS = 256,
	QUEUED_BLOCKS = 1024,
	RANDOM_SIZE_MOST = 1024,      /* larger ones go to the queue at once, which has half of all bytes at least */
	QUARANTINE_BYTES = 512 << 10,
	LARGE_BLOCKS = 64, /* of either queue */
	ZEROED_SIZE_MOST = 2 * GRANULE,
	ZEROED_BYTES = 1 << 20, /* resident, therefore few */
};
#define LARGE_BYTES (HAK_GIB / 4)       /* of address space */
#define LARGE_SIZE_MOST (LARGE_BYTES / 4) /* larger ones do not wait: they are too much to keep from the program */

struct held {
	uintptr_t block; /* 0: none */
	uint64_t freed;  /* os_cycles */
};

/* Blocks there are, by class; for statistics. */
struct quarantined {
	uint16_t blocks[SC_COUNT];
};

struct quarantine {
	struct quarantined quarantined; /* first */
	size_t bytes;
	uint32_t oldest, count; /* of the queue */
	struct held random[RANDOM_BLOCKS];
	struct held queue[QUEUED_BLOCKS];
};

/* An empty quarantine, or NULL: out of memory. */
struct quarantine *quarantine_new(void);

/* A freed, zeroed block of the slab. */
void quarantine_add(struct heap *h, const struct slab *s, uintptr_t block);

/* Lets everything go. `h` may have none. */
void quarantine_flush(struct heap *h);

/* In a fork child, for a heap whose thread was inside a slow path: forgets what is there. */
void quarantine_forget(struct heap *h);

/* The cycles since the block was freed, and by whose heap. False: it is in no quarantine. A guess, for
   reports. */
bool quarantine_find(uintptr_t block, const struct heap **heapp, uint64_t *cyclesp);

/* Will the block, when it is freed, wait accessible and zero? */
bool quarantine_zeroes(const struct large *l);

/* A large block that was freed, and wiped. */
void quarantine_add_large(struct large *l);
/* Lets all of them go. True if there was one. */
bool quarantine_flush_large(void);

struct lock *quarantine_lock(void);
/* After fork with that lock held by a thread that is gone: forgets the large blocks. */
void quarantine_reset(void);

#endif
