/* SPDX-License-Identifier: MIT */
/* A heap takes up the messages that other threads sent it (slab/message.h). All need what front/heap.h asks of whoever
   touches a heap. */
#include "base/probe.h"
#include "front/alloc.h"
#include "front/bins.h"
#include "front/misuse.h"

/* Where the mark is checked and set anew, who wrote to the block would get away with it. */
HAK_EVERYDAY static bool is_untouched(uint64_t entry) {
	uintptr_t block = message_block(entry);
	if (HAK_LIKELY(bin_is_untouched((void *)block)))
		return true;
	misuse_written(MISUSE_AFTER_FREE, block, hak_size_classes[message_class(entry)].size);
	return false;
}

/* A block out of a message. In a bin its mark is checked when it is served. */
static void take_in(struct heap *h, uint64_t entry) {
	uintptr_t block = message_block(entry);
	unsigned sc = message_class(entry);
	struct pagemap_entry e = pagemap_lookup(block);
	if (e.tag == (h->tag | sc << SC_CODE_SHIFT) && bin_push_as(&h->bins[sc], (void *)block, true))
		return;
	if (is_untouched(entry))
		block_put(h, e.desc, block);
}

static void post_run(uintptr_t first, uintptr_t last, unsigned n) {
	if (n != 0)
		remote_post_list(pagemap_lookup(first).desc, first, last, n);
}

HAK_COLD void heap_scatter_message(struct message *m) {
	uintptr_t first = 0, last = 0;
	unsigned n = 0; /* blocks of one slab, `first` ... `last` */
	for (unsigned i = 0; i < m->count; i++) {
		uintptr_t block = message_block(m->block[i]);
		if (!is_untouched(m->block[i]))
			continue;
		if (n != 0 && block / GRANULE == first / GRANULE) {
			block_set_link(last, link_encode(block));
		} else {
			post_run(first, last, n);
			first = block;
			n = 0;
		}
		last = block;
		n++;
	}
	post_run(first, last, n);
	message_release(m);
}

static void read_message(struct heap *h, struct message *m) {
	HAK_PROBE1(remote_drain, message_block(m->block[0]) & ~(GRANULE - 1));
	COUNT_MORE(h->count.drained, m->count);
	for (unsigned i = 0; i < m->count; i++)
		take_in(h, m->block[i]);
	message_release(m);
}

/* Others take all that is unread or none (front/sleepers.h), and none but the owner puts some there: hence no ABA. */
HAK_EVERYDAY void heap_read_messages(struct heap *h, unsigned sc) {
	while (heap_has_messages(h)) {
		/* Relaxed, here and below: it has put them there itself; and who takes the rest acquires what it released
		   then. */
		struct message *m = atomic_load_explicit(&h->unread, memory_order_relaxed);
		if (m == NULL) {
			m = inbox_take_messages(&h->inbox, false);
			/* Others have taken them this moment; or a handler has forked, and this is the child. */
			if (HAK_UNLIKELY(m == NULL || m == MESSAGES_CLOSED))
				return;
			/* Release: the messages, for others. */
			atomic_store_explicit(&h->unread, message_next(m), memory_order_release);
		} else if (!atomic_compare_exchange_strong_explicit(&h->unread, &m, message_next(m), memory_order_relaxed,
		                                                    memory_order_relaxed)) {
			continue;
		}
		if (HAK_UNLIKELY(heap_goes_by_refills(h)))
			heap_scatter_message(m);
		else
			read_message(h, m);
		if (sc != 0 && !bin_is_empty(&h->bins[sc]))
			return;
	}
}

HAK_NOINLINE HAK_EVERYDAY void heap_scatter_messages(struct message *list) {
	for (struct message *m = list, *next; m != NULL && m != MESSAGES_CLOSED; m = next) {
		next = message_next(m);
		heap_scatter_message(m);
	}
}

HAK_EVERYDAY void heap_close_messages(struct heap *h) {
	/* Taken first: a fork child amid the rest must not take them up once more. */
	heap_scatter_messages(heap_take_unread(h));
	heap_scatter_messages(inbox_take_messages(&h->inbox, true));
}
