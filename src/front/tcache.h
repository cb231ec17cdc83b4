/* SPDX-License-Identifier: MIT */
/*
 * The thread cache: per class a bin of free blocks, and the fast paths of malloc and free.
 *
 * Thread-local, touched by its thread alone. All zero is the inert state before a thread's first
 * allocation: every bin reads as empty, and tag 0 makes free either miss or land in bin 0, whose magic 0
 * refuses every block. After its teardown it is the same but for the tag, which matches none then.
 * So a mode in which a thread must not be served here is data, not a branch.
 *
 * A bin is a stack of free blocks in an array (front/bins.h), which grows downwards:
 *   top    the entry of the block that was freed last, as its distance from hak_class_codes.no_mark, which is what a
 *          bin has that is all zero; those of older blocks follow, and behind them one that leads to no mark, too
 *   floor  low half of `top` when the bin is full
 *   magic  the class's divisibility constant: an offset in a slab is a multiple of the block size iff
 *          offset * magic mod 2^32 < magic (Lemire, Kaser, Kurz 2019; exact for 16-bit offsets and
 *          sizes up to 2^15). 0 sends every free out of line.
 *
 * A block in a bin begins with the *mark*. To malloc that is the proof that there is a block, and that nobody
 * has written to it; to free, that it is free. An array, not a list: the next block is known before this one is
 * in the processor's cache.
 */
#ifndef HAK_FRONT_TCACHE_H
#define HAK_FRONT_TCACHE_H

#include <limits.h>

#include "base/compiler.h"
#include "slab/mosaic.h"
#include "slab/slab.h"
#include "space/pagemap.h"

struct bin {
	uintptr_t top;
	uint32_t floor;
	uint32_t magic;
};
static_assert(sizeof(struct bin) == 1 << SC_CODE_SHIFT, "class codes are byte offsets of bins");

/* For a thread whose frees go out of line: there they are served as ever, and counted. */
struct counted {
	uint32_t mask;          /* counted_mask of the heap's tag */
	int32_t left[SC_COUNT]; /* per class, how many more before one takes the slow path; not negative */
};
/* Of a code that the thread's tag makes, which is TAG_MATCHES_NONE then, this makes the one that the heap's would. */
HAK_INLINE uint32_t counted_mask(uint32_t tag) {
	return tag ^ TAG_MATCHES_NONE;
}
enum { COUNTED_REST = 0 }; /* no class: large blocks, and those of mosaics and of other threads */

struct tcache {
	struct bin bin[SC_COUNT];
	uint32_t tag;      /* owner << TAG_OWNER_SHIFT of the thread's heap; 0: none yet, and the bins are all zero.
	                      TAG_MATCHES_NONE: all frees go out of line; another thread may set that
	                      (heap_call_threads) */
	bool exit_is_seen; /* the thread's end is noticed without an exit hook, or is the process's */
	bool torn_down;    /* the thread's exit hook has run: it never gets a heap again */
	uint16_t background_holds; /* how often it has background_hold, one amid the other */
	struct heap *heap; /* NULL: none */
	struct heap *forsaken; /* whose the bins are, so that the thread's heap has its own (heap_forsake); NULL: none */
	struct counted *counted; /* NULL: frees are not counted */
};
static_assert(sizeof(struct tcache) <= 1024, "must fit the static TLS surplus when dlopened");

extern HAK_HIDDEN HAK_TLS struct tcache hak_tcache;

HAK_INLINE struct tcache *tcache_of_bins(struct bin *bins) {
	return (struct tcache *)(void *)((char *)bins - offsetof(struct tcache, bin));
}

/* Saves malloc an instruction that compilers do not see to be superfluous. */
#if defined(__x86_64__)
#define IN_RETURN_REGISTER(pointer) __asm__("" : "+a"(pointer))
#else
#define IN_RETURN_REGISTER(pointer) ((void)0)
#endif

/* Is the block of a bin as free left it? */
HAK_INLINE bool block_is_marked(const void *block) {
	return *(const uintptr_t *)block == hak_secret.mark;
}

/* One of the thread's bins, reached without its address, which would take malloc two more instructions. */
HAK_INLINE struct bin HAK_BY_THREAD *own_bin(uintptr_t code) {
	static_assert(offsetof(struct tcache, bin) == 0, "a code is the offset of a bin");
	HAK_IN_THREAD(hak_tcache, code);
	return (struct bin HAK_BY_THREAD *)code;
}

/* Any bin, reached the same way. */
HAK_INLINE struct bin HAK_BY_THREAD *bin_by_thread(struct bin *b) {
	uintptr_t at = (uintptr_t)b;
	HAK_FROM_THREAD(at);
	return (struct bin HAK_BY_THREAD *)at;
}

HAK_INLINE void **bin_top(const struct bin *b) {
	return (void **)((uintptr_t)&hak_class_codes.no_mark + b->top);
}
HAK_INLINE uintptr_t bin_top_at(void *const *entry) {
	return (uintptr_t)entry - (uintptr_t)&hak_class_codes.no_mark;
}

/* bin_pop; `codes` is hak_class_codes. */
HAK_INLINE void *bin_pop_by(struct bin HAK_BY_THREAD *b, const struct class_codes *codes) {
	uintptr_t top = b->top;
	void *block = *(void **)((uintptr_t)&codes->no_mark + top);
	IN_RETURN_REGISTER(block);
	if (HAK_UNLIKELY(!block_is_marked(block)))
		return NULL;
	b->top = top + sizeof(void *);
	/* A fork child may find this thread between two stores: what is in a bin must be marked. */
	atomic_signal_fence(memory_order_release);
	block_set_link((uintptr_t)block, 0);
	return block;
}

/* The block on top, or NULL: there is none, or it is to be looked at. Clears the mark: it must not be taken for one
   when the block comes back. */
HAK_INLINE void *bin_pop(struct bin *b) {
	return bin_pop_by(bin_by_thread(b), &hak_class_codes);
}

/* bin_push_as. */
HAK_INLINE bool bin_push_by(struct bin HAK_BY_THREAD *b, void *block, bool is_marked) {
	uintptr_t top = b->top;
	if (HAK_UNLIKELY((uint32_t)top == b->floor))
		return false;
	if (!is_marked)
		block_set_link((uintptr_t)block, hak_secret.mark);
	atomic_signal_fence(memory_order_release); /* as in bin_pop */
	((void **)((uintptr_t)&hak_class_codes.no_mark + top))[-1] = block;
	atomic_signal_fence(memory_order_release); /* and what `top` leads to must be a block */
	b->top = top - sizeof(void *);
	return true;
}

/* bin_push of a block that may have its mark already, which is then not touched. */
HAK_INLINE bool bin_push_as(struct bin *b, void *block, bool is_marked) {
	return bin_push_by(bin_by_thread(b), block, is_marked);
}

/* False: the bin is full. `top` is read once: a signal handler that frees, too, may take the last room. */
HAK_INLINE bool bin_push(struct bin *b, void *block) {
	return bin_push_as(b, block, false);
}

/* The fast path of malloc: one data test, is there a marked block? NULL: take the slow path. */
HAK_INLINE void *tcache_alloc(size_t size) {
	if (HAK_UNLIKELY(size > SC_MAX_SIZE))
		return NULL;
	const struct class_codes *codes = &hak_class_codes;
	__asm__("" : "+r"(codes)); /* one address, not two of its parts */
	return bin_pop_by(own_bin(sc_code_by(codes, size)), codes);
}

/* The same for a class that is known. */
HAK_INLINE void *tcache_alloc_of(unsigned sc) {
	return bin_pop_by(own_bin(sc << SC_CODE_SHIFT), &hak_class_codes);
}

/* What a block's granule is to the thread: less than SC_CODE_END is the code of the class of a small block of its own,
   TAG_MOSAIC a mosaic of its own. */
HAK_INLINE uintptr_t tcache_code(const void *ptr) {
	return pagemap_tag((uintptr_t)ptr) ^ PAGEMAP_LOAD(&hak_tcache.tag);
}

/* The usable size of a block that tcache_free would look at, if it passes the same tests; else 0. `code`: tcache_code. */
HAK_INLINE size_t tcache_usable_size(const void *ptr, uintptr_t code) {
	uintptr_t addr = (uintptr_t)ptr;
	if (HAK_UNLIKELY(code >= SC_CODE_END))
		return 0;
	const struct bin HAK_BY_THREAD *b = own_bin(code);
	uint32_t remainder = (uint16_t)addr * b->magic;
	if (HAK_UNLIKELY(remainder >= b->magic || block_looks_free(addr)))
		return 0;
	return hak_size_classes[code >> SC_CODE_SHIFT].size;
}

/* Frees into the thread's bins. `left`: per class, how many blocks may be freed still; NULL: not counted. False: nothing
   has been done. */
HAK_INLINE bool bins_free(uintptr_t code, int32_t *left, void *ptr) {
	uintptr_t addr = (uintptr_t)ptr;
	if (HAK_UNLIKELY(code >= SC_CODE_END))
		return false;
	struct bin HAK_BY_THREAD *b = own_bin(code);
	uint32_t remainder = (uint16_t)addr * b->magic;
	__asm__("" : "+m"(b->magic)); /* compare with memory rather than spend an instruction on a load */
	if (HAK_UNLIKELY(remainder >= b->magic))
		return false;
	if (HAK_UNLIKELY(block_looks_free(addr)))
		return false;
	if (left != NULL && HAK_UNLIKELY(left[code >> SC_CODE_SHIFT] <= 0))
		return false;
	if (HAK_UNLIKELY(!bin_push_by(b, ptr, false)))
		return false;
	if (left != NULL)
		left[code >> SC_CODE_SHIFT]--;
	return true;
}

/* The fast path of free: one ownership test, two misuse tests, and is there room? `code`: tcache_code. False: nothing
   has been done, take the slow path. */
HAK_INLINE bool tcache_free(void *ptr, uintptr_t code) {
	return bins_free(code, NULL, ptr);
}

/* What is freed is looked at first (block_looks_free), and much of it has left the caches by then. Blocks that were
   allocated one after the other are often freed so, or the last one first: this one's neighbour a little further on is
   asked for, on the side away from `last`, where a call is out of line anyway. It need not be one, nor be mapped.
   `last`: of the same class, freed before it; NULL: not known. No branch: no processor foretells the side of blocks that
   are freed in no order. */
HAK_INLINE void prefetch_beyond(const void *ptr, const void *last, size_t block_size) {
	enum { AHEAD = 4, SIGN = sizeof(intptr_t) * CHAR_BIT - 1 };
	intptr_t ahead = (intptr_t)(AHEAD * block_size), down = ((intptr_t)ptr - (intptr_t)last) >> SIGN;
	__builtin_prefetch((const char *)ptr + ((ahead ^ down) - down));
}

/* The same for a thread whose frees go out of line. (A signal handler may have begun or ended that since the code was
   made: then it is none.) */
HAK_INLINE bool tcache_free_counted(void *ptr, uintptr_t code) {
	struct counted *c = hak_tcache.counted;
	if (c == NULL)
		return false;
	code ^= c->mask;
	if (HAK_LIKELY(code < SC_CODE_END))
		prefetch_beyond(ptr, *bin_top(&hak_tcache.bin[code >> SC_CODE_SHIFT]),
		                hak_size_classes[code >> SC_CODE_SHIFT].size);
	return HAK_LIKELY(bins_free(code, c->left, ptr));
}

/* Of a block in a mosaic that goes into a bin; 0: there is none, or it looks free. (A thread without a heap may look at
   one that nobody owns, and that is deleted this moment: its bins refuse everything.) */
HAK_INLINE unsigned tcache_class_in_mosaic(const struct slab *s, const void *ptr) {
	uintptr_t addr = (uintptr_t)ptr;
	const struct mosaic *m = slab_mosaic(s);
	unsigned sc = HAK_LIKELY(m != NULL) ? mosaic_class_in(m, addr % GRANULE) : 0;
	return hak_size_classes[sc].size > MOSAIC_MAX_SIZE || block_looks_free(addr) ? 0 : sc;
}

/* Likewise a block in one of the thread's mosaics, counted or not. */
HAK_INLINE bool tcache_free_in_mosaic(void *ptr, uintptr_t code) {
	struct counted *c = hak_tcache.counted;
	if ((c != NULL ? code ^ c->mask : code) != TAG_MOSAIC)
		return false;
	unsigned sc = tcache_class_in_mosaic(pagemap_lookup((uintptr_t)ptr).desc, ptr);
	if (sc == 0 || (c != NULL && c->left[COUNTED_REST] <= 0) || !bin_push_by(own_bin(sc << SC_CODE_SHIFT), ptr, false))
		return false;
	if (c != NULL)
		c->left[COUNTED_REST]--;
	return true;
}

/* From here on frees go out of line and are counted; NULL: they do no longer, and `tag` is the heap's. */
HAK_INLINE void tcache_count_frees(struct counted *c, uint32_t tag) {
	hak_tcache.counted = c;
	__atomic_store_n(&hak_tcache.tag, c != NULL ? TAG_MATCHES_NONE : tag, __ATOMIC_RELAXED);
}

#endif
