/* SPDX-License-Identifier: MIT */
#include "front/misuse.h"

#include "base/probe.h"
#include "base/report.h"
#include "front/heap.h"
#include "front/large.h"
#include "front/nursery.h"
#include "front/tcache.h"
#include "slab/mosaic.h"

static const char *const op_names[] = { "free", "realloc", "malloc_usable_size" };

/* ---- reports ---- */

static void line_block_size(struct line *l, size_t size) {
	line_str(l, " (");
	line_dec(l, size);
	line_str(l, "-byte block");
}

void misuse_freed(enum misuse_op op, uintptr_t addr, size_t size) {
	struct line l;
	HAK_PROBE2(misuse, op, addr);
	line_begin(&l);
	if (op == OP_FREE) {
		line_str(&l, "double free of ");
	} else {
		line_str(&l, op_names[op]);
		line_str(&l, " of freed block ");
	}
	line_ptr(&l, (void *)addr);
	line_block_size(&l, size);
	line_str(&l, ")");
	line_die(&l);
}

_Noreturn HAK_COLD static void die_interior(enum misuse_op op, uintptr_t addr, uintptr_t block,
                                            size_t size) {
	struct line l;
	HAK_PROBE2(misuse, op, addr);
	line_begin(&l);
	line_str(&l, op_names[op]);
	line_str(&l, " of interior pointer ");
	line_ptr(&l, (void *)addr);
	line_block_size(&l, size);
	line_str(&l, " at ");
	line_ptr(&l, (void *)block);
	line_str(&l, ")");
	line_die(&l);
}

void misuse_invalid(enum misuse_op op, uintptr_t addr) {
	struct pagemap_entry e = pagemap_lookup(addr);
	if (e.tag == TAG_LARGE_GONE && addr % GRANULE == 0)
		misuse_freed(op, addr, (size_t)e.desc);
	struct line l;
	HAK_PROBE2(misuse, op, addr);
	line_begin(&l);
	line_str(&l, op_names[op]);
	line_str(&l, " of invalid pointer ");
	line_ptr(&l, (void *)addr);
	line_die(&l);
}

/* ---- is a block on a free list? ---- */

/* The slab that a decoded link leads to, or NULL. */
static const struct slab *link_target(uintptr_t decoded) {
	struct pagemap_entry e = pagemap_lookup(decoded);
	return tag_is_slab(e.tag) ? e.desc : NULL;
}

static bool is_block_of(const struct slab *s, uintptr_t addr, unsigned sc) {
	return slab_has_block(s, addr) && slab_class_at(s, addr) == sc;
}

/* Could the block's first word have been written by us? Remote lists of mosaics mix classes. */
static bool has_plausible_link(uintptr_t block) {
	uintptr_t next = link_decode(block_link(block));
	const struct slab *target = link_target(next);
	/* Ends differ: of a slab, perhaps a deleted one, of a bin that was emptied. */
	return link_is_end(next) || (target != NULL && slab_has_block(target, next));
}

/* Walks a list that other threads may be changing: a wrong turn ends the walk, nothing worse. `sc`: the
   class of all its blocks; 0: any. */
static bool list_contains(unsigned sc, uintptr_t link, uintptr_t block) {
	for (unsigned steps = 0; steps < 1u << 16; steps++) {
		uintptr_t at = link_decode(link);
		if (at == block)
			return true;
		if (link_is_end(at))
			return false;
		const struct slab *s = link_target(at);
		if (s == NULL || !(sc != 0 ? is_block_of(s, at, sc) : slab_has_block(s, at)))
			return false;
		link = block_link(at);
	}
	return false;
}

static bool outbox_contains(const struct outbox *o, const struct slab *s, uintptr_t block) {
	for (unsigned i = 0; i < OUTBOX_SLOTS; i++)
		if (o->slot[i].slab == s &&
		    list_contains(0, link_encode(o->slot[i].batch.first), block))
			return true;
	return false;
}

/*
 * Every place a free block can be: its slab's two lists, any bin of its class, any outbox. Looking
 * at other threads' is a race, and reading the bins of a thread that exits this moment may even
 * fault; but we only come here with a block whose first word is a link, which a correct program has
 * only by copying uninitialised memory. For that program's sake a link alone is no proof.
 */
bool misuse_block_is_free(const struct slab *s, uintptr_t block) {
	unsigned sc = slab_class_at(s, block);
	if (!has_plausible_link(block))
		return false;
	if (list_contains(0, s->free, block))
		return true;
	uintptr_t remote = remote_first(atomic_load_explicit(&s->remote, memory_order_acquire));
	if (remote != 0 && list_contains(0, link_encode(remote), block))
		return true;
	for (const struct heap *h = heap_registry(); h != NULL; h = h->next) {
		const struct bin *bins = h->bins;
		const struct heap_class *hc = &h->classes[sc];
		if (bins != NULL && list_contains(sc, bins[sc].head, block))
			return true;
		if (hc->spare_count != 0 && list_contains(sc, hc->spare, block))
			return true;
		if (outbox_contains(&h->outbox, s, block))
			return true;
	}
	return false;
}

/* ---- checks ---- */

uintptr_t misuse_block_around(const struct slab *s, uintptr_t addr) {
	uintptr_t off = addr - s->base;
	const struct mosaic *m = slab_mosaic(s);
	if (m != NULL) {
		uintptr_t begin = mosaic_block_at(m, off);
		return begin < GRANULE ? s->base + begin : 0;
	}
	bool carved = sc_index(s->sc, off) < __atomic_load_n(&s->carved, __ATOMIC_RELAXED);
	return carved ? addr - off % s->block_size : 0;
}

void misuse_suspect(enum misuse_op op, const struct slab *s, uintptr_t addr) {
	uintptr_t block = misuse_block_around(s, addr);
	if (block == 0)
		misuse_invalid(op, addr);
	size_t size = hak_size_classes[slab_class_at(s, block)].size;
	if (block != addr)
		die_interior(op, addr, block, size);
	if (misuse_block_is_free(s, addr))
		misuse_freed(op, addr, size);
}

void misuse_check_nursery(enum misuse_op op, uintptr_t addr, size_t *sizep) {
	uintptr_t block;
	unsigned sc;
	enum nursery_state state = nursery_find(addr, &block, &sc);
	if (state == NURSERY_UNUSED)
		misuse_invalid(op, addr);
	*sizep = hak_size_classes[sc].size;
	if (state == NURSERY_INSIDE)
		die_interior(op, addr, block, *sizep);
	if (state == NURSERY_FREED)
		misuse_freed(op, addr, *sizep);
}

static void check_large(enum misuse_op op, const struct large *l, uintptr_t addr) {
	uintptr_t base = (uintptr_t)l->span.base;
	/* Acquire: what was freed has its final size. */
	bool live = atomic_load_explicit(&l->state, memory_order_acquire) == LARGE_LIVE;
	if (addr == base && !live)
		misuse_freed(op, addr, l->usable);
	if (live && addr - base < l->usable)
		die_interior(op, addr, base, l->usable);
	misuse_invalid(op, addr);
}

void misuse_check_granule(enum misuse_op op, struct pagemap_entry e, uintptr_t addr) {
	size_t size = (size_t)e.desc;
	switch (e.tag) {
	case TAG_LARGE:
		check_large(op, e.desc, addr);
		return;
	case TAG_LARGE_GONE:
		return;
	case TAG_LARGE_FREED:
		if (addr % GRANULE == 0)
			misuse_freed(op, addr, size);
		misuse_invalid(op, addr);
	case TAG_LARGE_CACHED:
		misuse_invalid(op, addr);
	default:
		if (size != 0 && addr % GRANULE % size == 0)
			misuse_freed(op, addr, size);
		misuse_invalid(op, addr);
	}
}
