/* SPDX-License-Identifier: MIT */
#include "front/nursery.h"

#include <string.h>

#include "space/pagemap.h"
#include "space/superslab.h"

enum {
	MAX_SIZE = 4096,
	CLASS_BYTES = 4096, /* of one class: one that needs more has use for a slab, which reuses blocks */
	CLASS_BLOCKS = 64,  /* likewise */
	CLASS_AGAIN = 64,   /* likewise: every free of a block from here takes the slow path */
};

struct nursery hak_nursery;

size_t nursery_used(void) {
	return __atomic_load_n(&hak_nursery.used, __ATOMIC_RELAXED);
}

HAK_EVERYDAY static bool make(void) {
	struct span span;
	if (!span_alloc(1, SPAN_DENSE, 0, &span))
		return false;
	if (!span.zero)
		memset(span.base, 0, NURSERY_BYTES);
	hak_nursery.base = (uintptr_t)span.base;
	pagemap_set(hak_nursery.base, 1, TAG_NURSERY, NULL);
	return true;
}

static bool may_take(unsigned sc, size_t size) {
	if (size > MAX_SIZE || hak_nursery.used + size > NURSERY_BYTES)
		return false;
	unsigned n = hak_nursery.taken[sc];
	return n == 0 || (n < CLASS_BLOCKS && n * size < CLASS_BYTES);
}

/* The block that was freed last, or NULL. */
HAK_EVERYDAY static void *take_again(unsigned sc, size_t size) {
	/* Relaxed: a hint, which the flag decides on. */
	uint32_t i = atomic_load_explicit(&hak_nursery.freed[sc], memory_order_relaxed);
	uint8_t freed = (uint8_t)(sc | NURSERY_FREED_FLAG);
	if (hak_nursery.again[sc] == CLASS_AGAIN)
		return NULL;
	/* Acquire: what the last holder wrote comes before what we and the next one write. */
	if (!atomic_compare_exchange_strong_explicit(&hak_nursery.unit[i], &freed, (uint8_t)sc,
	                                             memory_order_acquire, memory_order_relaxed))
		return NULL;
	hak_nursery.again[sc]++;
	return memset((void *)(hak_nursery.base + i * NURSERY_UNIT), 0, size);
}

HAK_EVERYDAY void *nursery_alloc(unsigned sc) {
	size_t size = hak_size_classes[sc].size;
	void *p = take_again(sc, size);
	if (p != NULL)
		return p;
	if (!may_take(sc, size))
		return NULL;
	if (hak_nursery.base == 0 && !make())
		return NULL;
	hak_nursery.taken[sc]++;
	uint32_t at = hak_nursery.used;
	__atomic_store_n(&hak_nursery.used, at + (uint32_t)size, __ATOMIC_RELAXED);
	/* Relaxed: who frees the block got it from our caller, after this. */
	atomic_store_explicit(&hak_nursery.unit[at / NURSERY_UNIT], (uint8_t)sc, memory_order_relaxed);
	return (void *)(hak_nursery.base + at);
}

static uint8_t unit_at(uint32_t i) {
	return atomic_load_explicit(&hak_nursery.unit[i], memory_order_relaxed);
}

HAK_EVERYDAY enum nursery_state nursery_find(uintptr_t addr, uintptr_t *blockp, unsigned *scp) {
	uintptr_t off = addr - hak_nursery.base;
	if (off >= nursery_used())
		return NURSERY_UNUSED;
	uint32_t i = (uint32_t)(off / NURSERY_UNIT);
	while (unit_at(i) == 0)
		i--; /* blocks lie side by side, and the first begins at 0 */
	*blockp = hak_nursery.base + i * NURSERY_UNIT;
	*scp = unit_at(i) & ~NURSERY_FREED_FLAG;
	if (*blockp != addr)
		return NURSERY_INSIDE;
	return (unit_at(i) & NURSERY_FREED_FLAG) != 0 ? NURSERY_FREED : NURSERY_LIVE;
}

HAK_EVERYDAY bool nursery_free(uintptr_t block) {
	uint32_t i = (uint32_t)((block - hak_nursery.base) / NURSERY_UNIT);
	/* Release: whom the block is handed to next writes after us. Of two frees one sees the class alone. */
	uint8_t sc = atomic_fetch_or_explicit(&hak_nursery.unit[i], NURSERY_FREED_FLAG, memory_order_release);
	if ((sc & NURSERY_FREED_FLAG) != 0)
		return false;
	/* Relaxed: a hint. */
	atomic_store_explicit(&hak_nursery.freed[sc], (uint16_t)i, memory_order_relaxed);
	return true;
}
