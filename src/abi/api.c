/* SPDX-License-Identifier: MIT */
/* The hak_* functions. What they promise stands in hakmem.h. */
#include "hakmem.h"

#include <string.h>

#include "abi/entry.h"
#include "abi/fork.h"
#include "abi/lifecycle.h"
#include "front/sampling.h"
#include "front/secure.h"
#include "observe/profile.h"
#include "observe/sample.h"

#define API HAK_EXPORT

API const char *hak_version(void) {
	return HAKMEM_VERSION;
}

API void *hak_malloc(size_t size) {
	return entry_malloc(size);
}

API void *hak_calloc(size_t count, size_t size) {
	return entry_calloc(count, size);
}

/* Zeroes what the program did not ask for, too: see hak_rezalloc. */
static void *zero_all(void *p) {
	if (p != NULL)
		memset(p, 0, entry_usable_size(p));
	return p;
}

API void *hak_zalloc(size_t size) {
	void *p = tcache_alloc(size);
	return p != NULL ? zero_all(p) : entry_alloc(size, ALLOC_ALIGN, true);
}

API void *hak_realloc(void *ptr, size_t size) {
	return entry_realloc(ptr, size);
}

API void *hak_reallocarray(void *ptr, size_t count, size_t size) {
	size_t total;
	if (__builtin_mul_overflow(count, size, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	return entry_realloc(ptr, total);
}

API void *hak_rezalloc(void *ptr, size_t size) {
	if (ptr == NULL)
		return hak_zalloc(size);
	/* Behind what was asked for the block is zero by induction, so only what moves in behind the old
	   usable size, or is given up now, needs clearing. */
	size_t old = entry_usable_size(ptr);
	char *p = entry_realloc(ptr, size);
	if (p == NULL)
		return NULL;
	size_t from = min_size(old, size), usable = entry_usable_size(p);
	memset(p + from, 0, usable - from);
	return p;
}

static bool is_alignment(size_t a) {
	return is_pow2(a) && a <= PTRDIFF_MAX;
}

API void *hak_aligned_alloc(size_t alignment, size_t size) {
	if (!is_alignment(alignment)) {
		errno = EINVAL;
		return NULL;
	}
	return entry_aligned(alignment, size);
}

API int hak_posix_memalign(void **ptrp, size_t alignment, size_t size) {
	if (!is_alignment(alignment) || alignment % sizeof(void *) != 0)
		return EINVAL;
	int saved = errno;
	void *p = entry_aligned(alignment, size);
	errno = saved;
	if (p == NULL)
		return ENOMEM;
	*ptrp = p;
	return 0;
}

API void hak_free(void *ptr) {
	entry_release(ptr);
}

API void hak_free_size(void *ptr, size_t size) {
	entry_release_sized(ptr, size, 0, KIND_MALLOC);
}

API void hak_free_aligned_size(void *ptr, size_t alignment, size_t size) {
	entry_release_sized(ptr, size, alignment, KIND_MALLOC);
}

API size_t hak_usable_size(const void *ptr) {
	return entry_usable_size(ptr);
}

API size_t hak_malloc_good_size(size_t size) {
	lifecycle_init();
	size_t good = good_size(size);
	return good != 0 ? good : size;
}

API struct hak_allocation hak_alloc_at_least(size_t size) {
	void *p = entry_malloc(size);
	return (struct hak_allocation){ p, entry_usable_size(p) };
}

API void *hak_expand(void *ptr, size_t size) {
	if (ptr == NULL || size > PTRDIFF_MAX)
		return NULL;
	if (size <= entry_usable_size(ptr))
		return ptr;
	if (!block_resize(ptr, size, true))
		return NULL;
	if (HAK_UNLIKELY(sample_has_blocks()) && size > SC_MAX_SIZE)
		sample_resized(hak_tcache.heap, ptr, ptr, size, __builtin_return_address(0));
	return ptr;
}

/* A program that asks amid its work, to learn who serves it, pays no page for that. */
API HAK_EVERYDAY int hak_owns(const void *ptr) {
	uint32_t tag = pagemap_lookup((uintptr_t)ptr).tag;
	return tag != TAG_NONE && tag != TAG_LARGE_GONE;
}

API int hak_trim(size_t keep) {
	return entry_trim(keep);
}

/* ---- heap profile ---- */

API int hak_profile_start(size_t mean) {
	if (mean == 0 || mean > HAK_GIB)
		return EINVAL;
	lifecycle_init();
	fork_repair_if_due();
	int saved = errno;
	bool done = sample_start(mean, NULL);
	errno = saved;
	return done ? 0 : sample_is_on() ? EBUSY : ENOMEM;
}

API void hak_profile_stop(void) {
	fork_repair_if_due();
	sample_stop();
}

API int hak_profile_write(const char *path) {
	return profile_write(path);
}

/* ---- first-class heaps ---- */

/* Whoever uses a heap comes by here before it takes a lock. */
static struct locked_heap *of_public(hak_heap_t *heap) {
	fork_repair_if_due();
	return (struct locked_heap *)(void *)heap;
}

static void *heap_alloc(hak_heap_t *heap, size_t size, size_t align, bool zero) {
	struct locked_heap *lh = of_public(heap);
	struct heap *mine = hak_tcache.heap;
	void *p = locked_heap_alloc(lh, size, align, zero);
	if (p == NULL)
		errno = ENOMEM;
	else if (HAK_UNLIKELY(mine != NULL && mine->sampling != NULL))
		sample_heap_block(mine, lh, p, size, __builtin_return_address(0));
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

API void *hak_heap_realloc(hak_heap_t *heap, void *ptr, size_t size) {
	if (ptr == NULL)
		return hak_heap_malloc(heap, size);
	size_t old = entry_usable_size(ptr);
	if (size == 0) {
		entry_release(ptr);
		return NULL;
	}
	int saved = errno;
	void *p = size <= old / 2 || size > old ? hak_heap_malloc(heap, size) : NULL;
	if (p != NULL) {
		memcpy(p, ptr, min_size(old, size));
		entry_release(ptr);
	}
	if (p != NULL || size > old)
		return p;
	errno = saved; /* a block that cannot shrink stays */
	if (secure_is_on())
		block_resize(ptr, size, true); /* what its free may say of it */
	return ptr;
}

API void *hak_heap_aligned_alloc(hak_heap_t *heap, size_t alignment, size_t size) {
	if (!is_alignment(alignment)) {
		errno = EINVAL;
		return NULL;
	}
	return heap_alloc(heap, size, alignment < ALLOC_ALIGN ? ALLOC_ALIGN : alignment, false);
}

API void hak_heap_destroy(hak_heap_t *heap) {
	if (heap == NULL)
		return;
	if (HAK_UNLIKELY(sample_has_blocks()))
		sample_heap_destroyed(of_public(heap));
	locked_heap_destroy(of_public(heap));
}
