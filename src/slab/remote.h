/* SPDX-License-Identifier: MIT */
/*
 * Blocks freed by threads that do not own their slab. Modelled in tests/model/: change the model
 * first.
 *
 * `slab.remote` is one word, every change of which replaces all of it:
 *
 *   63..48 n | 47..4 address of the first block | 3 DISOWNED | 2 EMPTIED | 1 PUBLISHED | 0 QUEUED
 *
 * QUEUED means: the slab is in exactly one queue (its owner's inbox or the shared pool's published
 * list), or in the hands of exactly one thread that is on its way to put it there, its *router*.
 * Whoever turns QUEUED from 0 to 1 is the router. Whoever takes the slab out of a queue holds it
 * alone until it clears QUEUED, and nobody else deletes it while QUEUED is set.
 *
 * PUBLISHED means: the slab is in the pool's list. Then n counts the blocks that are still out; the
 * poster that brings it to 0 brought the last one, and it alone deletes the slab. Without PUBLISHED
 * n is the length of the list. A poster that found QUEUED set and did not bring the last block must
 * not touch the slab again: it may be deleted at once.
 *
 * EMPTIED means: every block had come home to the list, and who took the slab out of the inbox of an owner that sleeps
 * (front/sleepers.h) dropped that, and freed its granule, which may be anybody's from then on. n still counts all, so that
 * for the owner they are out, until it takes the slab out of its inbox: of that the descriptor alone is left.
 *
 * DISOWNED means: its owner has gone, or is about to say so in the page map, so that nobody may empty the slab. The pool
 * ends it.
 *
 * Remote lists arrive terminated (slab_end), so the owner takes one whole without walking it.
 *
 * `slab.owner` is the inbox of the heap that owns the slab, or NULL. Only the owner stores NULL
 * (disowning), only who took the slab out of the pool stores anything else (adopting). An inbox
 * belongs to a heap, which is never unmapped; while no thread has the heap the inbox is closed.
 * A heap disowns all its slabs before it closes its inbox, so a router that finds the inbox closed
 * looks at `owner` once more and finds another value: it never spins.
 */
#ifndef HAK_SLAB_REMOTE_H
#define HAK_SLAB_REMOTE_H

#include "slab/slab.h"

/* A stack of slabs linked by inbox_next: any thread pushes, the owner takes all at once; so do others while it sleeps
   (slab/emptied.h). And one of messages (slab/message.h), likewise. */
struct message;
struct inbox {
	_Atomic(struct slab *) top;
	_Atomic(struct message *) messages;
	_Atomic uint64_t since_ms; /* when it had `whole` or messages, about, by os_now_ms; 0: nobody has looked. See */
	_Atomic uint32_t whole;    /* front/sleepers.h. Slabs that all blocks of have come home to since it was last emptied */
};
#define INBOX_CLOSED ((struct slab *)1)
#define MESSAGES_CLOSED ((struct message *)1)

/* Blocks of one slab, linked and terminated: `first` ... `last`. */
struct batch {
	uintptr_t first, last;
	unsigned count;
};

enum { REMOTE_QUEUED = 1, REMOTE_PUBLISHED = 2, REMOTE_EMPTIED = 4, REMOTE_DISOWNED = 8 };

HAK_INLINE uint64_t remote_pack(uintptr_t first, unsigned n, uint64_t flags) {
	return (uint64_t)n << 48 | first | flags;
}
HAK_INLINE bool remote_is_queued(uint64_t word) {
	return (word & REMOTE_QUEUED) != 0;
}
HAK_INLINE bool remote_is_published(uint64_t word) {
	return (word & REMOTE_PUBLISHED) != 0;
}
HAK_INLINE unsigned remote_count(uint64_t word) {
	return (unsigned)(word >> 48);
}
HAK_INLINE uintptr_t remote_first(uint64_t word) {
	return (uintptr_t)(word & 0x0000fffffffffff0);
}

HAK_INLINE bool remote_is_emptied(const struct slab *s) {
	/* Relaxed: for who has taken the slab out of a queue, which ordered it; else a guess. */
	return (atomic_load_explicit(&s->remote, memory_order_relaxed) & REMOTE_EMPTIED) != 0;
}

/* Are there blocks on the remote list? Relaxed: a hint, for the owner. */
HAK_INLINE bool remote_has_blocks(const struct slab *s) {
	return remote_first(atomic_load_explicit(&s->remote, memory_order_relaxed)) != 0;
}

/* Hands a batch to the slab's owner, or to the pool if it has none. Any thread. True: with these all its blocks lie in an
   owner's inbox. */
HAK_NOINLINE bool remote_post_list(struct slab *s, uintptr_t first, uintptr_t last, unsigned count);
HAK_INLINE void remote_post(struct slab *s, const struct batch *b) {
	remote_post_list(s, b->first, b->last, b->count);
}

/* Puts a slab whose router we are where it belongs. */
void remote_route(struct slab *s);

/* Takes the remote list whole and moves it to the own list, which is empty. `clear_queued`: the slab
   has just been taken out of a queue. Owner. True if there was anything. */
bool remote_collect(struct slab *s, bool clear_queued);

/* Takes the remote list of a mosaic, and QUEUED with it: the link to its first block. The slab has just
   been taken out of a queue. Owner. */
uintptr_t remote_take(struct slab *s);

/* Likewise of a slab that is in no hands but the owner's: QUEUED stays as it is. */
uintptr_t remote_take_list(struct slab *s);

/* Clears QUEUED, leaving the list: for a slab just taken out of a queue. Owner. */
void remote_unqueue(struct slab *s);

/* Owner: are all carved blocks at home, counting the remote list? Then no other thread can post. */
bool remote_all_home(const struct slab *s);

/* Gives up a slab: no owner from here on. It is published if it has blocks to give; it may be gone
   when this returns. Owner; the slab is in none of the owner's lists, and not in its hands as a
   router. */
void remote_disown(struct slab *s);

/* The inbox as a list, leaving it empty, or closed. */
struct slab *inbox_take(struct inbox *in, bool close);

/* Of how many slabs all blocks have come home to inboxes since this was last made 0; at least 1 if some wait longer, or
   many messages. A hint. */
extern HAK_HIDDEN _Atomic uint32_t hak_whole_wait;
HAK_INLINE uint32_t inboxes_wait(void) {
	/* Relaxed: looked at now and then. */
	return atomic_load_explicit(&hak_whole_wait, memory_order_relaxed);
}

HAK_COLD void inboxes_count_whole(uint32_t more);
HAK_INLINE void inboxes_note(void) {
	if (inboxes_wait() == 0)
		inboxes_count_whole(1);
}

/* Slabs more, which lie there. Release: as below. */
HAK_INLINE void inbox_count_whole(struct inbox *in, uint32_t more) {
	atomic_fetch_add_explicit(&in->whole, more, memory_order_release);
	inboxes_count_whole(more);
}

/* What is there from here on has not waited yet. Relaxed: a time. */
HAK_INLINE void inbox_forget_time(struct inbox *in) {
	atomic_store_explicit(&in->since_ms, 0, memory_order_relaxed);
}

/* It is about to be looked into. Acquire: what was counted is found there then. Relaxed else: a hint. */
HAK_INLINE void inbox_forget_whole(struct inbox *in) {
	if (atomic_load_explicit(&in->whole, memory_order_relaxed) == 0)
		return;
	atomic_exchange_explicit(&in->whole, 0, memory_order_acquire);
	inbox_forget_time(in);
}

/* Opens it, if it is closed, to slabs and messages. */
void inbox_open(struct inbox *in);

/* Relaxed: a hint. */
HAK_INLINE bool inbox_is_empty(const struct inbox *in) {
	return atomic_load_explicit(&in->top, memory_order_relaxed) == NULL;
}

#endif
