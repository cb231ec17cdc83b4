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
 *   - blocks may be freed by any thread, with hak_free; with free, too, where the process's malloc is HAKMEM's,
 *     which it need not be where only a library is linked with it, or loads it
 *   - freeing a block twice, or a pointer that was never allocated, ends the program with one line
 *     on standard error
 *   - since version 1.0
 */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <stddef.h>
#include <stdint.h>

#define HAKMEM_VERSION_MAJOR 1
#define HAKMEM_VERSION_MINOR 0
#define HAKMEM_VERSION_PATCH 0
#define HAKMEM_VERSION "1.0.0"

/* Attributes by names that no program's macro has. */
#if defined(__GNUC__)
#define HAK_ATTR(list) __attribute__(list)
#else
#define HAK_ATTR(list)
#endif
/* The pointer is looked at, what it points to is not, and need not be initialised. */
#if defined(__GNUC__) && __GNUC__ >= 11 && !defined(__clang__) && !defined(HAKMEM_ITSELF)
#define HAK_ATTR_UNREAD HAK_ATTR((__access__(__none__, 1)))
#else
#define HAK_ATTR_UNREAD
#endif

#ifdef __cplusplus
extern "C" {
#if __cplusplus >= 201103L
#define HAK_NOEXCEPT noexcept
#else
#define HAK_NOEXCEPT throw()
#endif
#else
#define HAK_NOEXCEPT
#endif

/* Version of the library at run time, such as "1.0.0". Never NULL; static storage.
   Async-signal-safe. */
HAK_ATTR((__const__))
const char *hak_version(void) HAK_NOEXCEPT;

/* ---- The malloc family by name ---- */

/* A block of at least `size` bytes, contents undefined. */
HAK_ATTR((__malloc__, __alloc_size__(1), __warn_unused_result__))
void *hak_malloc(size_t size) HAK_NOEXCEPT;

/* A block of at least `count` * `size` bytes, that many of them zero. ENOMEM if the product
   overflows. */
HAK_ATTR((__malloc__, __alloc_size__(1, 2), __warn_unused_result__))
void *hak_calloc(size_t count, size_t size) HAK_NOEXCEPT;

/* A block of at least `size` bytes, every usable byte zero (see hak_usable_size). */
HAK_ATTR((__malloc__, __alloc_size__(1), __warn_unused_result__))
void *hak_zalloc(size_t size) HAK_NOEXCEPT;

/* Resizes the block `ptr` to at least `size` bytes, moving it if need be; contents are kept up to
   the smaller of both sizes. NULL `ptr`: as hak_malloc. Size 0 with a block: frees it and gives
   NULL. On failure the block stays as it was. */
HAK_ATTR((__alloc_size__(2), __warn_unused_result__))
void *hak_realloc(void *ptr, size_t size) HAK_NOEXCEPT;

/* As hak_realloc to `count` * `size` bytes; ENOMEM, and the block as it was, if the product
   overflows. */
HAK_ATTR((__alloc_size__(2, 3), __warn_unused_result__))
void *hak_reallocarray(void *ptr, size_t count, size_t size) HAK_NOEXCEPT;

/* As hak_realloc for a block that came from hak_zalloc or hak_rezalloc and has not been resized otherwise:
   every usable byte the program has not written is zero, also after growing and shrinking. */
HAK_ATTR((__alloc_size__(2), __warn_unused_result__))
void *hak_rezalloc(void *ptr, size_t size) HAK_NOEXCEPT;

/* A block of at least `size` bytes whose address is a multiple of `alignment`, a power of two up
   to PTRDIFF_MAX. errno EINVAL for any other alignment. */
HAK_ATTR((__malloc__, __alloc_align__(1), __alloc_size__(2), __warn_unused_result__))
void *hak_aligned_alloc(size_t alignment, size_t size) HAK_NOEXCEPT;

/* Stores a block of at least `size` bytes aligned to `alignment`, a power of two up to PTRDIFF_MAX
   and a multiple of sizeof(void *), in *`ptrp`. Returns 0, EINVAL or ENOMEM; on failure *`ptrp` is
   untouched, and errno always is. */
HAK_ATTR((__nonnull__(1), __warn_unused_result__))
int hak_posix_memalign(void **ptrp, size_t alignment, size_t size) HAK_NOEXCEPT;

/* Frees a block. NULL does nothing. errno is untouched. */
void hak_free(void *ptr) HAK_NOEXCEPT;

/* As hak_free for a block that was allocated with `size` bytes. NULL does nothing. */
void hak_free_size(void *ptr, size_t size) HAK_NOEXCEPT;

/* As hak_free for a block that was allocated with `size` bytes aligned to `alignment`. NULL does
   nothing. */
void hak_free_aligned_size(void *ptr, size_t alignment, size_t size) HAK_NOEXCEPT;

/* ---- What malloc cannot express ---- */

/* Bytes the program may use in the block `ptr`, at least what it asked for. NULL gives 0. The compiler takes a block for
   as large as was asked for, and with _FORTIFY_SOURCE stops who uses more: use hak_alloc_at_least, or go on with what
   hak_expand(ptr, hak_usable_size(ptr)) returns. */
HAK_ATTR_UNREAD
size_t hak_usable_size(const void *ptr) HAK_NOEXCEPT;

/* The usable size that hak_malloc(`size`) would give: the next size class or page multiple. A size
   that must fail comes back as it is. A block that settings have made by libc's allocator, or sampled
   between guard pages, has less, though at least what was asked for: hak_usable_size tells.
   Async-signal-safe. */
HAK_ATTR((__const__))
size_t hak_malloc_good_size(size_t size) HAK_NOEXCEPT;

/* A block and what it really holds. */
struct hak_allocation {
	void *ptr;   /* NULL on failure */
	size_t size; /* usable bytes; 0 on failure */
};

/* A block of at least `size` bytes together with its usable size. */
HAK_ATTR((__warn_unused_result__))
struct hak_allocation hak_alloc_at_least(size_t size) HAK_NOEXCEPT;

/* Makes the block `ptr` hold at least `size` bytes without moving it. Returns `ptr`, or NULL if
   that is not possible (errno untouched); then the block stays as it was. NULL `ptr` gives NULL.
   What it holds more is undefined. */
HAK_ATTR((__warn_unused_result__))
void *hak_expand(void *ptr, size_t size) HAK_NOEXCEPT;

/* 1 if `ptr` lies in memory that HAKMEM handed out or keeps for handing out, else 0; any pointer
   may be asked about. Async-signal-safe. */
HAK_ATTR_UNREAD
int hak_owns(const void *ptr) HAK_NOEXCEPT;

/* Gives memory that no live block needs back to the system now, keeping up to `keep` bytes of it. What other
   threads hold for their next blocks stays with them until they use it, trim themselves, or end. Returns 1 if any was
   given back, else 0. */
int hak_trim(size_t keep) HAK_NOEXCEPT;

/* ---- Heap profile ---- */

/* Begins a heap profile: from here on allocations are sampled, one in `mean` bytes on average (512 KiB is
   usual), with where they were made. What an earlier profile held is forgotten. The first call loads the unwinder:
   not for constructors of libraries that are loaded while other threads run. Returns 0, EBUSY while sampling, EINVAL
   for a mean of 0 or above 1 GiB, ENOMEM, or ENOTSUP where HAKMEM_SECURE hardens the heap or HAKMEM_DISABLE leaves it
   to libc: nothing is sampled then; errno is untouched. */
int hak_profile_start(size_t mean) HAK_NOEXCEPT;

/* Takes no more samples. Blocks in the profile are still noticed when they are freed. */
void hak_profile_stop(void) HAK_NOEXCEPT;

/* Writes the profile, as it is now, to a file that pprof reads: what lives and all that was allocated, by
   stack. In `path`, which then may have 511 bytes, %p stands for the process id, %e for the program's name. Returns 0,
   ENODATA if no profile was begun, or why the file cannot be written; errno is untouched. Async-signal-safe. */
HAK_ATTR((__nonnull__(1)))
int hak_profile_write(const char *path) HAK_NOEXCEPT;

/* ---- First-class heaps ---- */

/* A heap whose blocks can be freed all at once. Its functions may be called by any thread, several
   at a time. */
typedef struct hak_heap hak_heap_t;

/* A new, empty heap, or NULL. It lives until hak_heap_destroy. */
HAK_ATTR((__warn_unused_result__))
hak_heap_t *hak_heap_new(void) HAK_NOEXCEPT;

/* As their namesakes above, with the block in `heap`. Blocks are freed one by one with hak_free or
   free, or with the heap. hak_heap_realloc puts the block in `heap` if it moves it. Of one that hak_realloc, realloc or
   their like have resized it is not said whose it is. */
HAK_ATTR((__malloc__, __alloc_size__(2), __nonnull__(1), __warn_unused_result__))
void *hak_heap_malloc(hak_heap_t *heap, size_t size) HAK_NOEXCEPT;
HAK_ATTR((__malloc__, __alloc_size__(2, 3), __nonnull__(1), __warn_unused_result__))
void *hak_heap_calloc(hak_heap_t *heap, size_t count, size_t size) HAK_NOEXCEPT;
HAK_ATTR((__malloc__, __alloc_size__(2), __nonnull__(1), __warn_unused_result__))
void *hak_heap_zalloc(hak_heap_t *heap, size_t size) HAK_NOEXCEPT;
HAK_ATTR((__alloc_size__(3), __nonnull__(1), __warn_unused_result__))
void *hak_heap_realloc(hak_heap_t *heap, void *ptr, size_t size) HAK_NOEXCEPT;
HAK_ATTR((__malloc__, __alloc_align__(2), __alloc_size__(3), __nonnull__(1), __warn_unused_result__))
void *hak_heap_aligned_alloc(hak_heap_t *heap, size_t alignment, size_t size) HAK_NOEXCEPT;

/* Frees every block of `heap`, then the heap, which must not be used again: the next one may have its address.
   No other thread may be using the heap or freeing its blocks meanwhile. NULL does nothing. */
void hak_heap_destroy(hak_heap_t *heap) HAK_NOEXCEPT;

/* ---- Seeing inside ---- */

enum { HAK_STATS_CLASSES = 64, HAK_STATS_BANDS = 16 };

/* What is known of one size class. */
struct hak_stats_class {
	uint64_t size;   /* usable bytes of a block; 0: there is no such class */
	uint64_t slabs;
	uint64_t live;   /* blocks that the program has */
	uint64_t cached; /* free blocks in caches of threads, or on the way from one to another */
	uint64_t free;   /* other free blocks */
	uint64_t fresh;  /* never handed out: they cost no memory yet */
	uint64_t unused; /* bytes of the live blocks that were not asked for: an estimate from samples */
	uint64_t allocs, frees; /* as those of the process, below */
};

/* The warm pool, by bands of sizes: band k up to 8 * 2^k bytes, up to 1024; band 8 above. */
struct hak_stats_band {
	uint64_t hits, misses, prefills;
};

/* Numbers about a process. Bytes unless a comment says otherwise; those under "since the start" count.
   Later versions add fields at the end. */
struct hak_stats {
	uint64_t size;          /* bytes of this structure that are filled in */
	uint64_t has_counters;  /* 1; 0: the library was built without its counters, which read 0 then */
	uint64_t has_ops;       /* 1: operations are counted, see `allocs` */
	uint64_t is_partial;    /* 1: caches of other threads could not be read; their blocks count as live */

	/* now */
	uint64_t committed, committed_peak; /* mapped; also ahead, and for metadata */
	uint64_t mapped;                    /* for blocks: SuperSlabs, and what large blocks have of their own */
	uint64_t resident;                  /* at most, but for huge pages: what was used and not given back */
	uint64_t live, live_blocks;         /* blocks that the program has; how many */
	uint64_t unused;                    /* of that, not asked for: an estimate */
	uint64_t cached, cached_blocks;     /* free blocks in caches of threads and on the way between them */
	uint64_t slab_free;                 /* other free blocks in slabs */
	uint64_t slab_fresh;                /* blocks that cost no memory yet */
	uint64_t dirty, dirty_peak;         /* free granules that may be resident */
	uint64_t clean;                     /* free granules that cost no memory, but in huge pages */
	uint64_t bigcache;                  /* freed large blocks, kept */
	uint64_t retained;                  /* dirty, clean and bigcache together */
	uint64_t metadata;
	uint64_t limit;                     /* HAKMEM_LIMIT; 0: none */
	uint64_t large, large_blocks;       /* live blocks below 512 KiB that have granules of their own */
	uint64_t l25, l25_blocks;           /* from there on, below 2 MiB */
	uint64_t l2, l2_blocks;             /* from there on */
	uint64_t heaps, threads;            /* heaps, and how many of them a thread has: numbers */
	uint64_t superslabs, huge_superslabs, slabs, mosaics, published; /* numbers */

	/* since the start */
	uint64_t bin_misses;                /* requests that found the thread's bin empty */
	uint64_t refill_own, refill_carve, refill_ready, refill_inbox, refill_adopt,
	         refill_hole, refill_fresh; /* where blocks came from then */
	uint64_t full_bins, home_blocks;    /* bins that ran over; blocks that went back to their slabs */
	uint64_t remote_blocks, remote_batches; /* freed by another thread than their slab's, with a heap */
	uint64_t drained_blocks;            /* of those, taken up by their slab's thread */
	uint64_t foreign_frees;             /* pointers handed on to libc */
	uint64_t slabs_deleted;
	uint64_t pool_locks, pool_waits, pool_published, pool_adopted; /* the pool that threads share */
	uint64_t bigcache_hits, bigcache_misses, bigcache_evictions;
	uint64_t purged, purges, regrets;   /* bytes given back, in how many calls, too early how often */
	uint64_t mmap_calls, munmap_calls, mremap_calls, madvise_calls;
	uint64_t allocs, frees, requested;  /* requests, frees, and bytes asked for: under HAKMEM_STATS=ops only, and of
	                                       threads that have a heap, which one that only frees need not. Requests
	                                       in first-class heaps, and small ones that the heap profile samples, are
	                                       left out, but their frees one by one are not. */

	uint64_t classes;                   /* of by_class: [1] to [classes - 1] are used */
	struct hak_stats_class by_class[HAK_STATS_CLASSES];
	struct hak_stats_band by_band[HAK_STATS_BANDS];

	uint64_t space_locks, space_waits;  /* of the lock on the address space: taken, after waiting */
	uint64_t used_peak;                 /* the most of SuperSlabs that was in use at a time */
	uint64_t retained_peak;             /* as the others, the most there was at a time */
	uint64_t mosaic_free;               /* bytes of mosaics, slabs of mixed sizes, that no block has: now */
};

/* Fills *`stats`, whose size the caller gives as `size`: sizeof(struct hak_stats). Other threads go on; what
   they do meanwhile is in it or not. Returns 0, or -1 with errno EINVAL if `size` is too small to be one. */
HAK_ATTR((__nonnull__(1)))
int hak_stats_get(struct hak_stats *stats, size_t size) HAK_NOEXCEPT;

enum hak_stats_format { HAK_STATS_TEXT, HAK_STATS_JSON, HAK_STATS_OPENMETRICS };

/* Writes *`stats` by calling `put` with pieces of text, in order. JSON is one object in one line. Returns
   0, or -1 with errno EINVAL for another format. */
HAK_ATTR((__nonnull__(1, 3)))
int hak_stats_write(const struct hak_stats *stats, enum hak_stats_format format,
                    void (*put)(void *arg, const char *text, size_t length), void *arg) HAK_NOEXCEPT;

/* As much of the calling process's statistics as JSON as fits `size` bytes, terminated; NULL `buffer`
   with `size` 0 asks how much that is, to which heaps that come to be meanwhile add: the object has what
   is counted by heap, of which each thread has one. Returns its whole length without the terminator. */
size_t hak_stats_json(char *buffer, size_t size) HAK_NOEXCEPT;

/* What hak_heap_visit says of a piece of memory. */
enum hak_area_kind { HAK_AREA_SLAB, HAK_AREA_BLOCK };
struct hak_area {
	enum hak_area_kind kind;
	void *start;
	size_t size;       /* of a slab: its granule; of a block: usable bytes */
	size_t block_size; /* of a slab: of its blocks; 0: of several sizes. A block: as size. */
	size_t live;       /* of a slab: blocks that the program has; of a block: 1 */
};

/* Calls `visit` for every slab of the process, and behind each for its live blocks, then for the live large
   blocks; until it returns other than 0, which is then the result. `visit` may allocate and free, but no
   other thread should meanwhile: blocks that come and go may be missed, or told though they are free. It
   must return: by longjmp or the thread's end it would leave HAKMEM_BACKGROUND's thread stopped. Another
   thread's hak_heap_visit or hak_check waits for it with that setting, up to 10 seconds.
   Returns 0 at the end, -1 with errno ENOMEM. */
HAK_ATTR((__nonnull__(1)))
int hak_heap_visit(int (*visit)(const struct hak_area *area, void *arg), void *arg) HAK_NOEXCEPT;

/* Looks whether all that HAKMEM has written down about its memory agrees. No other thread may allocate or
   free meanwhile. Says what does not in a line each on standard error, up to twenty, and returns their
   number; 0: all is well. -1 with errno ENOMEM. */
int hak_check(void) HAK_NOEXCEPT;

/* Reads a file as /etc/hakmem.conf is read, all its sections, without effect, and calls `say` for each line
   that is not understood: its number, its text, and why. Returns the number of such lines; -1 if the
   file cannot be read. */
HAK_ATTR((__nonnull__(1, 2)))
int hak_conf_check(const char *path,
                   void (*say)(void *arg, unsigned line, const char *text, const char *why),
                   void *arg) HAK_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
