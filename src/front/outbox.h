/* SPDX-License-Identifier: MIT */
/*
 * Outbox: blocks a thread freed that belong to other owners, collected per slab so that one
 * compare-and-swap posts many. The heap's thread alone touches it.
 *
 * Nothing waits here for ever: a slot is posted when it is full or another slab needs it, all of
 * them on refill, trim and thread exit.
 */
#ifndef HAK_FRONT_OUTBOX_H
#define HAK_FRONT_OUTBOX_H

#include "slab/remote.h"

enum {
	OUTBOX_SLOTS = 8,
	OUTBOX_BLOCKS = 32,     /* per slot */
	OUTBOX_BYTES = 8 * 1024, /* per slot */
};

struct outbox {
	struct outbox_slot {
		struct slab *slab; /* NULL: empty */
		struct batch batch;
	} slot[OUTBOX_SLOTS];
	unsigned used; /* slots in use */
	uint64_t posts; /* batches posted; not counted without the option `stats` */
};

void outbox_add(struct outbox *o, struct slab *s, uintptr_t block);
void outbox_flush(struct outbox *o);

#endif
