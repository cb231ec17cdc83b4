/* SPDX-License-Identifier: MIT */
#include "front/outbox.h"

#include <string.h>

#include "build_options.h"
#include "front/heap.h"
#include "space/meta.h"
#include "space/purge.h"

/* ---- slots ---- */

static void post(struct outbox *o, struct slab *s, const struct batch *b) {
	o->posts += HAK_STATS;
	remote_post(s, b);
}

HAK_EVERYDAY static void post_slot(struct outbox *o, struct outbox_slot *slot) {
	struct slab *s = slot->slab;
	struct batch b = slot->batch;
	slot->slab = NULL;
	o->used--;
	post(o, s, &b);
}

/* The slab gets the slot. */
static void take_slot(struct outbox *o, struct outbox_slot *slot, struct slab *s, const struct batch *one) {
	if (slot->slab != NULL)
		post_slot(o, slot);
	block_set_link(one->first, slab_end(s));
	*slot = (struct outbox_slot){ .slab = s, .batch = *one };
	o->used++;
}

/* ---- messages ---- */

HAK_EVERYDAY static void post_message(struct outbox *o, struct message **open) {
	struct message *m = *open;
	*open = NULL;
	o->used--;
	o->posts += HAK_STATS;
	if (!message_post(m))
		heap_scatter_message(m);
}

/* The first of more; NULL: there are enough, or there is no memory. */
static struct message *make_messages(struct outbox *o) {
	struct message *chunk = o->made < OUTBOX_MESSAGES ? meta_alloc(OUTBOX_CHUNK * sizeof *chunk) : NULL;
	if (chunk == NULL)
		return NULL;
	/* Release: as in outbox_message. */
	__atomic_store_n(&o->chunk[o->made / OUTBOX_CHUNK], chunk, __ATOMIC_RELEASE);
	o->next = o->made + 1;
	o->made += OUTBOX_CHUNK;
	return chunk;
}

/* The next has been OUT for longest, but owners read when they like. NULL: there is none, as it seems. */
static struct message *find_message(struct outbox *o) {
	for (unsigned i = 0; i < OUTBOX_TRIES && o->made > 0; i++) {
		struct message *m = &o->chunk[o->next / OUTBOX_CHUNK][o->next % OUTBOX_CHUNK];
		o->next = (o->next + 1) % o->made;
		if (message_is_free(m))
			return m;
	}
	return make_messages(o);
}

/* May the owner with this tag be sent another? Of two that share the place one is not bounded. */
static bool reads(struct unread *u, uint32_t tag) {
	if (u->first != NULL && message_is_free(u->first))
		*u = (struct unread){ .first = NULL };
	return u->first == NULL || u->first->owner != tag || u->count < OUTBOX_UNREAD;
}

/* `m`, OPEN, goes to an owner whose place that is. */
static void note_sent(struct outbox *o, struct unread *u, struct message *m) {
	for (unsigned i = 0; i < OUTBOX_OWNERS; i++)
		if (o->unread[i].first == m) /* it was read since */
			o->unread[i] = (struct unread){ .first = NULL };
	if (u->first == NULL)
		u->first = m;
	u->count += u->first->owner == m->owner;
}

/* Where the OPEN message to the slab's owner is, who has this tag. NULL: there is none. */
static struct message **message_to(struct outbox *o, struct slab *s, uint32_t tag) {
	struct message **open = outbox_open_to(o, tag);
	if (*open != NULL && (*open)->owner == tag)
		return open;
	/* Acquire: the heap's constant fields. */
	struct inbox *in = atomic_load_explicit(&s->owner, memory_order_acquire);
	if (in == NULL || LIST_ENTRY(in, struct heap, inbox)->tag != tag)
		return NULL; /* it changes hands */
	struct unread *u = &o->unread[open - o->open];
	if (!reads(u, tag)) {
		if (!purge_is_discreet())
			inboxes_note(); /* what it has may be all that many slabs lack */
		return NULL;
	}
	struct message *m = find_message(o);
	if (m == NULL)
		return NULL;
	if (*open != NULL)
		post_message(o, open);
	message_open(m, in, tag);
	note_sent(o, u, m);
	*open = m;
	o->used++;
	return open;
}

static bool add_to_message(struct outbox *o, struct slab *s, uintptr_t block) {
	uint32_t tag = pagemap_find(block).tag;
	/* Of a mosaic, also one whose tag says it only soon, the block is marked as freed in its slab. */
	bool is_plain = tag_is_plain_slab(tag) && slab_mosaic(s) == NULL;
	struct message **open = is_plain ? message_to(o, s, tag & ~TAG_CODE_MASK) : NULL;
	if (open == NULL)
		return false;
	unsigned sc = tag_class(tag);
	uint32_t size = hak_size_classes[sc].size;
	bool is_last = message_fills(*open, size);
	message_add(*open, block, sc, size);
	if (is_last)
		post_message(o, open);
	return true;
}

/* ---- both ---- */

HAK_EVERYDAY bool outbox_add(struct outbox *o, struct slab *s, uintptr_t block) {
	struct outbox_slot *slot = outbox_slot_of(o, s);
	struct batch one = { .first = block, .last = block, .count = 1 };
	if (slot->slab == s) {
		outbox_push(slot, block);
		if (outbox_fills(s->block_size, slot->batch.count))
			post_slot(o, slot);
		return true;
	}
	bool takes = slot->slab == NULL || ++slot->others >= OUTBOX_OTHERS;
	if (!takes || outbox_fills(s->block_size, 1))
		return add_to_message(o, s, block);
	take_slot(o, slot, s, &one);
	return true;
}

HAK_EVERYDAY void outbox_flush(struct outbox *o) {
	for (unsigned i = 0; i < OUTBOX_SLOTS && o->used > 0; i++)
		if (o->slot[i].slab != NULL)
			post_slot(o, &o->slot[i]);
	for (unsigned i = 0; i < OUTBOX_OWNERS && o->used > 0; i++)
		if (o->open[i] != NULL)
			post_message(o, &o->open[i]);
}

HAK_COLD void outbox_forget(struct outbox *o) {
	struct message *m;
	for (unsigned i = 0; (m = outbox_message(o, i)) != NULL; i++)
		if (atomic_load_explicit(&m->state, memory_order_relaxed) == MESSAGE_OPEN)
			message_release(m);
	memset(o->slot, 0, sizeof o->slot);
	memset(o->open, 0, sizeof o->open);
	memset(o->unread, 0, sizeof o->unread);
	o->used = 0;
}

HAK_COLD void outbox_recall(struct outbox *o) {
	struct message *m;
	for (unsigned i = 0; (m = outbox_message(o, i)) != NULL; i++)
		if (atomic_load_explicit(&m->state, memory_order_relaxed) == MESSAGE_OUT)
			message_release(m);
}
