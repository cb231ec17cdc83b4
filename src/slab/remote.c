/* SPDX-License-Identifier: MIT */
#include "slab/remote.h"

#include "base/probe.h"
#include "slab/pool.h"
#include "space/purge.h"

_Atomic uint32_t hak_whole_wait;

void inboxes_count_whole(uint32_t more) {
	/* Release: who has made it 0 since, or does so next, sees what the inbox counts. */
	atomic_fetch_add_explicit(&hak_whole_wait, more, memory_order_release);
	/* Before this looks whether the purge thread sleeps, as that looks here once it is about to. Each time: with the first
	   there may have been too little in use to poke it. */
	atomic_thread_fence(memory_order_seq_cst);
	purge_poke();
}

HAK_EVERYDAY_SMALL void inbox_open(struct inbox *in) {
	/* Relaxed: nothing is published by opening, and nobody pushes while it is closed. */
	if (atomic_load_explicit(&in->top, memory_order_relaxed) == INBOX_CLOSED)
		atomic_store_explicit(&in->top, NULL, memory_order_relaxed);
	if (atomic_load_explicit(&in->messages, memory_order_relaxed) == MESSAGES_CLOSED)
		atomic_store_explicit(&in->messages, NULL, memory_order_relaxed);
}

/* The slab may be another one by now, of somebody else: then that counts one too many. Neither descriptors nor inboxes are
   ever unmapped. */
HAK_COLD static bool note_whole(const struct slab *s) {
	/* Relaxed, all of this: a hint. */
	struct inbox *in = atomic_load_explicit(&s->owner, memory_order_relaxed);
	if (in == NULL)
		return false;
	inbox_count_whole(in, 1);
	return true;
}

struct slab *inbox_take(struct inbox *in, bool close) {
	inbox_forget_whole(in);
	/* Acquire: the pushers' inbox_next. Release when closing: a router that finds it closed sees
	   that the slabs were disowned. */
	return atomic_exchange_explicit(&in->top, close ? INBOX_CLOSED : NULL, memory_order_acq_rel);
}

/* False: the inbox is closed. */
static bool inbox_push(struct inbox *in, struct slab *s) {
	/* Acquire, here and below: finding it closed pairs with the release in inbox_take(close). */
	struct slab *top = atomic_load_explicit(&in->top, memory_order_acquire);
	do {
		if (top == INBOX_CLOSED)
			return false;
		s->inbox_next = top;
		/* Release: inbox_next. No ABA: entries leave only all at once. */
	} while (!atomic_compare_exchange_weak_explicit(&in->top, &top, s, memory_order_acq_rel,
	                                                memory_order_acquire));
	return true;
}

void remote_route(struct slab *s) {
	for (;;) {
		/* Acquire: pairs with the stores in remote_disown and pool_adopt. */
		struct inbox *owner = atomic_load_explicit(&s->owner, memory_order_acquire);
		if (owner == NULL) {
			pool_publish(s);
			return;
		}
		if (inbox_push(owner, s))
			return;
	}
}

bool remote_post_list(struct slab *s, uintptr_t first, uintptr_t last, unsigned count) {
	HAK_PROBE2(remote_post, s->base, count);
	/* The class's: the slab's own changes when it is opened to others. With canaries there are never so many. */
	unsigned all = hak_size_classes[s->sc].capacity;
	/* Relaxed: the exchange below settles it. */
	uint64_t old = atomic_load_explicit(&s->remote, memory_order_relaxed), new;
	do {
		uintptr_t next = remote_first(old);
		unsigned n = remote_count(old);
		block_set_link(last, next != 0 ? link_encode(next) : slab_end(s));
		n = remote_is_published(old) ? n - count : n + count;
		new = remote_pack(first, n, (old & (REMOTE_PUBLISHED | REMOTE_DISOWNED)) | REMOTE_QUEUED);
		/* Release: the links and whatever the program wrote before it freed the blocks. Acquire:
		   whoever brings the last block deletes the slab after all others are done with it. */
	} while (!atomic_compare_exchange_weak_explicit(&s->remote, &old, new, memory_order_acq_rel,
	                                                memory_order_relaxed));
	if (remote_is_published(old)) {
		if (remote_count(new) == 0)
			pool_reap(s);
		return false;
	}
	if (!remote_is_queued(old)) {
		remote_route(s);
		/* Others may have brought the rest before it lay there, and counted it too early. Relaxed: a hint. */
		new = atomic_load_explicit(&s->remote, memory_order_relaxed);
	}
	return HAK_UNLIKELY(remote_count(new) == all) && note_whole(s);
}

/* Moves the list of `word`, just taken, to the own list. */
static bool accept(struct slab *s, uint64_t word) {
	uintptr_t first = remote_first(word);
	if (first == 0)
		return false;
	assert(s->free_count == 0);
	s->free = link_encode(first);
	s->free_count = (uint16_t)remote_count(word);
	s->is_cold = true;
	s->used -= (uint16_t)remote_count(word);
	s->left_remote = 0;
	return true;
}

bool remote_collect(struct slab *s, bool clear_queued) {
	/* Relaxed: only whether a locked instruction is worth it. */
	uint64_t old = atomic_load_explicit(&s->remote, memory_order_relaxed);
	if (remote_first(old) == 0 && !clear_queued)
		return false;
	/* Acquire: the posters' links. */
	if (clear_queued)
		return accept(s, atomic_exchange_explicit(&s->remote, 0, memory_order_acq_rel));
	while (!atomic_compare_exchange_weak_explicit(&s->remote, &old, old & REMOTE_QUEUED,
	                                              memory_order_acquire, memory_order_relaxed))
		if (remote_first(old) == 0)
			return false; /* the slab was EMPTIED this moment */
	return accept(s, old);
}

static uintptr_t list_of(const struct slab *s, uint64_t word) {
	uintptr_t first = remote_first(word);
	return first != 0 ? link_encode(first) : slab_end(s);
}

uintptr_t remote_take(struct slab *s) {
	/* Acquire: the posters' links. Release: as in remote_unqueue. */
	return list_of(s, atomic_exchange_explicit(&s->remote, 0, memory_order_acq_rel));
}

uintptr_t remote_take_list(struct slab *s) {
	/* Acquire: the posters' links. */
	return list_of(s, atomic_fetch_and_explicit(&s->remote, REMOTE_QUEUED, memory_order_acquire));
}

void remote_unqueue(struct slab *s) {
	/* Relaxed: the exchange settles it. */
	uint64_t word = atomic_load_explicit(&s->remote, memory_order_relaxed);
	do
		s->left_remote = (uint16_t)remote_count(word); /* others may look beside it from then on: emptied_make */
	/* Release: that, and who routes the slab next writes inbox_next after we read it. Acquire: the posters' links. */
	while (!atomic_compare_exchange_weak_explicit(&s->remote, &word, word & ~(uint64_t)REMOTE_QUEUED, memory_order_acq_rel,
	                                              memory_order_relaxed));
}

bool remote_all_home(const struct slab *s) {
	/* Acquire: if so, the slab is about to be reused and all posters' writes must be over. */
	uint64_t word = atomic_load_explicit(&s->remote, memory_order_acquire);
	return !remote_is_queued(word) && remote_count(word) == s->used;
}

HAK_EVERYDAY_SMALL void remote_disown(struct slab *s) {
	/* Acquire: who has emptied it is past that. Release: as in remote_unqueue. A list that grows from here on is its poster's
	   business. */
	uint64_t word = atomic_fetch_or_explicit(&s->remote, REMOTE_DISOWNED, memory_order_acq_rel);
	bool claim = s->free_count != 0 || slab_has_uncarved(s) || remote_first(word) != 0;
	/* The tag first: from here on no thread takes the slab for its own. If it is EMPTIED, none does, and the granule is
	   somebody else's. */
	if ((word & REMOTE_EMPTIED) == 0)
		slab_set_tag(s, 0);
	/* QUEUED before the owner goes: once there is none, the next poster may publish the slab and
	   another delete it. If QUEUED was set already, its router finds no owner and publishes. */
	if (claim)
		claim = !remote_is_queued(
			atomic_fetch_or_explicit(&s->remote, REMOTE_QUEUED, memory_order_acq_rel));
	/* Release: the owner fields, for whoever adopts the slab. */
	atomic_store_explicit(&s->owner, NULL, memory_order_release);
	if (claim)
		pool_publish(s);
	/* else: the slab is not ours to touch any more; the first post finds no owner and publishes. */
}
