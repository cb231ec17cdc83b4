/* SPDX-License-Identifier: MIT */
/* The hak_* functions of first-class heaps. What they promise stands in hakmem.h. */
#include "hakmem.h"

#include <string.h>

#include "abi/entry.h"
#include "abi/fork.h"
#include "abi/lifecycle.h"
#include "front/large.h"
#include "front/secure.h"
#include "observe/sample.h"

#define API HAK_EXPORT

/* Whoever uses a heap comes by here before it takes a lock. */
static struct locked_heap *of_public(hak_heap_t *heap) {
	fork_repair_if_due();
	return (struct locked_heap *)(void *)heap;
}

/* What alloc_block does for the heap it is called with, for the calling thread's own. False: there is no use in asking
   once more. */
static bool release_own(size_t size, size_t align) {
	struct heap *h = hak_tcache.heap;
	if (h == NULL || h->busy)
		return false;
	heap_enter(h);
	bool done = release_for(h, size, align);
	heap_leave(h);
	return done;
}

static void *heap_alloc(hak_heap_t *heap, size_t size, size_t align, bool zero) {
	struct locked_heap *lh = of_public(heap);
	void *p = locked_heap_alloc(lh, size, align, zero);
	if (HAK_UNLIKELY(p == NULL) && release_own(size, align))
		p = locked_heap_alloc(lh, size, align, zero);
	if (p == NULL)
		errno = ENOMEM;
	else if (HAK_UNLIKELY(sample_has_blocks()))
		entry_sample(lh, p, size, ENTRY_CALLER);
	return p;
}

API hak_heap_t *hak_heap_new(void) {
	lifecycle_init();
	fork_repair_if_due();
	struct locked_heap *lh = locked_heap_new();
	if (lh == NULL)
		errno = ENOMEM;
	return (hak_heap_t *)(void *)lh;
}

API void *hak_heap_malloc(hak_heap_t *heap, size_t size) {
	return heap_alloc(heap, size, ALLOC_ALIGN, false);
}

API void *hak_heap_calloc(hak_heap_t *heap, size_t count, size_t size) {
	size_t total;
	if (__builtin_mul_overflow(count, size, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	return heap_alloc(heap, total, ALLOC_ALIGN, true);
}

API void *hak_heap_zalloc(hak_heap_t *heap, size_t size) {
	return heap_alloc(heap, size, ALLOC_ALIGN, true);
}

/* A large block of another heap would stay its. */
static void *regrow(hak_heap_t *heap, void *ptr, size_t size, enum regrowth how) {
	const struct large *l = large_of((uintptr_t)ptr);
	return entry_regrow(ptr, size, l != NULL && l->heap == (struct locked_heap *)(void *)heap ? how : MAY_NOT_MOVE);
}

API void *hak_heap_realloc(hak_heap_t *heap, void *ptr, size_t size) {
	if (ptr == NULL)
		return hak_heap_malloc(heap, size);
	size_t old;
	if (HAK_UNLIKELY(entry_find(OP_REALLOC, ptr, &old, ENTRY_CALLER) >= BLOCK_MISUSED))
		return entry_stand_in(size != 0 ? hak_heap_malloc(heap, size) : NULL, ptr, min_size(old, size));
	if (size == 0) {
		entry_free_as(ptr, KIND_MALLOC);
		return NULL;
	}
	int saved = errno;
	bool grows = size > old && size <= PTRDIFF_MAX;
	void *regrown = NULL, *p = NULL;
	if (grows)
		regrown = regrow(heap, ptr, size, MAY_MOVE);
	else if (size > SC_MAX_SIZE && size < old)
		regrown = entry_regrow(ptr, size, MAY_NOT_MOVE); /* stays where it is, and whose it is */
	if (regrown == NULL && (size <= old / 2 || size > old)) {
		p = hak_heap_malloc(heap, size);
		if (p == NULL && grows)
			regrown = regrow(heap, ptr, size, MUST_MOVE); /* as realloc_other does */
	}
	if (regrown != NULL) {
		errno = saved;
		return entry_resized(ptr, regrown, size, ENTRY_CALLER);
	}
	if (p != NULL) {
		memcpy(p, ptr, min_size(old, size));
		entry_free_as(ptr, KIND_MALLOC);
	}
	if (p != NULL)
		return p;
	if (size > old)
		return entry_not_regrown(ptr);
	block_resize(ptr, size, true); /* it stays, and its free will name the new size */
	if (size <= old / 2)
		secure_believe();
	errno = saved;
	return ptr;
}

API void *hak_heap_aligned_alloc(hak_heap_t *heap, size_t alignment, size_t size) {
	if (!is_alignment(alignment)) {
		errno = EINVAL;
		return NULL;
	}
	return heap_alloc(heap, size, alignment, false);
}

API void hak_heap_destroy(hak_heap_t *heap) {
	if (heap == NULL)
		return;
	if (HAK_UNLIKELY(sample_has_blocks()))
		sample_heap_destroyed(of_public(heap));
	locked_heap_destroy(of_public(heap));
}
