/* SPDX-License-Identifier: MIT */
#include "front/nursery.h"

#include <stdatomic.h>
#include <string.h>

#include "space/pagemap.h"
#include "space/superslab.h"

enum {
	NURSERY_BYTES = 32 * 1024,
	MAX_SIZE = 4096,
	CLASS_BYTES = 4096, /* of one class: one that needs more has use for a slab, which reuses blocks */
	CLASS_BLOCKS = 64,  /* likewise */
	UNIT = 16,
	UNIT_FREED = 0x80,
};
static_assert((int)SC_COUNT <= (int)UNIT_FREED, "class and flag share a byte");

static struct {
	uintptr_t base; /* 0: not made yet */
	uint32_t used;  /* bytes; the first heap's thread writes */
	uint8_t taken[SC_COUNT]; /* blocks of each class; likewise */
	_Atomic uint8_t unit[NURSERY_BYTES / UNIT];
} nursery;

size_t nursery_used(void) {
	return __atomic_load_n(&nursery.used, __ATOMIC_RELAXED);
}

static bool make(void) {
	struct span span;
	if (!span_alloc(1, SPAN_SLAB, &span))
		return false;
	if (!span.zero)
		memset(span.base, 0, NURSERY_BYTES);
	nursery.base = (uintptr_t)span.base;
	pagemap_set(nursery.base, 1, TAG_NURSERY, NULL);
	return true;
}

static bool may_take(unsigned sc, size_t size) {
	if (size > MAX_SIZE || nursery.used + size > NURSERY_BYTES)
		return false;
	unsigned n = nursery.taken[sc];
	return n == 0 || (n < CLASS_BLOCKS && n * size < CLASS_BYTES);
}

void *nursery_alloc(unsigned sc) {
	size_t size = hak_size_classes[sc].size;
	if (!may_take(sc, size))
		return NULL;
	if (nursery.base == 0 && !make())
		return NULL;
	nursery.taken[sc]++;
	uint32_t at = nursery.used;
	__atomic_store_n(&nursery.used, at + (uint32_t)size, __ATOMIC_RELAXED);
	/* Relaxed: who frees the block got it from our caller, after this. */
	atomic_store_explicit(&nursery.unit[at / UNIT], (uint8_t)sc, memory_order_relaxed);
	return (void *)(nursery.base + at);
}

static uint8_t unit_at(uint32_t i) {
	return atomic_load_explicit(&nursery.unit[i], memory_order_relaxed);
}

enum nursery_state nursery_find(uintptr_t addr, uintptr_t *blockp, unsigned *scp) {
	uintptr_t off = addr - nursery.base;
	if (off >= nursery_used())
		return NURSERY_UNUSED;
	uint32_t i = (uint32_t)(off / UNIT);
	while (unit_at(i) == 0)
		i--; /* blocks lie side by side, and the first begins at 0 */
	*blockp = nursery.base + i * UNIT;
	*scp = unit_at(i) & ~UNIT_FREED;
	if (*blockp != addr)
		return NURSERY_INSIDE;
	return (unit_at(i) & UNIT_FREED) != 0 ? NURSERY_FREED : NURSERY_LIVE;
}

bool nursery_free(uintptr_t block) {
	_Atomic uint8_t *unit = &nursery.unit[(block - nursery.base) / UNIT];
	/* Relaxed: the block is never handed out again, so nobody needs to see what its last holder
	   wrote. Of two frees the exchange lets one win. */
	return (atomic_fetch_or_explicit(unit, UNIT_FREED, memory_order_relaxed) & UNIT_FREED) == 0;
}
