/* SPDX-License-Identifier: MIT */
/*
 * Sleepers: threads that sleep while others free their blocks. What is freed waits in the owner's inbox, and the owner
 * does not come by. So others take slabs of which every block has come home out of there, free their granules for all,
 * and put the descriptors back (EMPTIED, see slab/remote.h) for the owner to drop when it wakes: it may be amid a walk
 * along its lists. A slab of which the owner has blocks in a bin, or on a list of its own, stays as it is, and so do
 * mosaics.
 *
 * An inbox is due when it has held such slabs, or messages, which may be all that a slab lacks, be they out of it and
 * unread, for a purge delay, and at once when such slabs are, with those of others that are not due, more than WAIT_FLOOR
 * and a sixteenth of what is in use, or a 64th where there is no delay. Both are looked at on slow paths, as all purging
 * is (space/purge.h), when a thread ends, and by the purge thread.
 * What waits for a locked heap is taken up for it, under its lock, if nobody has that.
 *
 * Slabs that are being looked at are in no queue, and their looker's, as a router's are. Whoever drains its inbox
 * meanwhile finds them later.
 */
#ifndef HAK_FRONT_SLEEPERS_H
#define HAK_FRONT_SLEEPERS_H

#include "front/heap.h"

enum { WAIT_FLOOR = SUPERSLAB_GRANULES }; /* slabs: 2 MiB */

/* Has so much come home since the last look that some inbox may be due at once, whenever that look was? */
HAK_INLINE bool inboxes_overflow(void) {
	return inboxes_wait() > WAIT_FLOOR;
}

/* Frees what is due in inboxes. Does nothing if somebody has looked a moment before, and little has come since; if the
   thread ends: very shortly before, and very little. A thread that has a heap has drained its own. */
void sleepers_relieve(bool ends);

/* When it is to be called next, by os_now_ms, or PURGE_NEVER: for who has nothing else to do. */
uint64_t sleepers_due(void);

/* Likewise all that can be. */
void sleepers_relieve_all(void);

/* The owner has taken an EMPTIED slab out of its inbox. */
void sleepers_forget(struct heap *h, struct slab *s);

#endif
