/* SPDX-License-Identifier: MIT */
#include "observe/visit.h"

#include <errno.h>

#include "front/canary.h"
#include "front/guard.h"
#include "front/large.h"
#include "front/nursery.h"
#include "front/secure.h"
#include "observe/marks.h"
#include "slab/mosaic.h"

struct visitor {
	struct marks marks;
	int (*visit)(const struct hak_area *area, void *arg);
	void *arg;
};

static int visit_block(void *arg, uintptr_t block, size_t size) {
	struct visitor *v = arg;
	return v->visit(&(struct hak_area){ .kind = HAK_AREA_BLOCK, .start = (void *)block, .size = size,
	                                    .block_size = size, .live = 1 }, v->arg);
}

static int visit_slab(void *arg, struct slab *s) {
	struct visitor *v = arg;
	if (remote_is_emptied(s))
		return 0;
	struct hak_area area = { .kind = HAK_AREA_SLAB, .start = (void *)s->base, .size = GRANULE,
	                         .block_size = slab_mosaic(s) != NULL ? 0 : s->block_size,
	                         .live = marks_count_live(&v->marks, s) };
	int result = v->visit(&area, v->arg);
	return result != 0 ? result : marks_each_live(&v->marks, s, visit_block, v);
}

/* The class of the live block that begins at the nursery's unit `i`; 0: none. */
static unsigned live_at(size_t i) {
	uint8_t unit = atomic_load_explicit(&hak_nursery.unit[i], memory_order_relaxed);
	return (unit & NURSERY_FREED_FLAG) != 0 ? 0 : unit;
}

static int visit_nursery(struct visitor *v) {
	size_t units = nursery_used() / NURSERY_UNIT;
	struct hak_area area = { .kind = HAK_AREA_SLAB, .start = (void *)hak_nursery.base, .size = GRANULE };
	if (units == 0)
		return 0;
	for (size_t i = 0; i < units; i++)
		area.live += live_at(i) != 0;
	int result = v->visit(&area, v->arg);
	for (size_t i = 0; i < units && result == 0; i++)
		if (live_at(i) != 0)
			result = visit_block(v, hak_nursery.base + i * NURSERY_UNIT, hak_size_classes[live_at(i)].size);
	return result;
}

static int visit_larges(struct visitor *v) {
	for (struct large_chunk *c = *large_chunks(); c != NULL; c = c->next)
		for (unsigned i = 0; i < LARGE_CHUNK; i++) {
			struct large *l = &c->large[i];
			bool live = atomic_load_explicit(&l->state, memory_order_acquire) == LARGE_LIVE;
			int result = live ? visit_block(v, (uintptr_t)l->span.base, secure_has_canaries() ? l->size : l->usable) : 0;
			if (result != 0)
				return result;
		}
	return 0;
}

static int visit_guarded(struct visitor *v) {
	int result = 0;
	for (const struct guarded *g = guard_slots(); g != NULL && result == 0; g = g->next)
		if (__atomic_load_n(&g->kind, __ATOMIC_ACQUIRE) != KIND_FREED)
			result = visit_block(v, g->ptr, g->size);
	return result;
}

int visit_heap(int (*visit)(const struct hak_area *area, void *arg), void *arg) {
	struct visitor v = { .visit = visit, .arg = arg };
	if (!marks_make(&v.marks, NULL, NULL)) {
		errno = ENOMEM;
		return -1;
	}
	int result = visit_nursery(&v);
	if (result == 0)
		result = marks_each_slab(&v.marks, visit_slab, &v);
	if (result == 0)
		result = visit_larges(&v);
	if (result == 0)
		result = visit_guarded(&v);
	marks_drop(&v.marks);
	return result;
}
