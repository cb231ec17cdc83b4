/* SPDX-License-Identifier: MIT */
#include "front/outbox.h"

#include "build_options.h"

static void post(struct outbox *o, struct outbox_slot *slot) {
	struct slab *s = slot->slab;
	struct batch b = slot->batch;
	slot->slab = NULL;
	o->used--;
	o->posts += HAK_STATS;
	remote_post(s, &b);
}

static bool is_full(const struct outbox_slot *slot) {
	return slot->batch.count >= OUTBOX_BLOCKS ||
		slot->batch.count * (size_t)slot->slab->block_size >= OUTBOX_BYTES; /* a mosaic's first class will do */
}

void outbox_add(struct outbox *o, struct slab *s, uintptr_t block) {
	/* Descriptors lie 128 bytes apart. */
	struct outbox_slot *slot = &o->slot[((uintptr_t)s >> 7) % OUTBOX_SLOTS];
	if (slot->slab != s && slot->slab != NULL)
		post(o, slot);
	if (slot->slab == NULL) {
		block_set_link(block, slab_end(s));
		slot->batch = (struct batch){ .first = block, .last = block, .count = 1 };
		slot->slab = s;
		o->used++;
	} else {
		block_set_link(block, link_encode(slot->batch.first));
		slot->batch.first = block;
		slot->batch.count++;
	}
	if (is_full(slot))
		post(o, slot);
}

void outbox_flush(struct outbox *o) {
	for (unsigned i = 0; i < OUTBOX_SLOTS && o->used > 0; i++)
		if (o->slot[i].slab != NULL)
			post(o, &o->slot[i]);
}
