/* SPDX-License-Identifier: MIT */
#include "front/outbox.h"

#include "build_options.h"

static void post(struct outbox *o, struct slab *s, const struct batch *b) {
	o->posts += HAK_STATS;
	remote_post(s, b);
}

static void post_slot(struct outbox *o, struct outbox_slot *slot) {
	struct slab *s = slot->slab;
	struct batch b = slot->batch;
	slot->slab = NULL;
	o->used--;
	post(o, s, &b);
}

void outbox_add(struct outbox *o, struct slab *s, uintptr_t block) {
	struct outbox_slot *slot = outbox_slot_of(o, s);
	struct batch one = { .first = block, .last = block, .count = 1 };
	if (slot->slab == s) {
		outbox_push(slot, block);
		if (outbox_fills(s, slot->batch.count))
			post_slot(o, slot);
		return;
	}
	if (outbox_fills(s, 1) || (slot->slab != NULL && ++slot->others < OUTBOX_OTHERS)) {
		post(o, s, &one);
		return;
	}
	if (slot->slab != NULL)
		post_slot(o, slot);
	block_set_link(block, slab_end(s));
	*slot = (struct outbox_slot){ .slab = s, .batch = one };
	o->used++;
}

HAK_EVERYDAY void outbox_flush(struct outbox *o) {
	for (unsigned i = 0; i < OUTBOX_SLOTS && o->used > 0; i++)
		if (o->slot[i].slab != NULL)
			post_slot(o, &o->slot[i]);
}
