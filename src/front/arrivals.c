/* SPDX-License-Identifier: MIT */
#include "front/arrivals.h"

#include "os/os.h"

_Atomic bool hak_arrivals_wait;

/* Blocks behind what an inbox begins with. */
static struct large *list_of(struct large *newest) {
	return newest == INBOX_SHUT || newest == INBOX_EMPTY ? NULL : newest;
}

bool arrivals_are_old(const struct arrivals *a) {
	/* Relaxed: a time. */
	return os_cycles() - atomic_load_explicit(&a->invited, memory_order_relaxed) > OS_CYCLES_A_MOMENT;
}

/* Puts a list before what there is. False: the inbox is shut. */
static bool put(struct arrivals *a, struct large *first, struct large *last) {
	struct large *newest = atomic_load_explicit(&a->inbox, memory_order_relaxed);
	do {
		if (newest == INBOX_SHUT)
			return false;
		last->next = list_of(newest);
		/* Release: the blocks as they are left. All are taken at once, so that if the newest is the same again, what
		   is linked behind it is so, too. */
	} while (!atomic_compare_exchange_weak_explicit(&a->inbox, &newest, first, memory_order_release,
	                                                memory_order_relaxed));
	return true;
}

bool arrivals_send(struct arrivals *a, struct large *l) {
	int32_t granules = (int32_t)l->span.granules;
	/* Relaxed, all of these: hints, and senders that ask at once may send a block each too many. */
	int32_t most = (int32_t)atomic_load_explicit(&a->most, memory_order_relaxed);
	if (atomic_load_explicit(&a->granules, memory_order_relaxed) + granules > most || arrivals_are_old(a))
		return false;
	if (!put(a, l, l))
		return false;
	atomic_fetch_add_explicit(&a->granules, granules, memory_order_seq_cst);
	if (!arrivals_wait())
		atomic_store_explicit(&hak_arrivals_wait, true, memory_order_relaxed);
	return true;
}

HAK_EVERYDAY void arrivals_invite(struct arrivals *a, size_t granules) {
	/* Relaxed: senders read nothing there. Nobody else changes an inbox that is shut. */
	atomic_store_explicit(&a->most, (uint32_t)granules, memory_order_relaxed);
	atomic_store_explicit(&a->invited, os_cycles(), memory_order_relaxed);
	if (atomic_load_explicit(&a->inbox, memory_order_relaxed) == INBOX_SHUT)
		atomic_store_explicit(&a->inbox, INBOX_EMPTY, memory_order_relaxed);
}

HAK_EVERYDAY struct large *arrivals_take(struct arrivals *a) {
	struct large *newest = atomic_load_explicit(&a->inbox, memory_order_relaxed);
	/* Acquire: the blocks as their senders left them. Not an exchange: it may be shut this moment. */
	while (list_of(newest) != NULL &&
	       !atomic_compare_exchange_weak_explicit(&a->inbox, &newest, INBOX_EMPTY, memory_order_acquire,
	                                              memory_order_relaxed))
		continue;
	return list_of(newest);
}

void arrivals_settle(struct arrivals *a, const struct large *l) {
	/* Relaxed: a count. */
	atomic_fetch_sub_explicit(&a->granules, (int32_t)l->span.granules, memory_order_relaxed);
}

void arrivals_put_back(struct arrivals *a, struct large *list) {
	struct large *last = list;
	while (last->next != NULL)
		last = last->next;
	put(a, list, last); /* it is shut in a fork child only, whose heap nobody has: they are lost */
}

HAK_EVERYDAY struct large *arrivals_shut(struct arrivals *a) {
	/* Relaxed: senders do not open it. It is not written to where it is shut: few processes use it. */
	if (atomic_load_explicit(&a->inbox, memory_order_relaxed) == INBOX_SHUT)
		return NULL;
	/* Acquire: as in arrivals_take. */
	return list_of(atomic_exchange_explicit(&a->inbox, INBOX_SHUT, memory_order_acquire));
}

HAK_COLD const struct large *arrivals_list(const struct arrivals *a) {
	return list_of(atomic_load_explicit(&a->inbox, memory_order_relaxed));
}
