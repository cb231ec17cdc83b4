/* SPDX-License-Identifier: MIT */
/*
 * What must hold while nothing runs, and where it is looked at:
 *   every free list is one: its blocks are blocks, of its slab or class, each on one list only, as many as
 *   counted                                                                       observe/marks.c
 *   a slab's numbers add up; page map, SuperSlab, owner and queue agree with it   here
 *   a heap's lists hold the heap's slabs, all of them                             here
 *   a large block's granules lead to it; the sums over blocks are right           here
 *   SuperSlabs, BigCache                                                          beside their data
 */
#include "observe/check.h"

#include <errno.h>

#include "base/bits.h"
#include "base/report.h"
#include "front/bigcache.h"
#include "front/heap_slabs.h"
#include "front/large.h"
#include "observe/marks.h"
#include "os/lock.h"
#include "slab/mosaic.h"
#include "slab/remote.h"

enum { SAID_MOST = 20 };

struct checker {
	struct marks marks;
	int faults;
	size_t slabs; /* with an owner */
};

static void say(void *arg, const char *what, const void *where) {
	struct checker *c = arg;
	struct line l;
	if (++c->faults > SAID_MOST)
		return;
	line_begin(&l);
	line_str(&l, "check: ");
	line_str(&l, what);
	if (where != NULL) {
		line_str(&l, " at ");
		line_ptr(&l, where);
	}
	line_write(&l);
}

static void expect(struct checker *c, bool holds, const char *what, const void *where) {
	if (!holds)
		say(c, what, where);
}

/* ---- slabs ---- */

static bool holes_are_known(const struct mosaic *m) {
	unsigned first = 0; /* of the hole that may lie here */
	for (unsigned unit = 0; unit < MOSAIC_UNITS; unit++) {
		unsigned length = unit + 1 - first;
		if ((m->used[unit / 64] >> unit % 64 & 1) != 0)
			first = unit + 1;
		else if (length > m->largest || length > m->longest[first / 64])
			return false;
	}
	return true;
}

static void check_mosaic(struct checker *c, const struct slab *s, const struct mosaic *m) {
	unsigned blocks = 0, units = 0, used_units = 0;
	for (uintptr_t off = 0; off < GRANULE; off += (uintptr_t)1 << MOSAIC_UNIT_SHIFT) {
		unsigned sc = mosaic_held_at(m, off);
		blocks += sc != 0;
		units += sc != 0 ? mosaic_units(sc) : 0;
	}
	for (size_t i = 0; i < sizeof m->used / sizeof *m->used; i++)
		used_units += count_ones32((uint32_t)m->used[i]) + count_ones32((uint32_t)(m->used[i] >> 32));
	expect(c, blocks == s->used, "a mosaic's blocks are miscounted", (void *)s->base);
	expect(c, m->sealed ? units <= used_units : units == used_units, "a mosaic's blocks and holes overlap",
	       (void *)s->base);
	expect(c, holes_are_known(m), "a mosaic has a longer hole than it knows", (void *)s->base);
	expect(c, s->free_count + used_units == MOSAIC_UNITS, "a mosaic's holes are miscounted", (void *)s->base);
}

static void check_plain(struct checker *c, const struct slab *s) {
	const struct size_class *class = &hak_size_classes[s->sc];
	expect(c, s->block_size == class->size && s->capacity == class->capacity,
	       "a slab is not as its class says", (void *)s->base);
	expect(c, slab_adds_up(s), "a slab's blocks do not add up", (void *)s->base);
}

/* The heap whose inbox this is; NULL: none. */
static const struct heap *heap_of(const struct inbox *owner) {
	for (const struct heap *h = heap_registry(); h != NULL; h = h->next)
		if (&h->inbox == owner)
			return h;
	return NULL;
}

static bool is_in(const struct list *list, const struct list_node *n) {
	return list_is_linked(n) && *n->pprev == n && (n->pprev != &((struct list *)(uintptr_t)list)->first ||
	                                               list->first == n);
}

static void check_owner(struct checker *c, const struct slab *s) {
	const struct inbox *owner = atomic_load_explicit(&s->owner, memory_order_relaxed);
	uint64_t word = atomic_load_explicit(&s->remote, memory_order_relaxed);
	uint32_t tag = pagemap_find(s->base).tag & ~TAG_CODE_MASK;
	const void *at = (void *)s->base;
	expect(c, remote_is_published(word) == list_is_linked(&s->pool_link),
	       "a slab and the pool disagree", at);
	expect(c, !remote_is_published(word) || owner == NULL, "a slab in the pool has an owner", at);
	if (owner == NULL) {
		expect(c, tag == 0 || remote_is_emptied(s), "a slab without owner is tagged as somebody's", at);
		return;
	}
	const struct heap *h = heap_of(owner);
	expect(c, h != NULL, "a slab's owner is no heap", at);
	if (h == NULL)
		return;
	c->slabs++;
	expect(c, tag == h->tag || remote_is_emptied(s), "a slab is tagged as another's than its owner's", at);
	expect(c, is_in(&h->classes[slab_mosaic(s) != NULL ? 0 : s->sc].all, &s->all),
	       "a slab is in none of its owner's lists", at);
}

static int check_slab(void *arg, struct slab *s) {
	struct checker *c = arg;
	const struct mosaic *m = slab_mosaic(s);
	struct pagemap_entry e = pagemap_find(s->base);
	uint32_t code = m != NULL ? TAG_MOSAIC : (uint32_t)s->sc << SC_CODE_SHIFT;
	if (s->base % GRANULE != 0 || s->base == 0 || s->sc == 0 || s->sc >= SC_COUNT) {
		say(c, "a slab's description is damaged", s);
		return 0;
	}
	expect(c, remote_is_emptied(s) || (e.desc == s && (e.tag & TAG_CODE_MASK) == code),
	       "the page map and a slab disagree", (void *)s->base);
	if (s->ss != NULL && !remote_is_emptied(s))
		expect(c, s->base - s->ss->base < SUPERSLAB &&
		       (s->ss->free >> ((s->base - s->ss->base) >> GRANULE_SHIFT) & 1) == 0,
		       "a slab's granule is free in its SuperSlab", (void *)s->base);
	if (m != NULL)
		check_mosaic(c, s, m);
	else
		check_plain(c, s);
	check_owner(c, s);
	return 0;
}

/* ---- heaps ---- */

static void check_ready(struct checker *c, const struct heap *h, unsigned sc) {
	for (struct list_node *n = h->classes[sc].ready.first; n != NULL; n = n->next) {
		const struct slab *s = slab_of_ready_node(n);
		expect(c, s->in_use && s->sc == sc && atomic_load_explicit(&s->owner, memory_order_relaxed) == &h->inbox,
		       "a ready list holds others' slabs", (void *)s->base);
		expect(c, s != h->classes[sc].current, "a slab is ready and current", (void *)s->base);
	}
}

static size_t check_classes(struct checker *c, const struct heap *h) {
	size_t slabs = 0;
	for (unsigned sc = 0; sc < SC_COUNT; sc++) {
		size_t n = 0;
		for (struct list_node *at = h->classes[sc].all.first; at != NULL; at = at->next)
			n++;
		if (sc != 0)
			check_ready(c, h, sc);
		slabs += n;
	}
	return slabs;
}

static void check_heaps(struct checker *c) {
	size_t slabs = 0, pocketed = 0;
	for (const struct heap *h = heap_registry(); h != NULL; h = h->next) {
		size_t n = check_classes(c, h);
		expect(c, n == h->slabs || h->forsaken, "a heap has not as many slabs as it says", h);
		const char *wrong = h->forsaken ? NULL : pocket_check(&h->pocket);
		if (wrong != NULL)
			say(c, wrong, h);
		slabs += n;
		pocketed += pocket_spans(&h->pocket);
	}
	expect(c, pocketed == hak_space.pocketed, "the sum over pockets is wrong", NULL);
	expect(c, slabs == c->slabs, "an owner's slab is in no list", NULL);
}

/* ---- large blocks ---- */

static void check_large(struct checker *c, struct large *l) {
	uintptr_t base = (uintptr_t)l->span.base;
	expect(c, large_keeper(l) == KEPT_NOT, "a cache keeps a live block", l->span.base);
	expect(c, l->usable <= l->span.granules * GRANULE, "a large block is larger than its span", l->span.base);
	for (size_t i = 0; i < l->span.granules; i++) {
		struct pagemap_entry e = pagemap_find(base + i * GRANULE);
		if (e.tag != TAG_LARGE || e.desc != l) {
			say(c, "the page map does not lead to a large block", l->span.base);
			break;
		}
	}
}

static void check_larges(struct checker *c) {
	for (struct large_chunk *chunk = *large_chunks(); chunk != NULL; chunk = chunk->next)
		for (unsigned i = 0; i < LARGE_CHUNK; i++)
			if (atomic_load_explicit(&chunk->large[i].state, memory_order_relaxed) == LARGE_LIVE)
				check_large(c, &chunk->large[i]);
	struct large_sums sums = large_sum();
	expect(c, sums.big == space_big() && sums.in_superslabs == hak_space.large,
	       "the sums over large blocks are wrong", NULL);
}

int check_heap(void) {
	struct checker c = { 0 };
	if (!marks_make(&c.marks, say, &c)) {
		errno = ENOMEM;
		return -1;
	}
	marks_each_slab(&c.marks, check_slab, &c);
	check_heaps(&c);
	check_larges(&c);
	marks_drop(&c.marks);
	const char *const wrong[] = { superslab_check(), bigcache_check() };
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		if (wrong[i] != NULL)
			say(&c, wrong[i], NULL);
	return c.faults;
}
