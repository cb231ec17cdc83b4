/* SPDX-License-Identifier: MIT */
/*
 * HAKMEM: a general-purpose memory allocator for Linux.
 *
 * Linking with libhakmem, or preloading it, replaces malloc, free and their family, and the C++
 * operators new and delete; a program needs nothing from this header for that. The functions below
 * are the same operations by name, what the malloc family cannot express, and first-class heaps.
 *
 * What holds for every function unless it says otherwise:
 *   - sizes are in bytes; a size above PTRDIFF_MAX fails with ENOMEM; size 0 gives a unique block
 *   - blocks are aligned to 16 bytes
 *   - failure is NULL with errno ENOMEM; success and every free leave errno untouched
 *   - thread-safe; not async-signal-safe
 *   - blocks may be freed by any thread, with hak_free or with free
 *   - freeing a block twice, or a pointer that was never allocated, ends the program with one line
 *     on standard error
 *   - since version 1.0
 */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <stddef.h>

#define HAKMEM_VERSION_MAJOR 1
#define HAKMEM_VERSION_MINOR 0
#define HAKMEM_VERSION_PATCH 0
#define HAKMEM_VERSION "1.0.0"

#if defined(__GNUC__)
#define HAK_ATTR(...) __attribute__((__VA_ARGS__))
#else
#define HAK_ATTR(...)
#endif

#ifdef __cplusplus
extern "C" {
#define HAK_NOEXCEPT noexcept
#else
#define HAK_NOEXCEPT
#endif

/* Version of the library at run time, such as "1.0.0". Never NULL; static storage.
   Async-signal-safe. */
HAK_ATTR(const)
const char *hak_version(void) HAK_NOEXCEPT;

/* ---- The malloc family by name ---- */

/* A block of at least `size` bytes, contents undefined. */
HAK_ATTR(malloc, alloc_size(1), warn_unused_result)
void *hak_malloc(size_t size) HAK_NOEXCEPT;

/* A block of at least `count` * `size` bytes, that many of them zero. ENOMEM if the product
   overflows. */
HAK_ATTR(malloc, alloc_size(1, 2), warn_unused_result)
void *hak_calloc(size_t count, size_t size) HAK_NOEXCEPT;

/* A block of at least `size` bytes, every usable byte zero (see hak_usable_size). */
HAK_ATTR(malloc, alloc_size(1), warn_unused_result)
void *hak_zalloc(size_t size) HAK_NOEXCEPT;

/* Resizes the block `ptr` to at least `size` bytes, moving it if need be; contents are kept up to
   the smaller of both sizes. NULL `ptr`: as hak_malloc. Size 0 with a block: frees it and gives
   NULL. On failure the block stays as it was. */
HAK_ATTR(alloc_size(2), warn_unused_result)
void *hak_realloc(void *ptr, size_t size) HAK_NOEXCEPT;

/* As hak_realloc to `count` * `size` bytes; ENOMEM, and the block as it was, if the product
   overflows. */
HAK_ATTR(alloc_size(2, 3), warn_unused_result)
void *hak_reallocarray(void *ptr, size_t count, size_t size) HAK_NOEXCEPT;

/* As hak_realloc for a block that came from hak_zalloc or hak_rezalloc: every usable byte the
   program has not written is zero, also after growing and shrinking. */
HAK_ATTR(alloc_size(2), warn_unused_result)
void *hak_rezalloc(void *ptr, size_t size) HAK_NOEXCEPT;

/* A block of at least `size` bytes whose address is a multiple of `alignment`, a power of two up
   to PTRDIFF_MAX. errno EINVAL for any other alignment. */
HAK_ATTR(malloc, alloc_align(1), alloc_size(2), warn_unused_result)
void *hak_aligned_alloc(size_t alignment, size_t size) HAK_NOEXCEPT;

/* Stores a block of at least `size` bytes aligned to `alignment`, a power of two and a multiple of
   sizeof(void *), in *`ptrp`. Returns 0, EINVAL or ENOMEM; on failure *`ptrp` is untouched, and
   errno always is. */
HAK_ATTR(nonnull(1), warn_unused_result)
int hak_posix_memalign(void **ptrp, size_t alignment, size_t size) HAK_NOEXCEPT;

/* Frees a block. NULL does nothing. errno is untouched. */
void hak_free(void *ptr) HAK_NOEXCEPT;

/* As hak_free for a block that was allocated with `size` bytes. NULL does nothing. */
void hak_free_size(void *ptr, size_t size) HAK_NOEXCEPT;

/* As hak_free for a block that was allocated with `size` bytes aligned to `alignment`. NULL does
   nothing. */
void hak_free_aligned_size(void *ptr, size_t alignment, size_t size) HAK_NOEXCEPT;

/* ---- What malloc cannot express ---- */

/* Bytes the program may use in the block `ptr`, at least what it asked for. NULL gives 0. */
size_t hak_usable_size(const void *ptr) HAK_NOEXCEPT;

/* The usable size that hak_malloc(`size`) would give: the next size class or page multiple. A size
   that must fail comes back as it is. Async-signal-safe. */
HAK_ATTR(const)
size_t hak_malloc_good_size(size_t size) HAK_NOEXCEPT;

/* A block and what it really holds. */
struct hak_allocation {
	void *ptr;   /* NULL on failure */
	size_t size; /* usable bytes; 0 on failure */
};

/* A block of at least `size` bytes together with its usable size. */
HAK_ATTR(warn_unused_result)
struct hak_allocation hak_alloc_at_least(size_t size) HAK_NOEXCEPT;

/* Makes the block `ptr` hold at least `size` bytes without moving it. Returns `ptr`, or NULL if
   that is not possible (errno untouched); then the block stays as it was. NULL `ptr` gives NULL. */
HAK_ATTR(warn_unused_result)
void *hak_expand(void *ptr, size_t size) HAK_NOEXCEPT;

/* 1 if `ptr` lies in memory that HAKMEM handed out or keeps for handing out, else 0; any pointer
   may be asked about. Async-signal-safe. */
int hak_owns(const void *ptr) HAK_NOEXCEPT;

/* Gives memory that no live block needs back to the system now, keeping up to `keep` bytes of it.
   Returns 1 if any was given back, else 0. */
int hak_trim(size_t keep) HAK_NOEXCEPT;

/* ---- Heap profile ---- */

/* Begins a heap profile: from here on allocations are sampled, one in `mean` bytes on average (512 KiB is
   usual), with where they were made. What an earlier profile held is forgotten. Returns 0, EBUSY while
   sampling, EINVAL for a mean of 0 or above 1 GiB, or ENOMEM; errno is untouched. */
int hak_profile_start(size_t mean) HAK_NOEXCEPT;

/* Takes no more samples. Blocks in the profile are still noticed when they are freed. */
void hak_profile_stop(void) HAK_NOEXCEPT;

/* Writes the profile, as it is now, to a file that pprof reads: what lives and all that was allocated, by
   stack. In `path` %p stands for the process id, %e for the program's name. Returns 0, ENODATA if no
   profile was begun, or why the file cannot be written; errno is untouched. Async-signal-safe. */
HAK_ATTR(nonnull(1))
int hak_profile_write(const char *path) HAK_NOEXCEPT;

/* ---- First-class heaps ---- */

/* A heap whose blocks can be freed all at once. Its functions may be called by any thread, several
   at a time. */
typedef struct hak_heap hak_heap_t;

/* A new, empty heap, or NULL. It lives until hak_heap_destroy. */
HAK_ATTR(warn_unused_result)
hak_heap_t *hak_heap_new(void) HAK_NOEXCEPT;

/* As their namesakes above, with the block in `heap`. Blocks are freed one by one with hak_free or
   free, or with the heap. hak_heap_realloc puts the block in `heap` if it moves it. */
HAK_ATTR(malloc, alloc_size(2), nonnull(1), warn_unused_result)
void *hak_heap_malloc(hak_heap_t *heap, size_t size) HAK_NOEXCEPT;
HAK_ATTR(malloc, alloc_size(2, 3), nonnull(1), warn_unused_result)
void *hak_heap_calloc(hak_heap_t *heap, size_t count, size_t size) HAK_NOEXCEPT;
HAK_ATTR(malloc, alloc_size(2), nonnull(1), warn_unused_result)
void *hak_heap_zalloc(hak_heap_t *heap, size_t size) HAK_NOEXCEPT;
HAK_ATTR(alloc_size(3), nonnull(1), warn_unused_result)
void *hak_heap_realloc(hak_heap_t *heap, void *ptr, size_t size) HAK_NOEXCEPT;
HAK_ATTR(malloc, alloc_align(2), alloc_size(3), nonnull(1), warn_unused_result)
void *hak_heap_aligned_alloc(hak_heap_t *heap, size_t alignment, size_t size) HAK_NOEXCEPT;

/* Frees every block of `heap`, then the heap. No other thread may be using the heap or freeing its
   blocks meanwhile. NULL does nothing. */
void hak_heap_destroy(hak_heap_t *heap) HAK_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
