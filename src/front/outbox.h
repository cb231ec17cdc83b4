/* SPDX-License-Identifier: MIT */
/*
 * Outbox: blocks a thread freed that belong to other owners, collected per slab so that one
 * compare-and-swap posts many. The heap's thread alone touches it.
 *
 * That pays for slabs much of whose blocks come in a row. Where those of many slabs come mixed, each post
 * would come late, to lines that have left the cache: a block whose slot another slab has is posted alone,
 * and only many of them in a row take the slot.
 *
 * A slot is posted when it is full or taken; all of them before fresh memory is taken, once in a while on the
 * thread's slow paths (heap_look), on trim and thread exit. What a thread that has no slow path before it any more
 * keeps here is less than a batch of each of a few slabs, which stay until it ends.
 */
#ifndef HAK_FRONT_OUTBOX_H
#define HAK_FRONT_OUTBOX_H

#include "slab/remote.h"

enum {
	OUTBOX_SLOTS = 8,
	OUTBOX_BLOCKS = 32,      /* per slot */
	OUTBOX_BYTES = 8 * 1024, /* per slot */
	OUTBOX_OTHERS = 32,      /* so many in a row take the slot */
};

struct outbox {
	struct outbox_slot {
		struct slab *slab; /* NULL: empty */
		struct batch batch;
		unsigned others;   /* blocks of other slabs in a row */
	} slot[OUTBOX_SLOTS];
	unsigned used; /* slots in use */
	uint64_t posts; /* batches posted; not counted without the option `stats` */
};

/* Where blocks of the slab are collected; another slab's batch may be there. */
HAK_INLINE struct outbox_slot *outbox_slot_of(struct outbox *o, const struct slab *s) {
	/* Descriptors lie 128 bytes apart. */
	return &o->slot[((uintptr_t)s >> 7) % OUTBOX_SLOTS];
}

/* Is that so many blocks of the slab that they are posted? */
HAK_INLINE bool outbox_fills(const struct slab *s, unsigned count) {
	/* Of a mosaic the first class will do. */
	return count >= OUTBOX_BLOCKS || count * (size_t)s->block_size >= OUTBOX_BYTES;
}

/* Adds a block to the batch, which is of its slab. */
HAK_INLINE void outbox_push(struct outbox_slot *slot, uintptr_t block) {
	block_set_link(block, link_encode(slot->batch.first));
	slot->batch.first = block;
	slot->batch.count++;
	slot->others = 0;
}

void outbox_add(struct outbox *o, struct slab *s, uintptr_t block);
void outbox_flush(struct outbox *o);

#endif
