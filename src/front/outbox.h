/* SPDX-License-Identifier: MIT */
/*
 * Outbox: blocks a thread freed that belong to other owners, collected so that one compare-and-swap posts many. The
 * heap's thread alone touches it; others look.
 *
 * Two ways of collecting:
 *   slots     by slab, where much of a slab comes in a row: its owner takes the list as it is
 *   messages  by owner, where blocks of many slabs come mixed, and those of each would come late, to lines that have
 *             left the cache (slab/message.h)
 * A block whose slot another slab has goes into a message; only many of them in a row take the slot.
 *
 * An owner that does not read is sent no more messages, or it would use up those for all others. That is so of the first
 * of those that share a place (OUTBOX_OWNERS): others there are not counted. A few of its blocks serve the thread that
 * freed them instead (front/alloc.c: keep), the others are posted alone.
 *
 * A slot or message is posted when it is full or taken; all of them before fresh memory is taken, once in a while on the
 * thread's slow paths (heap_look), on trim and thread exit. What a thread that has no slow path before it any more
 * keeps here is less than a batch of each of a few slabs, and less than a message to each of a few owners, and in its
 * bins what was said above; their slabs stay until it ends.
 */
#ifndef HAK_FRONT_OUTBOX_H
#define HAK_FRONT_OUTBOX_H

#include "slab/message.h"
#include "slab/remote.h"

enum {
	OUTBOX_SLOTS = 8,
	OUTBOX_BLOCKS = 32,      /* per slot */
	OUTBOX_BYTES = 8 * 1024, /* per slot */
	OUTBOX_OTHERS = 32,      /* so many in a row take the slot */
	OUTBOX_OWNERS = 8,
	OUTBOX_MESSAGES = 128,   /* made at most */
	OUTBOX_CHUNK = 16,       /* made at once */
	OUTBOX_TRIES = 4,        /* looked at for one that is FREE, before more are made */
	OUTBOX_UNREAD = 16,      /* sent to an owner who has not read the first of them */
};

struct outbox {
	struct outbox_slot {
		struct slab *slab; /* NULL: empty */
		struct batch batch;
		unsigned others;   /* blocks of other slabs in a row */
	} slot[OUTBOX_SLOTS];
	struct message *open[OUTBOX_OWNERS]; /* NULL: none */
	struct unread {
		struct message *first; /* NULL: none is known */
		unsigned count;        /* with those behind it */
	} unread[OUTBOX_OWNERS]; /* by the place of its owner in `open` */
	struct message *chunk[OUTBOX_MESSAGES / OUTBOX_CHUNK]; /* from the first on; NULL: not made */
	unsigned made; /* messages */
	unsigned next; /* to look at, of those */
	unsigned used; /* slots in use, and messages OPEN */
	uint64_t posts; /* batches posted; not counted without the option `stats` */
};

/* Where blocks of the slab are collected; another slab's batch may be there. */
HAK_INLINE struct outbox_slot *outbox_slot_of(struct outbox *o, const struct slab *s) {
	/* Descriptors lie 128 bytes apart. */
	return &o->slot[((uintptr_t)s >> 7) % OUTBOX_SLOTS];
}

/* Where the message to the owner with this tag is; another owner's may be there. */
HAK_INLINE struct message **outbox_open_to(struct outbox *o, uint32_t tag) {
	return &o->open[(tag >> TAG_OWNER_SHIFT) % OUTBOX_OWNERS];
}

/* Are that so many blocks of `size` bytes that they are posted? */
HAK_INLINE bool outbox_fills(size_t size, unsigned count) {
	return count >= OUTBOX_BLOCKS || count * size >= OUTBOX_BYTES;
}

/* Adds a block to the batch, which is of its slab. */
HAK_INLINE void outbox_push(struct outbox_slot *slot, uintptr_t block) {
	block_set_link(block, link_encode(slot->batch.first));
	slot->batch.first = block;
	slot->batch.count++;
	slot->others = 0;
}

/* Adds a block of the slab, which is plain and has the tag, where that takes nothing but a place: no slot, no message, no
   post. False: nothing has been done. */
HAK_INLINE bool outbox_put(struct outbox *o, const struct slab *s, uint32_t tag, uintptr_t block) {
	struct outbox_slot *slot = outbox_slot_of(o, s);
	unsigned sc = tag_class(tag);
	uint32_t size = hak_size_classes[sc].size;
	if (slot->slab == s) {
		if (outbox_fills(size, slot->batch.count + 1))
			return false;
		outbox_push(slot, block);
		return true;
	}
	struct message *m = *outbox_open_to(o, tag);
	if (slot->slab == NULL || slot->others + 1 >= OUTBOX_OTHERS || m == NULL || m->owner != (tag & ~TAG_CODE_MASK))
		return false;
	if (message_fills(m, size))
		return false;
	message_add(m, block, sc, size);
	slot->others++;
	return true;
}

/* Adds any block of the slab, whose owner is not a locked heap. False: nothing has been done, there is no message to be
   had for it. */
bool outbox_add(struct outbox *o, struct slab *s, uintptr_t block);

void outbox_flush(struct outbox *o);

/* In a fork child, of a thread that is gone and may have been amid any of this: what was collected is lost, what was
   posted is not. */
void outbox_forget(struct outbox *o);

/* In a fork child, once no inbox has any: messages that a thread that is gone had in hand are FREE again, and what blocks
   it had not taken out are lost. */
void outbox_recall(struct outbox *o);

/* Message number `i`, in the order in which they were made; NULL: there are not so many. Any thread. */
HAK_INLINE struct message *outbox_message(const struct outbox *o, unsigned i) {
	/* Acquire: the memory is zero, or what its sender wrote there. */
	struct message *chunk = i < OUTBOX_MESSAGES ?
		__atomic_load_n(&o->chunk[i / OUTBOX_CHUNK], __ATOMIC_ACQUIRE) : NULL;
	return chunk != NULL ? &chunk[i % OUTBOX_CHUNK] : NULL;
}

#endif
