/* SPDX-License-Identifier: MIT */
#include "slab/emptied.h"

struct slab *inbox_take_others(struct inbox *in) {
	inbox_forget_whole(in);
	struct slab *top = atomic_load_explicit(&in->top, memory_order_relaxed);
	/* Acquire: the pushers' inbox_next. */
	while (top != NULL && top != INBOX_CLOSED &&
	       !atomic_compare_exchange_weak_explicit(&in->top, &top, NULL, memory_order_acquire, memory_order_relaxed))
		continue;
	return top != INBOX_CLOSED ? top : NULL;
}

struct message *inbox_take_others_messages(struct inbox *in) {
	struct message *top = atomic_load_explicit(&in->messages, memory_order_relaxed);
	/* Acquire: the messages. */
	while (top != NULL && top != MESSAGES_CLOSED &&
	       !atomic_compare_exchange_weak_explicit(&in->messages, &top, NULL, memory_order_acquire,
	                                              memory_order_relaxed))
		continue;
	return top != MESSAGES_CLOSED ? top : NULL;
}

/* Have all blocks come home to the list that `word` has, while it has an owner? */
static bool is_whole(const struct slab *s, uint64_t word) {
	if ((word & REMOTE_DISOWNED) != 0)
		return false;
	/* Not the slab's own capacity, which changes before it is known to be a mosaic. Only a slab that has few blocks out is
	   made one: if so many have come, some were cut from a mosaic, and it is seen to be one. */
	return remote_first(word) != 0 && remote_count(word) == hak_size_classes[s->sc].capacity && slab_mosaic(s) == NULL;
}

bool emptied_could_be(const struct slab *s) {
	return is_whole(s, atomic_load_explicit(&s->remote, memory_order_acquire));
}

bool emptied_make(struct slab *s) {
	unsigned all = hak_size_classes[s->sc].capacity;
	/* Acquire: what makes it one or a mosaic, and the posters are done with the blocks. */
	uint64_t old = atomic_load_explicit(&s->remote, memory_order_acquire);
	if (!is_whole(s, old))
		return false;
	/* No block is out that could be posted, but the owner, if it is awake, may take the list, or end. */
	return atomic_compare_exchange_strong_explicit(&s->remote, &old, remote_pack(0, all, REMOTE_QUEUED | REMOTE_EMPTIED),
	                                               memory_order_acquire, memory_order_relaxed);
}

void emptied_forget(struct slab *s) {
	/* Release: the owner goes first. A fork child that found it and not EMPTIED would take the granule, which may be
	   another's, for the slab's. */
	atomic_store_explicit(&s->owner, NULL, memory_order_relaxed);
	atomic_store_explicit(&s->remote, 0, memory_order_release);
	slab_forget(s);
}
