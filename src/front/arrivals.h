/* SPDX-License-Identifier: MIT */
/*
 * Arrivals: freed large blocks that come home to a pocket, from threads that freed them and had no room.
 *
 * Any thread sends; the thread of the pocket's heap takes out. A shut inbox, which is what memory begins as, refuses
 * blocks: nobody would take them out. What a sender does with a block happened before it is taken out; to whom the
 * inbox belongs then is nothing to it, since heaps are never unmapped.
 */
#ifndef HAK_FRONT_ARRIVALS_H
#define HAK_FRONT_ARRIVALS_H

#include "front/large.h"

struct arrivals {
	struct large *_Atomic inbox; /* the newest, linked by `next`; or INBOX_SHUT, INBOX_EMPTY */
	_Atomic int32_t granules;    /* of all that was sent, until it is taken out. Each is counted after it has been sent, so
	                                it may be less, even below 0, and in a fork child for good */
	struct large *opened;        /* out of the inbox, but not taken out yet; linked by `next`; its thread's */
};
#define INBOX_SHUT ((struct large *)NULL)
#define INBOX_EMPTY ((struct large *)1)

/* A guess. */
HAK_INLINE bool arrivals_are_there(const struct arrivals *a) {
	/* Relaxed: nothing is read there. */
	return atomic_load_explicit(&a->granules, memory_order_relaxed) > 0;
}

/* Sends a block that its sender has to itself; there may be some `most` granules there. False: it stays the sender's. */
bool arrivals_send(struct arrivals *a, struct large *l, size_t most);

/* Opens the inbox, if it is shut. Its thread, as for all that follows. */
void arrivals_open(struct arrivals *a);

/* One of those that are there, or NULL. */
struct large *arrivals_take(struct arrivals *a);

/* Shuts the inbox; what is in there is still to be taken out. */
void arrivals_shut(struct arrivals *a);

/* Those that are not in `opened`, a list likewise. Nothing else may run. */
const struct large *arrivals_unopened(const struct arrivals *a);

#endif
