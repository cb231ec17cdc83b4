/* SPDX-License-Identifier: MIT */
#include "abi/entry.h"

#include <string.h>

#include "abi/fork.h"
#include "abi/libc.h"
#include "abi/lifecycle.h"
#include "base/settings.h"
#include "front/bins.h"
#include "front/large.h"
#include "front/reuse.h"
#include "front/sampling.h"
#include "front/secure.h"
#include "front/watch.h"
#include "observe/profile.h"
#include "observe/sample.h"

static bool goes_to_libc(size_t size) {
	if (HAK_LIKELY(hak_settings.wrap_tiny && !hak_settings.disable))
		return false;
	lifecycle_init(); /* at the first call nothing is set */
	return hak_settings.disable || (!hak_settings.wrap_tiny && size <= SC_TINY_MAX);
}

static void *alloc_here(size_t size, size_t align, bool zero, const void *caller) {
	struct heap *h = lifecycle_heap();
	if (profile_is_due())
		profile_begin(caller);
	if (h == NULL) {
		struct locked_heap *late = lifecycle_late_heap();
		return late != NULL ? locked_heap_alloc(late, size, align, zero) : NULL;
	}
	heap_enter(h);
	h->caller = caller;
	sampling_look(h);
	void *p = HAK_LIKELY(h->sampling == NULL) ? alloc_block(h, size, align, zero) :
		sample_alloc(h, size, align, zero, caller);
	watch_look(h);
	heap_leave(h);
	return p;
}

HAK_NOINLINE static void *alloc_any(size_t size, size_t align, bool zero, const void *caller) {
	if (HAK_UNLIKELY(goes_to_libc(size))) {
		bool have;
		void *p = libc_alloc(size, align, zero, &have);
		if (have)
			return p;
	}
	void *p = alloc_here(size, align, zero, caller);
	if (HAK_UNLIKELY(p == NULL))
		errno = ENOMEM;
	return p;
}

/* A large block, which need not be zero. */
HAK_NOINLINE HAK_EVERYDAY_SMALL static void *alloc_reused(struct heap *h, size_t size, const void *caller) {
	void *p = reuse_alloc(h, size);
	return HAK_LIKELY(p != NULL) ? p : alloc_any(size, ALLOC_ALIGN, false, caller);
}

/* A small block, likewise. */
HAK_NOINLINE static void *alloc_refilled(struct heap *h, size_t size, const void *caller) {
	void *p = goes_to_libc(size) || secure_is_on() ? NULL : alloc_short(h, size, caller);
	return HAK_LIKELY(p != NULL) ? p : alloc_any(size, ALLOC_ALIGN, false, caller);
}

void *entry_alloc(size_t size, size_t align, bool zero, const void *caller) {
	struct heap *h = hak_tcache.heap;
	if (h == NULL || align > ALLOC_ALIGN || zero || profile_is_due())
		return alloc_any(size, align, zero, caller);
	if (size > SC_MAX_SIZE)
		return alloc_reused(h, size, caller);
	void *p = bin_pop_listed(h, sc_of(size));
	return HAK_LIKELY(p != NULL) ? p : alloc_refilled(h, size, caller);
}

void *entry_alloc_as(size_t size, size_t align, unsigned kind, const void *caller) {
	void *p = align > ALLOC_ALIGN ? entry_aligned(align, size, caller) : entry_alloc(size, align, false, caller);
	if ((secure_is_on() || hak_settings.guard_rate != 0) && p != NULL)
		secure_set_kind(p, (enum block_kind)kind);
	return p;
}

/* The pointer is not ours. Is it libc's, or nobody's, which is reported? */
static bool is_libcs(enum misuse_op op, const void *ptr) {
	return libc_may_own(ptr) || misuse_invalid(op, (uintptr_t)ptr);
}

/* For the quarantine. Not before the thread runs in a frame of ours: to see its end otherwise takes the loader's
   lock (pthread_create.c). */
HAK_FAR static struct heap *new_heap_to_free(void) {
	if (!hak_tcache.exit_is_seen)
		return NULL;
	int saved = errno;
	struct heap *h = lifecycle_heap();
	errno = saved;
	return h;
}

/* What the short way refused. */
HAK_NOINLINE static void release_any(void *ptr, unsigned kind, const void *caller) {
	/* The bins this thread frees into take blocks from here on only if it has a heap; a thread that
	   frees before it allocates anything does not need one. */
	struct heap *h = hak_tcache.heap;
	if (HAK_UNLIKELY(h == NULL) && secure_has_canaries())
		h = new_heap_to_free();
	else if (HAK_UNLIKELY(h != NULL && h->busy))
		h = NULL; /* a signal handler frees amid a slow path: as another thread would */
	if (h != NULL) {
		heap_enter(h);
		h->caller = caller;
		heap_answer(h);
		if (HAK_UNLIKELY(h->is_watched && hak_tcache.heap == h)) /* else: a fork child returned into this */
			watch_count(h, (uintptr_t)ptr);
		sampling_look(h); /* what the thread was called for, if frees are quick again */
	}
	/* A handler amid a slow path, whose heap is not `h`, waits for nothing: the thread may hold it. The block is lost
	   rather than that. */
	bool may_wait = h == hak_tcache.heap;
	bool ours = HAK_UNLIKELY(sample_has_blocks() && !sample_freed(h, ptr, may_wait)) || free_block_as(h, ptr, kind);
	if (h != NULL) {
		watch_look(h);
		heap_leave(h);
	}
	if (HAK_LIKELY(ours))
		return;
	if (!is_libcs(OP_FREE, ptr))
		return;
	if (h != NULL)
		COUNT(h->count.foreign_free);
	libc_free(ptr);
}

HAK_NOINLINE static void release(void *ptr, unsigned kind, const void *caller) {
	fork_repair_if_due();
	release_any(ptr, kind, caller);
}

/* Kept apart, so that the ways of small blocks do without most of its frame. */
HAK_NOINLINE HAK_EVERYDAY_SMALL static void release_large(void *ptr, unsigned kind, const void *caller) {
	struct heap *h = hak_tcache.heap;
	if (h != NULL && !h->busy && !sample_has_blocks()) {
		struct pagemap_entry e = pagemap_lookup((uintptr_t)ptr);
		if (HAK_LIKELY(e.tag == TAG_LARGE && reuse_free(h, e.desc, ptr)))
			return;
	}
	release(ptr, kind, caller);
}

/* The ways on which nobody wants to see a small block. False: nothing has been done. */
static bool release_unseen(void *ptr, const void *caller) {
	struct heap *h = hak_tcache.heap;
	if (HAK_UNLIKELY(sample_has_blocks() || (h != NULL ? h->busy : fork_repair_is_due())))
		return false;
	struct pagemap_entry e = pagemap_lookup((uintptr_t)ptr);
	return h != NULL ? free_short(h, e, ptr, caller) : free_without_heap(e, ptr);
}

HAK_NOINLINE static void release_slowly(void *ptr, unsigned kind, const void *caller) {
	if (ptr != NULL && !release_unseen(ptr, caller))
		release(ptr, kind, caller);
}

/* What the fast path refused. What release_slowly does is kept apart, so that these two ways need no frame. */
HAK_NOINLINE static void release_as(void *ptr, uintptr_t code, unsigned kind, const void *caller) {
	if ((code & TAG_CODE_MASK) == TAG_LARGE)
		release_large(ptr, kind, caller);
	else if (!tcache_free_counted(ptr, code) && !tcache_free_in_mosaic(ptr, code))
		release_slowly(ptr, kind, caller);
}

void entry_free_as(void *ptr, unsigned kind) {
	uintptr_t code = tcache_code(ptr);
	if (!tcache_free(ptr, code))
		release_as(ptr, code, kind, ENTRY_CALLER);
}

void entry_free_sized(void *ptr, size_t size, size_t align, unsigned kind) {
	uintptr_t code = tcache_code(ptr);
	if (tcache_free(ptr, code))
		return;
	const void *caller = ENTRY_CALLER;
	if (secure_is_on() && ptr != NULL) {
		if (hak_tcache.heap != NULL)
			hak_tcache.heap->caller = caller;
		if (!secure_check_sized(ptr, size, align, (enum block_kind)kind))
			return;
	}
	release_as(ptr, code, kind, caller);
}

void entry_free(void *ptr, uintptr_t code, const void *caller) {
	release_as(ptr, code, KIND_MALLOC, caller);
}

void *entry_calloc(size_t count, size_t size) {
	size_t total;
	if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &total))) {
		errno = ENOMEM;
		return NULL;
	}
	void *p = tcache_alloc(total);
	if (HAK_LIKELY(p != NULL))
		return memset(p, 0, total);
	return entry_alloc(total, ALLOC_ALIGN, true, ENTRY_CALLER);
}

void *entry_aligned(size_t align, size_t size, const void *caller) {
	unsigned sc = goes_to_libc(size) ? 0 : alloc_class(size, align);
	void *p = sc != 0 ? tcache_alloc_of(sc) : NULL;
	return HAK_LIKELY(p != NULL) ? p : entry_alloc(size, align, false, caller);
}

HAK_FAR void entry_sample(struct locked_heap *of, void *ptr, size_t size, const void *caller) {
	struct heap *h = sample_is_on() ? lifecycle_heap() : hak_tcache.heap;
	if (h == NULL || h->busy) /* a signal handler amid a slow path */
		return;
	heap_enter(h);
	sampling_look(h);
	if (h->sampling != NULL)
		sample_heap_block(h, of, ptr, size, caller);
	watch_look(h);
	heap_leave(h);
}

HAK_FAR static void sample_again(const void *old, void *ptr, size_t size, const void *caller) {
	const struct large *l = large_of((uintptr_t)ptr);
	sample_freed(hak_tcache.heap, old, true);
	entry_sample(l != NULL ? l->heap : NULL, ptr, size, caller);
}

void *entry_resized(const void *old, void *ptr, size_t size, const void *caller) {
	if (HAK_UNLIKELY(sample_has_blocks()) && size > SC_MAX_SIZE)
		sample_again(old, ptr, size, caller);
	return ptr;
}

/* A small block's usable size, 0 if it takes a closer look; and its tcache_code. */
struct small {
	size_t size;
	uintptr_t code;
};

HAK_NOINLINE static struct small small_at(const void *ptr) {
	uintptr_t code = tcache_code(ptr);
	size_t size = tcache_usable_size(ptr, code);
	return (struct small){ HAK_LIKELY(size != 0) ? size : small_usable_size(ptr), code };
}

/* Whatever small_at did not find. */
HAK_COLD static enum block_found find_other(enum misuse_op op, const void *ptr, size_t *sizep, const void *caller) {
	fork_repair_if_due();
	if (hak_tcache.heap != NULL)
		hak_tcache.heap->caller = caller;
	enum block_found found = block_usable_size(op, ptr, sizep);
	if (HAK_LIKELY(found != BLOCK_FOREIGN))
		return found;
	bool is_block = is_libcs(op, ptr);
	*sizep = is_block ? libc_usable_size(ptr) : 0;
	return is_block ? BLOCK_FOREIGN : BLOCK_MISUSED;
}

HAK_FAR void *entry_stand_in(void *p, const void *ptr, size_t size) {
	if (p != NULL)
		memcpy(p, ptr, size);
	return p;
}

/* The contents move to `p`. `code`: of `ptr`, of this moment. Gives back `p`. */
HAK_INLINE void *realloc_into(void *p, void *ptr, size_t size, uintptr_t code, const void *caller) {
	memcpy(p, ptr, size);
	if (!tcache_free(ptr, code))
		entry_free(ptr, code, caller);
	return p;
}

/* For realloc_copy, if no bin has a block. */
HAK_NOINLINE static void *realloc_slowly(void *ptr, size_t old, size_t size, const void *caller) {
	int saved = errno;
	void *p = entry_alloc(size, ALLOC_ALIGN, false, caller);
	if (HAK_LIKELY(p != NULL)) /* the thread may have another heap now */
		return realloc_into(p, ptr, min_size(old, size), small_at(ptr).code, caller);
	if (size > old)
		return NULL;
	block_resize(ptr, size, true);
	secure_believe();
	errno = saved;
	return ptr;
}

/* A new block with the contents of the old one. A block that cannot shrink stays. `code`: tcache_code, of this moment. */
HAK_NOINLINE static void *realloc_copy(void *ptr, size_t old, size_t size, uintptr_t code, const void *caller) {
	void *p = tcache_alloc(size);
	return HAK_LIKELY(p != NULL) ? realloc_into(p, ptr, min_size(old, size), code, caller) :
		realloc_slowly(ptr, old, size, caller);
}

void *entry_regrow(void *ptr, size_t size, enum regrowth how) {
	return block_resize(ptr, size, false) ? ptr : how != MAY_NOT_MOVE ? block_move(ptr, size, how == MUST_MOVE) : NULL;
}

HAK_FAR void *entry_not_regrown(void *ptr) {
	struct large *l = large_of((uintptr_t)ptr);
	if (l != NULL)
		large_stop_growing(l);
	return NULL;
}

/* All but a small block that gets another plain size: small rather than fast. */
HAK_COLD static void *realloc_other(void *ptr, size_t size, const void *caller) {
	size_t old;
	enum block_found found = find_other(OP_REALLOC, ptr, &old, caller);
	if (HAK_UNLIKELY(found >= BLOCK_MISUSED))
		return entry_stand_in(size != 0 ? entry_alloc(size, ALLOC_ALIGN, false, caller) : NULL, ptr, min_size(old, size));
	if (size == 0) {
		release(ptr, KIND_MALLOC, caller);
		return NULL;
	}
	if (HAK_UNLIKELY(found == BLOCK_FOREIGN))
		return libc_realloc(ptr, size);
	if (HAK_UNLIKELY(size > PTRDIFF_MAX)) {
		errno = ENOMEM;
		return NULL;
	}
	int saved = errno;
	void *p = entry_regrow(ptr, size, MAY_MOVE);
	if (p == NULL) {
		p = realloc_copy(ptr, old, size, small_at(ptr).code, caller);
		if (p != NULL) {
			errno = saved;
			return p;
		}
		/* What caches had, and gave back now, was not enough for a second block; for more of this one it may be. */
		p = entry_regrow(ptr, size, MUST_MOVE);
	}
	if (p == NULL)
		return entry_not_regrown(ptr);
	errno = saved;
	return entry_resized(ptr, p, size, caller);
}

void *entry_realloc(void *ptr, size_t size) {
	if (ptr == NULL)
		return entry_malloc(size);
	struct small small = small_at(ptr);
	if (HAK_LIKELY(size != 0 && size_fits_well(small.size, size)))
		return ptr;
	if (HAK_LIKELY(small.size != 0 && size - 1 < PTRDIFF_MAX))
		return realloc_copy(ptr, small.size, size, small.code, ENTRY_CALLER);
	return realloc_other(ptr, size, ENTRY_CALLER);
}

/* Programs that keep books of their memory (redis) ask at each malloc and free. */
size_t entry_usable_size(const void *ptr) {
	size_t size = small_at(ptr).size;
	if (HAK_UNLIKELY(size == 0) && ptr != NULL)
		find_other(OP_USABLE_SIZE, ptr, &size, ENTRY_CALLER);
	return size;
}

HAK_FAR enum block_found entry_find(enum misuse_op op, const void *ptr, size_t *sizep, const void *caller) {
	*sizep = small_at(ptr).size;
	return HAK_LIKELY(*sizep != 0) ? BLOCK_OURS : find_other(op, ptr, sizep, caller);
}

HAK_FAR int entry_trim(size_t keep) {
	struct heap *h = lifecycle_heap();
	if (h == NULL)
		return 0;
	heap_enter(h);
	h->caller = ENTRY_CALLER;
	bool any = release_memory(h, keep);
	heap_leave(h);
	return any;
}
