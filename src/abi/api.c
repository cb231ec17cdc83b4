/* SPDX-License-Identifier: MIT */
/* The hak_* functions. What they promise stands in hakmem.h. */
#include "hakmem.h"

#include <string.h>

#include "abi/entry.h"
#include "abi/lifecycle.h"

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
	return p != NULL ? zero_all(p) : entry_alloc(size, ALLOC_ALIGN, true, ENTRY_CALLER);
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

API HAK_COLD void *hak_rezalloc(void *ptr, size_t size) {
	if (ptr == NULL)
		return hak_zalloc(size);
	/* Behind what was asked for the block is zero by induction, so only what moves in behind the old
	   usable size, or is given up now, needs clearing. */
	size_t old;
	if (HAK_UNLIKELY(entry_find(OP_REALLOC, ptr, &old, ENTRY_CALLER) >= BLOCK_MISUSED))
		return entry_stand_in(size != 0 ? entry_alloc(size, ALLOC_ALIGN, true, ENTRY_CALLER) : NULL, ptr, min_size(old, size));
	void *p = entry_realloc(ptr, size);
	if (p == NULL)
		return NULL;
	block_clear(p, min_size(old, size), entry_usable_size(p));
	return p;
}

API HAK_COLD void *hak_aligned_alloc(size_t alignment, size_t size) {
	if (!is_alignment(alignment)) {
		errno = EINVAL;
		return NULL;
	}
	return entry_aligned(alignment, size, ENTRY_CALLER);
}

API HAK_COLD int hak_posix_memalign(void **ptrp, size_t alignment, size_t size) {
	if (!is_alignment(alignment) || alignment % sizeof(void *) != 0)
		return EINVAL;
	int saved = errno;
	void *p = entry_aligned(alignment, size, ENTRY_CALLER);
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
	entry_free_sized(ptr, size, 0, KIND_MALLOC);
}

API void hak_free_aligned_size(void *ptr, size_t alignment, size_t size) {
	entry_free_sized(ptr, size, alignment, KIND_MALLOC);
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

API HAK_COLD void *hak_expand(void *ptr, size_t size) {
	if (ptr == NULL || size > PTRDIFF_MAX)
		return NULL;
	size_t old;
	if (entry_find(OP_REALLOC, ptr, &old, ENTRY_CALLER) >= BLOCK_MISUSED)
		return NULL;
	if (size <= old)
		return ptr;
	if (!block_resize(ptr, size, true))
		return NULL;
	return entry_resized(ptr, ptr, size, ENTRY_CALLER);
}

/* A program that asks amid its work, to learn who serves it, pays no page for that. */
API HAK_EVERYDAY int hak_owns(const void *ptr) {
	uint32_t tag = pagemap_lookup((uintptr_t)ptr).tag;
	return tag != TAG_NONE && tag != TAG_LARGE_GONE;
}

API int hak_trim(size_t keep) {
	return entry_trim(keep);
}
