/* SPDX-License-Identifier: MIT */
#include "front/secure.h"

#include "base/bits.h"
#include "front/alloc.h"
#include "front/fault.h"
#include "front/guard.h"
#include "front/quarantine.h"
#include "os/os.h"

enum { LEVEL_3_RATE = 1000 };

HAK_EVERYDAY void secure_init(void) {
	if (hak_settings.secure != 0)
		space_guard();
	if (hak_settings.secure >= 3 && hak_settings.guard_rate == 0)
		hak_settings.guard_rate = LEVEL_3_RATE;
	if (hak_settings.secure < 2 && hak_settings.guard_rate == 0)
		return;
	canary_init(os_facts.random);
	fault_watch();
}

/* ---- marks ---- */

void secure_mark(uintptr_t block, unsigned sc, size_t size, enum block_kind kind) {
	size_t block_size = hak_size_classes[sc].size;
	size_t slack = block_size - CANARY_BYTES - size;
	pad_fill(block + size, slack);
	canary_store(block, block_size, kind, slack);
}

void secure_mark_large(struct large *l, size_t size) {
	l->size = size;
	pad_fill((uintptr_t)l->span.base + size, l->usable - size);
}

size_t secure_usable_size(const struct slab *s, uintptr_t block) {
	size_t size = hak_size_classes[slab_class_at(s, block)].size;
	if (!s->has_canaries)
		return size;
	uint64_t word = canary_load(block, size);
	size -= CANARY_BYTES;
	return canary_is_intact(block, word) && canary_slack(word) <= size ? size - canary_slack(word) : size;
}

void secure_set_kind(void *ptr, enum block_kind kind) {
	uintptr_t addr = (uintptr_t)ptr;
	struct pagemap_entry e = pagemap_find(addr);
	if (e.tag == TAG_LARGE) {
		((struct large *)e.desc)->kind = (uint8_t)kind;
	} else if (e.tag == TAG_GUARDED) {
		guard_set_kind(e.desc, kind);
	} else if (tag_is_slab(e.tag)) {
		const struct slab *s = e.desc;
		if (s->has_canaries)
			canary_store(addr, s->block_size, kind, canary_slack(canary_load(addr, s->block_size)));
	}
}

uintptr_t secure_link_shuffled(struct heap *h, uintptr_t first, size_t size, unsigned count, uintptr_t end) {
	enum { AT_ONCE = 256 };
	uint16_t order[AT_ONCE];
	uintptr_t link = end;
	for (unsigned from = 0; from < count; from += AT_ONCE) {
		unsigned n = (unsigned)min_size(count - from, AT_ONCE);
		for (unsigned i = 0; i < n; i++) { /* Fisher and Yates, from the inside out */
			unsigned j = (unsigned)(secure_random(h) % (i + 1));
			order[i] = order[j];
			order[j] = (uint16_t)i;
		}
		for (unsigned i = 0; i < n; i++) {
			uintptr_t block = first + (size_t)(from + order[i]) * size;
			block_set_link(block, link);
			link = link_encode(block);
		}
	}
	return link;
}

/* ---- checks ---- */

/* Does an inaccessible page end at the block? */
static bool is_behind_guard(const struct slab *s, uintptr_t block) {
	return s->has_guard && block - CANARY_BYTES < s->base + os_facts.page_size;
}

void secure_prepare_slab(const struct slab *s) {
	uintptr_t last = s->base + (slab_reserved(s) - 1) * (size_t)s->block_size;
	if (!is_behind_guard(s, last + s->block_size))
		canary_store(last, s->block_size, KIND_FREED, 0);
}

/* Is what lies directly before the block as it should be: a canary, also before the first (slab_reserved), or
   an inaccessible page? */
static bool is_front_intact(const struct slab *s, uintptr_t block) {
	uintptr_t before = block - s->block_size;
	if (is_behind_guard(s, block))
		return true;
	return canary_is_possible(before, canary_load(before, s->block_size));
}

bool secure_check(enum misuse_op op, const struct slab *s, uintptr_t block, enum block_kind kind) {
	if (!s->has_canaries)
		return true;
	size_t room = s->block_size - CANARY_BYTES;
	uint64_t word = canary_load(block, s->block_size);
	size_t slack = canary_slack(word), size = room - slack;
	if (word == 0 && block_looks_free(block)) /* else an overflow of zeros, as of a list that ends with a null pointer */
		return misuse_invalid(op, block);
	if (!canary_is_intact(block, word) || slack > room)
		return misuse_written(MISUSE_BEHIND, block, room);
	if (canary_kind(word) == KIND_FREED)
		return misuse_freed(op, block, size);
	if (!pad_holds(block + size, slack))
		return misuse_written(MISUSE_BEHIND, block, size);
	if (!is_front_intact(s, block))
		return misuse_written(MISUSE_BEFORE, block, size);
	if (misuse_is_other_kind(kind, canary_kind(word)))
		return misuse_kinds(block, size, kind, canary_kind(word));
	return true;
}

bool secure_check_large(enum misuse_op op, struct large *l, enum block_kind kind) {
	uintptr_t base = (uintptr_t)l->span.base;
	if (secure_has_canaries() && !pad_holds(base + l->size, l->usable - l->size))
		return misuse_written(MISUSE_BEHIND, base, l->size);
	if (misuse_is_other_kind(kind, l->kind))
		return misuse_kinds(base, l->size, kind, l->kind);
	return true;
}

void secure_check_slab(const struct slab *s) {
	for (unsigned i = slab_reserved(s); i < s->carved; i++) {
		uintptr_t block = s->base + (size_t)i * s->block_size;
		if (!canary_is_possible(block, canary_load(block, s->block_size)))
			misuse_written(MISUSE_BEHIND, block, s->block_size - CANARY_BYTES);
	}
}

void secure_forget_uncarved(const struct slab *s) {
	for (unsigned i = slab_reserved(s); i < s->carved; i++) {
		uintptr_t block = s->base + (size_t)i * s->block_size;
		if (!canary_is_possible(block, canary_load(block, s->block_size)))
			*canary_word(block, s->block_size) = 0;
	}
}

_Atomic bool hak_secure_believes;

/* Would a request of this size and alignment have got a block of this class? */
static bool size_is_of_class(unsigned sc, size_t size, size_t align) {
	if (size > SC_MAX_SIZE)
		return false;
	return sc == sc_of(size) || (align > ALLOC_ALIGN && sc == sc_of_aligned(size, align));
}

/* May a block of `is` usable bytes have `size`, as far as can be told? What malloc made may have been made
   smaller by realloc since, and stayed in its block. */
static bool size_is_plausible(uint32_t tag, size_t is, size_t size, size_t align, enum block_kind kind) {
	if (tag == TAG_GUARDED || (secure_has_canaries() && tag != TAG_NURSERY))
		return is == max_size(size, 1);
	if (tag == TAG_LARGE)
		return size <= is && (large_good_size(size) == is || size <= SC_MAX_SIZE);
	if (kind == KIND_MALLOC && atomic_load_explicit(&hak_secure_believes, memory_order_relaxed))
		return size <= is;
	return size_is_of_class(sc_of(is), size, align) || (kind == KIND_MALLOC && size_fits_well(is, size));
}

bool secure_check_sized(const void *ptr, size_t size, size_t align, enum block_kind kind) {
	uintptr_t addr = (uintptr_t)ptr;
	uint32_t tag = pagemap_find(addr).tag;
	size_t is;
	enum block_found found = block_usable_size(OP_FREE, ptr, &is);
	if (found != BLOCK_OURS)
		return found == BLOCK_FOREIGN; /* which the free itself will see; misuse has been told */
	if (align > ALLOC_ALIGN && (addr & (align - 1)) != 0)
		return misuse_wrong(addr, is, "alignment", align);
	return size_is_plausible(tag, is, size, align, kind) || misuse_wrong(addr, is, "size", size);
}

/* ---- freeing ---- */

void secure_free(struct heap *h, struct slab *s, uintptr_t block) {
	size_t size = s->block_size;
	if (!s->has_canaries) {
		memory_clear(block, hak_size_classes[slab_class_at(s, block)].size);
		block_put(h, s, block);
		return;
	}
	size_t slack = canary_slack(canary_load(block, size));
	memory_clear(block, size - CANARY_BYTES);
	canary_store(block, size, KIND_FREED, slack);
	if (h != NULL && h->quarantine != NULL && !block_is_locked_heaps(s))
		quarantine_add(h, s, block);
	else
		block_put(h, s, block);
}
