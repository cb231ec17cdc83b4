/* SPDX-License-Identifier: MIT */
#include "slab/message.h"

#include "base/probe.h"

void message_open(struct message *m, struct inbox *to, uint32_t owner) {
	m->to = to;
	m->owner = owner;
	m->bytes = m->count = 0;
	/* Relaxed, here and below: the sender's own, but for those who count blocks. */
	atomic_store_explicit(&m->state, MESSAGE_OPEN, memory_order_relaxed);
}

/* False: the inbox is closed. */
static bool push(struct inbox *in, struct message *m) {
	struct message *top = atomic_load_explicit(&in->messages, memory_order_relaxed);
	do {
		if (top == MESSAGES_CLOSED)
			return false;
		atomic_store_explicit(&m->next, top, memory_order_relaxed);
		/* Release: the message, and what the program wrote before it freed the blocks. No ABA: messages leave only
		   all at once. */
	} while (!atomic_compare_exchange_weak_explicit(&in->messages, &top, m, memory_order_release,
	                                                memory_order_relaxed));
	return true;
}

bool message_post(struct message *m) {
	HAK_PROBE2(remote_post, message_block(m->block[0]) & ~(GRANULE - 1), m->count);
	atomic_store_explicit(&m->state, MESSAGE_OUT, memory_order_relaxed);
	return push(m->to, m);
}

HAK_EVERYDAY void message_release(struct message *m) {
	/* Release: we have read it. */
	atomic_store_explicit(&m->state, MESSAGE_FREE, memory_order_release);
}

struct message *inbox_take_messages(struct inbox *in, bool close) {
	/* Acquire: the messages. */
	return atomic_exchange_explicit(&in->messages, close ? MESSAGES_CLOSED : NULL, memory_order_acquire);
}
