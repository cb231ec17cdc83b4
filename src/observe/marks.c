/* SPDX-License-Identifier: MIT */
#include "observe/marks.h"

#include "base/bits.h"
#include "front/canary.h"
#include "front/bins.h"
#include "front/secure.h"
#include "os/lock.h"
#include "os/os.h"
#include "slab/mosaic.h"
#include "slab/remote.h"

enum { UNITS = GRANULE >> MOSAIC_UNIT_SHIFT, WORDS = UNITS / 64 };

static void fault(const struct marks *m, const char *what, const void *where) {
	if (m->fault != NULL)
		m->fault(m->arg, what, where);
}

/* The word and bit of a block. NULL: there are no marks for the slab. */
static uint64_t *find(const struct marks *m, const struct slab *s, uintptr_t addr, uint64_t *bitp) {
	size_t unit = (addr - s->base) >> MOSAIC_UNIT_SHIFT;
	if (s->number >= m->slabs || unit >= UNITS)
		return NULL;
	*bitp = (uint64_t)1 << unit % 64;
	return &m->bits[s->number * (size_t)WORDS + unit / 64];
}

bool marks_is_free(const struct marks *m, const struct slab *s, uintptr_t addr) {
	uint64_t bit;
	const uint64_t *word = find(m, s, addr, &bit);
	return word == NULL || (*word & bit) != 0;
}

/* ---- walking lists ---- */

/* Mosaics mark the blocks that other threads have freed. */
static bool is_block_of(const struct slab *s, uintptr_t addr) {
	const struct mosaic *m = slab_mosaic(s);
	return m != NULL ? mosaic_held_at(m, addr - s->base) != 0 : slab_has_block(s, addr);
}

/* The slab a block on a list lies in; NULL: it is no block. */
static struct slab *slab_of(uintptr_t block) {
	struct pagemap_entry e = pagemap_find(block);
	struct slab *s = tag_is_slab(e.tag) ? e.desc : NULL;
	return s != NULL && s->in_use && slab_spans(s, block) && is_block_of(s, block) ? s : NULL;
}

/* What is expected of a list. */
struct list_rule {
	const char *loops, *strays, *miscounts; /* what is said if it is broken */
	const struct slab *slab;  /* all of it lies here; NULL: anywhere */
	const struct inbox *owner; /* in slabs of this owner; NULL: of any */
	unsigned sc;              /* of this class; 0: of any */
	size_t count;             /* so long */
};

static bool is_as_expected(const struct slab *s, uintptr_t block, const struct list_rule *rule) {
	if (s == NULL || (rule->slab != NULL && s != rule->slab))
		return false;
	if (rule->owner != NULL && atomic_load_explicit(&s->owner, memory_order_relaxed) != rule->owner)
		return false;
	return rule->sc == 0 || slab_class_at(s, block) == rule->sc;
}

/* Marks a block that is free. False: it is none, or has a mark already. */
static bool mark_block(struct marks *m, uintptr_t at, const struct list_rule *rule) {
	const struct slab *s = slab_of(at);
	if (!is_as_expected(s, at, rule)) {
		fault(m, rule->strays, (void *)at);
		return false;
	}
	uint64_t bit, *word = find(m, s, at, &bit);
	if (word == NULL)
		return false;
	if ((*word & bit) != 0) {
		fault(m, rule->loops, (void *)at);
		return false;
	}
	*word |= bit;
	return true;
}

/* Marks the blocks of a list, as far as it is one. */
static void mark_list(struct marks *m, uintptr_t link, const struct list_rule *rule) {
	size_t n = 0;
	for (uintptr_t at = link_decode(link); !link_is_end(at); at = link_decode(block_link(at)), n++)
		if (!mark_block(m, at, rule))
			return;
	if (n != rule->count)
		fault(m, rule->miscounts, (void *)link_decode(link));
}

static void mark_bin(struct marks *m, const struct heap *h, unsigned sc) {
	struct list_rule rule = { .loops = "a block is twice on free lists",
	                          .strays = "in a bin is no block of its class",
	                          .miscounts = "a bin's list is not as long as it says",
	                          .owner = &h->inbox, .sc = sc, .count = h->classes[sc].listed };
	if (rule.count != 0)
		mark_list(m, h->classes[sc].list, &rule);
	if (!h->locked)
		rule.owner = NULL; /* some may be others', who do not read what they are sent */
	void *const *at = bin_top(&h->bins[sc]), *const *end = h->classes[sc].end;
	if (h->bins[sc].top == 0)
		return;
	if ((size_t)(end - at) > h->classes[sc].capacity) {
		fault(m, "a bin holds more blocks than it may", at);
		return;
	}
	for (; at < end && mark_block(m, (uintptr_t)*at, &rule); at++)
		if (!bin_is_untouched(*at))
			fault(m, "a block in a bin was written to", *at);
}

static void mark_message(struct marks *m, const struct message *msg) {
	const struct list_rule rule = { .loops = "a block is twice on free lists",
	                                .strays = "a message holds what is no block" };
	for (unsigned i = 0; i < msg->count; i++)
		if (mark_block(m, message_block(msg->block[i]), &rule) &&
		    !bin_is_untouched((void *)message_block(msg->block[i])))
			fault(m, "a block in a message was written to", (void *)message_block(msg->block[i]));
}

static int mark_slab(void *arg, struct slab *s) {
	struct marks *m = arg;
	if (slab_mosaic(s) == NULL)
		mark_list(m, s->free, &(struct list_rule){
			.loops = "a block is twice on free lists", .strays = "a slab's list leads out of the slab",
			.miscounts = "a slab's list is not as long as it says", .slab = s, .count = s->free_count });
	uint64_t word = atomic_load_explicit(&s->remote, memory_order_relaxed);
	unsigned n = remote_count(word);
	if (remote_first(word) != 0)
		mark_list(m, link_encode(remote_first(word)), &(struct list_rule){
			.loops = "a block is twice on free lists",
			.strays = "a slab's remote list leads out of the slab",
			.miscounts = "a slab's remote list is not as long as it says", .slab = s,
			.count = remote_is_published(word) ? (unsigned)s->used - n : n });
	return 0;
}

static void mark_heap(struct marks *m, const struct heap *h) {
	for (unsigned sc = 1; h->bins != NULL && sc < SC_COUNT; sc++)
		mark_bin(m, h, sc);
	for (unsigned i = 0; i < OUTBOX_SLOTS; i++) {
		const struct outbox_slot *slot = &h->outbox.slot[i];
		if (slot->slab != NULL)
			mark_list(m, link_encode(slot->batch.first), &(struct list_rule){
				.loops = "a block is twice on free lists", .strays = "an outbox leads out of its slab",
				.miscounts = "an outbox is miscounted",
				.slab = slot->slab, .count = slot->batch.count });
	}
	const struct message *msg;
	for (unsigned i = 0; (msg = outbox_message(&h->outbox, i)) != NULL; i++)
		if (!message_is_free(msg))
			mark_message(m, msg);
}

/* ---- all of them ---- */

static size_t descriptors(void) {
	size_t n = 0;
	for (const struct slab_chunk *c = *slab_chunks(); c != NULL; c = c->next)
		n += CHUNK_SLABS;
	return n;
}

static size_t bytes_of(const struct marks *m) {
	return align_up(max_size(m->slabs, 1) * WORDS * sizeof *m->bits, os_facts.page_size);
}

int marks_each_slab(const struct marks *m, int (*visit)(void *arg, struct slab *s), void *arg) {
	for (struct slab_chunk *c = *slab_chunks(); c != NULL; c = c->next)
		for (unsigned i = 0; i < CHUNK_SLABS; i++) {
			struct slab *s = &c->slab[i];
			int result = s->in_use && s->number < m->slabs ? visit(arg, s) : 0;
			if (result != 0)
				return result;
		}
	return 0;
}

bool marks_make(struct marks *m, marks_fault_fn *say, void *arg) {
	*m = (struct marks){ .slabs = descriptors(), .fault = say, .arg = arg };
	m->bits = os_map(NULL, bytes_of(m));
	if (m->bits == NULL)
		return false;
	marks_each_slab(m, mark_slab, m);
	/* Keeps the bins of threads that are about to end. */
	lock_acquire(heap_registry_lock());
	for (const struct heap *h = heap_registry(); h != NULL; h = h->next)
		mark_heap(m, h);
	lock_release(heap_registry_lock());
	return true;
}

void marks_drop(struct marks *m) {
	os_unmap(m->bits, bytes_of(m));
}

/* ---- live blocks ---- */

static int each_live_in_mosaic(const struct marks *m, const struct slab *s,
                               int (*visit)(void *arg, uintptr_t block, size_t size), void *arg) {
	const struct mosaic *mosaic = slab_mosaic(s);
	for (uintptr_t off = 0; off < GRANULE; off += (uintptr_t)1 << MOSAIC_UNIT_SHIFT) {
		unsigned sc = mosaic_class_at(mosaic, off);
		if (sc == 0 || marks_is_free(m, s, s->base + off))
			continue;
		int result = visit(arg, s->base + off, hak_size_classes[sc].size);
		if (result != 0)
			return result;
	}
	return 0;
}

/* Freed, but in quarantine? */
static bool is_waiting(const struct slab *s, uintptr_t block) {
	return s->has_canaries && canary_kind(canary_load(block, s->block_size)) == KIND_FREED;
}

int marks_each_live(const struct marks *m, const struct slab *s,
                    int (*visit)(void *arg, uintptr_t block, size_t size), void *arg) {
	if (slab_mosaic(s) != NULL)
		return each_live_in_mosaic(m, s, visit, arg);
	if (remote_is_emptied(s))
		return 0;
	for (unsigned i = slab_reserved(s); i < s->carved; i++) {
		uintptr_t at = s->base + (size_t)i * s->block_size;
		bool is_live = !marks_is_free(m, s, at) && !is_waiting(s, at);
		int result = is_live ? visit(arg, at, secure_usable_size(s, at)) : 0;
		if (result != 0)
			return result;
	}
	return 0;
}

static int count_one(void *arg, uintptr_t block, size_t size) {
	++*(size_t *)arg;
	return 0;
}

size_t marks_count_live(const struct marks *m, const struct slab *s) {
	size_t n = 0;
	marks_each_live(m, s, count_one, &n);
	return n;
}
