/* SPDX-License-Identifier: MIT */
/*
 * The malloc family under its public, unversioned names, one function after the other. malloc and
 * free are their fast paths (front/tcache.h) and a tail call of the slow one.
 *
 * Where libc's manual and POSIX leave room we do what glibc does: programs depend on it.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "abi/entry.h"
#include "abi/fork.h"
#include "abi/libc.h"
#include "abi/lifecycle.h"
#include "observe/stats.h"
#include "os/os.h"

#define ABI HAK_EXPORT
#if __has_attribute(copy)
#define ABI_ALIAS(target) HAK_EXPORT __attribute__((alias(#target), copy(target)))
#else
#define ABI_ALIAS(target) HAK_EXPORT __attribute__((alias(#target)))
#endif

ABI HAK_HOT void *malloc(size_t size) {
	return entry_malloc(size);
}

ABI HAK_HOT void free(void *ptr) {
	entry_release(ptr);
}

ABI HAK_EVERYDAY void *calloc(size_t count, size_t size) {
	return entry_calloc(count, size);
}

ABI HAK_EVERYDAY void *realloc(void *ptr, size_t size) {
	return entry_realloc(ptr, size);
}

void free_sized(void *ptr, size_t size);
ABI void free_sized(void *ptr, size_t size) {
	entry_free_sized(ptr, size, 0, KIND_MALLOC);
}

void free_aligned_sized(void *ptr, size_t alignment, size_t size);
ABI void free_aligned_sized(void *ptr, size_t alignment, size_t size) {
	entry_free_sized(ptr, size, alignment, KIND_MALLOC);
}

void cfree(void *ptr);
ABI void cfree(void *ptr) {
	entry_free_as(ptr, KIND_MALLOC);
}

/* ---- alignment ---- */

ABI void *aligned_alloc(size_t alignment, size_t size) {
	if (HAK_UNLIKELY(!is_pow2(alignment))) {
		errno = EINVAL;
		return NULL;
	}
	return entry_aligned(alignment, size, ENTRY_CALLER);
}

/* Unlike aligned_alloc, rounds an alignment that is no power of two up. */
ABI void *memalign(size_t alignment, size_t size) {
	if (HAK_UNLIKELY(alignment > SIZE_MAX / 2 + 1)) {
		errno = EINVAL;
		return NULL;
	}
	return entry_aligned(next_pow2(alignment), size, ENTRY_CALLER);
}

ABI int posix_memalign(void **ptrp, size_t alignment, size_t size) {
	if (HAK_UNLIKELY(!is_pow2(alignment) || alignment % sizeof(void *) != 0))
		return EINVAL;
	int saved = errno;
	void *p = entry_aligned(alignment, size, ENTRY_CALLER);
	if (HAK_UNLIKELY(p == NULL))
		return ENOMEM; /* errno says so, too, as after libc's: programs look there */
	errno = saved;
	*ptrp = p;
	return 0;
}

static size_t page_size(void) {
	lifecycle_init();
	return os_facts.page_size;
}

ABI void *valloc(size_t size) {
	return entry_aligned(page_size(), size, ENTRY_CALLER);
}

ABI void *pvalloc(size_t size) {
	size_t page = page_size();
	if (HAK_UNLIKELY(size > PTRDIFF_MAX)) {
		errno = ENOMEM;
		return NULL;
	}
	return entry_aligned(page, align_up(size, page), ENTRY_CALLER);
}

/* ---- asking and telling ---- */

ABI size_t malloc_usable_size(void *ptr) {
	return entry_usable_size(ptr);
}

ABI HAK_COLD int malloc_trim(size_t keep) {
	int (*instead)(size_t);
	*(void **)&instead = libc_instead(LIBC_TRIM);
	return instead != NULL ? instead(keep) : entry_trim(keep);
}

/*
 * Accepted, so that programs that check believe it; most parameters tune what we do not have. Those
 * with a meaning here follow their settings instead: M_TRIM_THRESHOLD (HAKMEM_PURGE_DELAY),
 * M_MMAP_THRESHOLD (large blocks begin above 32 KiB), M_ARENA_MAX (heaps are per thread), M_PERTURB
 * (HAKMEM_SECURE). With everything switched off these are libc's, as are its blocks.
 */
ABI HAK_COLD int mallopt(int param, int value) {
	int (*instead)(int, int);
	*(void **)&instead = libc_instead(LIBC_MALLOPT);
	return instead != NULL ? instead(param, value) : 1;
}

ABI HAK_COLD struct mallinfo2 mallinfo2(void) {
	struct mallinfo2 (*instead)(void);
	*(void **)&instead = libc_instead(LIBC_MALLINFO2);
	if (instead != NULL)
		return instead();
	fork_repair_if_due();
	return stats_mallinfo2();
}

/* Fields, which are the same in both, that do not fit saturate. */
ABI HAK_COLD struct mallinfo mallinfo(void) {
	enum { FIELDS = sizeof(struct mallinfo) / sizeof(int) };
	union { struct mallinfo2 info; size_t field[FIELDS]; } from = { mallinfo2() };
	union { struct mallinfo info; int field[FIELDS]; } to;
	static_assert(sizeof from == sizeof from.info, "as many");
	for (size_t i = 0; i < FIELDS; i++)
		to.field[i] = from.field[i] > INT32_MAX ? INT32_MAX : (int)from.field[i];
	return to.info;
}

ABI HAK_COLD void malloc_stats(void) {
	void (*instead)(void);
	*(void **)&instead = libc_instead(LIBC_STATS);
	if (instead != NULL) {
		instead();
		return;
	}
	fork_repair_if_due();
	stats_print();
}

ABI HAK_COLD int malloc_info(int options, FILE *stream) {
	int (*instead)(int, FILE *);
	*(void **)&instead = libc_instead(LIBC_INFO);
	if (instead != NULL)
		return instead(options, stream);
	if (options != 0)
		return EINVAL; /* as glibc does, not as its manual says */
	fork_repair_if_due();
	return stats_print_xml(stream);
}

/* ---- the names glibc programs bind to directly ---- */

ABI_ALIAS(malloc) void *__libc_malloc(size_t size);
ABI_ALIAS(calloc) void *__libc_calloc(size_t count, size_t size);
ABI_ALIAS(realloc) void *__libc_realloc(void *ptr, size_t size);
ABI_ALIAS(free) void __libc_free(void *ptr);
ABI_ALIAS(memalign) void *__libc_memalign(size_t alignment, size_t size);
ABI_ALIAS(valloc) void *__libc_valloc(size_t size);
ABI_ALIAS(pvalloc) void *__libc_pvalloc(size_t size);
ABI_ALIAS(posix_memalign) int __posix_memalign(void **ptrp, size_t alignment, size_t size);
