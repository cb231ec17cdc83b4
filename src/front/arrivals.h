/* SPDX-License-Identifier: MIT */
/*
 * Arrivals: freed large blocks that come home to a pocket, from threads that freed them and had no room.
 *
 * Any thread sends. The thread of the pocket's heap invites, for a moment each time: to one that sleeps nothing is
 * sent. It takes out what has come; so may any other, to give it back. A shut inbox, which is what memory begins as,
 * refuses blocks. What a sender does with a block happened before it is taken out; to whom the inbox belongs then is
 * nothing to it, since heaps are never unmapped.
 */
#ifndef HAK_FRONT_ARRIVALS_H
#define HAK_FRONT_ARRIVALS_H

#include "front/large.h"

struct arrivals {
	struct large *_Atomic inbox; /* the newest, linked by `next`; or INBOX_SHUT, INBOX_EMPTY */
	_Atomic int32_t granules;    /* of all that was sent, until it is settled. Each is counted after it has been sent, so it
	                                may be less, even below 0 */
	_Atomic uint32_t most;       /* how many there may be, */
	_Atomic uint64_t invited;    /* for a moment from then on, by os_cycles */
};
#define INBOX_SHUT ((struct large *)NULL)
#define INBOX_EMPTY ((struct large *)1)

/* Has anything been sent since this was last made false? A hint. */
extern HAK_HIDDEN _Atomic bool hak_arrivals_wait;
HAK_INLINE bool arrivals_wait(void) {
	/* Sequentially consistent, as what makes it false: of a sender and somebody who looks, one sees what the other did.
	   Relaxed where it is set: sooner or later somebody looks. */
	return atomic_load_explicit(&hak_arrivals_wait, memory_order_seq_cst);
}

/* A guess. */
HAK_INLINE bool arrivals_are_there(const struct arrivals *a) {
	/* Sequentially consistent: as in arrivals_wait. */
	return atomic_load_explicit(&a->granules, memory_order_seq_cst) > 0;
}

/* Sends a block that its sender has to itself. False: it stays the sender's. */
bool arrivals_send(struct arrivals *a, struct large *l);

/* Lets that many granules come for a moment. Its thread. */
void arrivals_invite(struct arrivals *a, size_t granules);

/* Is it some time ago that the thread invited? */
bool arrivals_are_old(const struct arrivals *a);

/* All that there is, as a list by `next`, or NULL. Any thread. */
struct large *arrivals_take(struct arrivals *a);

/* A block that was taken is no arrival any longer: it counts as one up to here. */
void arrivals_settle(struct arrivals *a, const struct large *l);

/* Puts back what is left of a list. Its thread. */
void arrivals_put_back(struct arrivals *a, struct large *list);

/* Shuts the inbox, and takes what there is. Its thread. */
struct large *arrivals_shut(struct arrivals *a);

/* What there is, left where it is. Nothing else may run. */
const struct large *arrivals_list(const struct arrivals *a);

#endif
