/* SPDX-License-Identifier: MIT */
#include "front/arrivals.h"

bool arrivals_send(struct arrivals *a, struct large *l, size_t most) {
	int32_t granules = (int32_t)l->span.granules;
	/* Relaxed: senders that ask at once may send a block each too many. */
	if (atomic_load_explicit(&a->granules, memory_order_relaxed) + granules > (int32_t)most)
		return false;
	struct large *newest = atomic_load_explicit(&a->inbox, memory_order_relaxed);
	do {
		if (newest == INBOX_SHUT)
			return false;
		l->next = newest == INBOX_EMPTY ? NULL : newest;
		/* Release: the block as the sender leaves it. All are taken out at once, so that if the newest is the same
		   again, what is linked behind it is so, too. */
	} while (!atomic_compare_exchange_weak_explicit(&a->inbox, &newest, l, memory_order_release, memory_order_relaxed));
	atomic_fetch_add_explicit(&a->granules, granules, memory_order_relaxed);
	return true;
}

void arrivals_open(struct arrivals *a) {
	/* Relaxed: senders read nothing there. Nobody else changes one that is shut. */
	if (atomic_load_explicit(&a->inbox, memory_order_relaxed) == INBOX_SHUT)
		atomic_store_explicit(&a->inbox, INBOX_EMPTY, memory_order_relaxed);
}

/* Blocks behind what an inbox begins with. */
static struct large *list_of(struct large *newest) {
	return newest == INBOX_SHUT || newest == INBOX_EMPTY ? NULL : newest;
}

/* Takes out what is in the inbox, and leaves that. */
static struct large *empty(struct arrivals *a, struct large *leave) {
	/* Acquire: the blocks as their senders left them. */
	return list_of(atomic_exchange_explicit(&a->inbox, leave, memory_order_acquire));
}

struct large *arrivals_take(struct arrivals *a) {
	/* Relaxed: only here it is emptied. */
	if (a->opened == NULL && list_of(atomic_load_explicit(&a->inbox, memory_order_relaxed)) != NULL)
		a->opened = empty(a, INBOX_EMPTY);
	struct large *l = a->opened;
	if (l == NULL)
		return NULL;
	a->opened = l->next;
	atomic_fetch_sub_explicit(&a->granules, (int32_t)l->span.granules, memory_order_relaxed);
	return l;
}

void arrivals_shut(struct arrivals *a) {
	/* Relaxed: senders do not open it. */
	if (atomic_load_explicit(&a->inbox, memory_order_relaxed) == INBOX_SHUT)
		return;
	struct large **last = &a->opened;
	while (*last != NULL)
		last = &(*last)->next;
	*last = empty(a, INBOX_SHUT);
}

HAK_COLD const struct large *arrivals_unopened(const struct arrivals *a) {
	return list_of(atomic_load_explicit(&a->inbox, memory_order_relaxed));
}
