/* SPDX-License-Identifier: MIT */
/*
 * Messages: blocks of many slabs of one owner, on their way to it from another thread, which freed them. One exchange
 * for all, where the remote lists of their slabs (slab/remote.h) take one each. Modelled in tests/model/message.pml:
 * change the model first.
 *
 * A message is memory of its sender's heap, and never unmapped:
 *
 *   FREE   the sender's, empty
 *   OPEN   the sender's, which collects blocks in it
 *   OUT    in the owner's inbox, or with whoever took it out of there and is to release it, which makes it FREE
 *
 * Who takes up a message finds out about each block anew: its slab may have changed hands meanwhile. But it cannot be
 * gone, since the block counts as used. The block begins with the mark, as in a bin; nobody touches it on its way.
 *
 * A closed inbox takes no messages, and then the sender posts each block to its slab. A heap disowns its slabs before it
 * closes its inbox, and posts what is in there then.
 */
#ifndef HAK_SLAB_MESSAGE_H
#define HAK_SLAB_MESSAGE_H

#include "slab/remote.h"

enum {
	MESSAGE_BLOCKS = 28,
	MESSAGE_BYTES = 32 * 1024,  /* of blocks, and more only by the last of them */
	MESSAGE_CLASS_SHIFT = 48,
};

enum message_state { MESSAGE_FREE, MESSAGE_OPEN, MESSAGE_OUT };

struct message {
	_Atomic(struct message *) next; /* OUT: whoever holds it */
	struct inbox *to;         /* constant while OPEN or OUT, as is */
	uint32_t owner;           /* its tag */
	uint32_t bytes;           /* of blocks */
	uint16_t count;
	_Atomic uint8_t state;    /* enum message_state */
	uint64_t block[MESSAGE_BLOCKS]; /* address | class << MESSAGE_CLASS_SHIFT */
};
static_assert(sizeof(struct message) == 256, "whole cache lines");

HAK_INLINE uintptr_t message_block(uint64_t entry) {
	return (uintptr_t)(entry & (((uint64_t)1 << MESSAGE_CLASS_SHIFT) - 1));
}
HAK_INLINE unsigned message_class(uint64_t entry) {
	return (unsigned)(entry >> MESSAGE_CLASS_SHIFT);
}

/* Is one more block of `size` bytes the last that goes in? */
HAK_INLINE bool message_fills(const struct message *m, uint32_t size) {
	return m->count + 1u >= MESSAGE_BLOCKS || m->bytes + size >= MESSAGE_BYTES;
}

/* The next of a list that we have; of another it may be anything. */
HAK_INLINE struct message *message_next(const struct message *m) {
	/* Relaxed: who has the list has acquired it. */
	return atomic_load_explicit(&m->next, memory_order_relaxed);
}

/* Puts a block of class `sc`, which has that size, in an OPEN message. Its sender. */
HAK_INLINE void message_add(struct message *m, uintptr_t block, unsigned sc, uint32_t size) {
	block_set_link(block, hak_secret.mark);
	m->block[m->count] = block | (uint64_t)sc << MESSAGE_CLASS_SHIFT;
	m->bytes += size;
	m->count++;
}

/* Is the block in it? Any thread; a guess while others change it. */
HAK_INLINE bool message_has(const struct message *m, uintptr_t block) {
	for (unsigned i = 0; i < m->count && i < MESSAGE_BLOCKS; i++)
		if (message_block(m->block[i]) == block)
			return true;
	return false;
}

/* May the sender take it? */
HAK_INLINE bool message_is_free(const struct message *m) {
	/* Acquire: who had it is done with reading. */
	return atomic_load_explicit(&m->state, memory_order_acquire) == MESSAGE_FREE;
}

/* Opens a FREE message to the heap whose inbox and tag these are. Its sender. */
void message_open(struct message *m, struct inbox *to, uint32_t owner);

/* Sends an OPEN message. False: the inbox is closed, and the caller has it to take up. Its sender. */
bool message_post(struct message *m);

/* Whoever has it has taken up the blocks. */
void message_release(struct message *m);

HAK_INLINE bool inbox_has_messages(const struct inbox *in) {
	/* Relaxed: a hint. */
	return (uintptr_t)atomic_load_explicit(&in->messages, memory_order_relaxed) > (uintptr_t)MESSAGES_CLOSED;
}

/* The messages in the inbox as a list, leaving none, or closed to them. Owner. */
struct message *inbox_take_messages(struct inbox *in, bool close);

#endif
