/* SPDX-License-Identifier: MIT */
/* What blocks hold, and resizing them; but for the shortest way to ask (small_usable_size). */
#include <string.h>

#include "base/bits.h"
#include "front/alloc.h"
#include "front/guard.h"
#include "front/secure.h"

size_t good_size(size_t size) {
	if (secure_has_canaries())
		return large_good_size(max_size(size, 1)) != 0 ? max_size(size, 1) : 0;
	if (size <= SC_MAX_SIZE)
		return hak_size_classes[sc_of(size)].size;
	return large_good_size(size);
}

static enum block_found checked_usable_size(enum misuse_op op, const struct slab *s, uintptr_t addr, size_t *sizep) {
	if (!misuse_check_block(op, s, addr))
		return BLOCK_MISUSED;
	*sizep = secure_usable_size(s, addr);
	if (!secure_is_on() || secure_check(op, s, addr, KIND_FREED))
		return BLOCK_OURS;
	return canary_says_freed(addr, canary_load(addr, s->block_size)) ? BLOCK_MISUSED : BLOCK_DAMAGED;
}

static enum block_found other_usable_size(enum misuse_op op, struct pagemap_entry e, uintptr_t addr,
                                          size_t *sizep) {
	if (e.tag == TAG_NURSERY)
		return misuse_check_nursery(op, addr, sizep) ? BLOCK_OURS : BLOCK_MISUSED;
	if (e.tag == TAG_GUARDED) {
		const struct guarded *g = e.desc;
		*sizep = g->size;
		if (!misuse_check_guarded(op, g, addr))
			return BLOCK_MISUSED;
		return guard_check(g) ? BLOCK_OURS : BLOCK_DAMAGED;
	}
	struct large *l = large_of(addr);
	if (l != NULL && (uintptr_t)l->span.base == addr) {
		*sizep = l->size;
		return !secure_is_on() || secure_check_large(op, l, KIND_FREED) ? BLOCK_OURS : BLOCK_DAMAGED;
	}
	return misuse_check_granule(op, e, addr) ? BLOCK_FOREIGN : BLOCK_MISUSED;
}

HAK_EVERYDAY enum block_found block_usable_size(enum misuse_op op, const void *ptr, size_t *sizep) {
	uintptr_t addr = (uintptr_t)ptr;
	struct pagemap_entry e = pagemap_lookup(addr);
	enum block_found found = BLOCK_FOREIGN;
	if (tag_is_slab(e.tag))
		found = checked_usable_size(op, e.desc, addr, sizep);
	else if (e.tag != TAG_NONE)
		found = other_usable_size(op, e, addr, sizep);
	if (found == BLOCK_MISUSED)
		*sizep = 0;
	return found;
}

/* What a block could hold where it is, and what it is said to hold from now on. */
HAK_EVERYDAY static bool resize_small(uintptr_t addr, size_t size, bool wasteful) {
	struct pagemap_entry e = pagemap_lookup(addr);
	size_t room;
	if (e.tag == TAG_GUARDED)
		return guard_shrink(e.desc, size, wasteful);
	if (!tag_is_slab(e.tag))
		return block_usable_size(OP_REALLOC, (void *)addr, &room) == BLOCK_OURS &&
			(wasteful ? size <= room : size_fits_well(room, size));
	const struct slab *s = e.desc;
	room = hak_size_classes[slab_class_at(s, addr)].size - (s->has_canaries ? CANARY_BYTES : 0);
	if (wasteful ? size > room : !size_fits_well(room, size))
		return false;
	if (s->has_canaries)
		secure_mark(addr, s->sc, size, canary_kind(canary_load(addr, s->block_size)));
	return true;
}

/* One that shrinks to less than half: the next as long as it was then finds all of its span, and pages that are there. */
HAK_EVERYDAY static bool is_better_copied(const struct large *l, size_t room) {
	return room <= SC_MAX_SIZE || room < min_size(l->usable / 2, LARGE_COPIED_MOST);
}

HAK_EVERYDAY bool block_resize(void *ptr, size_t size, bool wasteful) {
	struct large *l = large_of((uintptr_t)ptr);
	if (l == NULL)
		return resize_small((uintptr_t)ptr, size, wasteful);
	size_t room = size + secure_room();
	if (!wasteful && is_better_copied(l, room))
		return false;
	room = max_size(room, SC_MAX_SIZE + 1); /* a granule has as much, and no block less than that */
	bool done = large_resize(l, room, wasteful);
	if (secure_has_canaries())
		secure_mark_large(l, done ? size : l->size); /* its pad may be gone either way */
	return done;
}

void block_clear(void *ptr, size_t from, size_t to) {
	struct large *l = large_of((uintptr_t)ptr);
	if (l != NULL)
		large_clear(l, from, to);
	else
		memset((char *)ptr + from, 0, to - from);
}

HAK_EVERYDAY void *block_move(void *ptr, size_t size, bool must) {
	struct large *l = large_of((uintptr_t)ptr);
	if (l == NULL || is_better_copied(l, size) || !large_move(l, size + secure_room(), must))
		return NULL;
	if (secure_has_canaries())
		secure_mark_large(l, size);
	return l->span.base;
}
