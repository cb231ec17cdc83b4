/* SPDX-License-Identifier: MIT */
/*
 * The thread cache: per class a bin of free blocks, and the fast paths of malloc and free.
 *
 * Thread-local, touched by its thread alone. All zero is the inert state, before a thread's first
 * allocation and after its teardown: every bin reads as empty (a head of 0 decodes to no
 * block), and tag 0 makes free either miss or land in bin 0, whose magic 0 refuses every block.
 * So a mode in which a thread must not be served here is data, not a branch.
 *
 * A bin:
 *   head   link value of the first block (slab/slab.h): what is stored in a block that is pushed
 *   room   blocks it may still take; negative when a whole slab list was moved in
 *   magic  the class's divisibility constant: an offset in a slab is a multiple of the block size iff
 *          offset * magic mod 2^32 < magic (Lemire, Kaser, Kurz 2019; exact for 16-bit offsets and
 *          sizes up to 2^15). 0 sends every free out of line.
 */
#ifndef HAK_FRONT_TCACHE_H
#define HAK_FRONT_TCACHE_H

#include "base/compiler.h"
#include "slab/slab.h"
#include "space/pagemap.h"

struct bin {
	uintptr_t head;
	int32_t room;
	uint32_t magic;
};
static_assert(sizeof(struct bin) == 1 << SC_CODE_SHIFT, "class codes are byte offsets of bins");

/* For a thread whose frees go out of line: there they are served as ever, and counted. */
struct counted {
	uint32_t tag;           /* of the heap */
	int32_t left[SC_COUNT]; /* per class, how many more before one takes the slow path; not negative */
};

struct tcache {
	struct bin bin[SC_COUNT];
	uint32_t tag;      /* owner << TAG_OWNER_SHIFT of the thread's heap; 0: none. TAG_MATCHES_NONE: all
	                      frees go out of line; another thread may set that (heap_call_threads) */
	bool exit_is_seen; /* the thread's end is noticed without an exit hook */
	bool torn_down;    /* the thread's exit hook has run: it never gets a heap again */
	struct heap *heap; /* NULL: none */
	struct counted *counted; /* NULL: frees are not counted */
};
static_assert(sizeof(struct tcache) <= 1024, "must fit the static TLS surplus when dlopened");

extern HAK_HIDDEN HAK_TLS struct tcache hak_tcache;

HAK_INLINE struct tcache *tcache_of_bins(struct bin *bins) {
	return (struct tcache *)(void *)((char *)bins - offsetof(struct tcache, bin));
}

/* The next block of a bin whose head is `head`, or NULL. Clears the link: it must not be taken for one
   when the block comes back, nor leak the key. */
HAK_INLINE void *bin_take(struct bin *b, uintptr_t head) {
	uintptr_t block = link_decode(head);
	if (HAK_UNLIKELY(link_is_end(block)))
		return NULL;
	b->room++;
	b->head = block_link(block);
	block_set_link(block, 0);
	return (void *)block;
}

/* Does the bin lead to a block of a slab with this tag, or to an end? */
HAK_INLINE bool bin_is_sound(const struct bin *b, uint32_t tag) {
	uintptr_t block = link_decode(b->head);
	uint32_t remainder = (uint16_t)block * b->magic;
	if (link_is_end(block))
		return link_is_our_end(block);
	return pagemap_tag(block) == tag && remainder < b->magic;
}

HAK_INLINE void *bin_pop(struct bin *b) {
	return bin_take(b, b->head);
}

HAK_INLINE void bin_push(struct bin *b, uintptr_t block) {
	block_set_link(block, b->head);
	atomic_signal_fence(memory_order_release); /* as in bins_free */
	b->head = link_encode(block);
}

/* The fast path of malloc: one data test, is the bin empty? NULL: take the slow path. */
HAK_INLINE void *tcache_alloc(size_t size) {
	if (HAK_UNLIKELY(size > SC_MAX_SIZE))
		return NULL;
	return bin_pop((struct bin *)((char *)hak_tcache.bin + sc_code(size)));
}

/* The usable size of a block that tcache_free would look at, if it passes the same tests; else 0. */
HAK_INLINE size_t tcache_usable_size(const void *ptr) {
	uintptr_t addr = (uintptr_t)ptr;
	uint32_t code = pagemap_tag(addr) ^ PAGEMAP_LOAD(&hak_tcache.tag);
	if (HAK_UNLIKELY(code >= SC_CODE_END))
		return 0;
	const struct bin *b = (const struct bin *)((const char *)hak_tcache.bin + code);
	uint32_t remainder = (uint16_t)addr * b->magic;
	if (HAK_UNLIKELY(remainder >= b->magic || block_looks_free(addr)))
		return 0;
	return hak_size_classes[code >> SC_CODE_SHIFT].size;
}

/* Frees into these bins, which are of the thread whose tag is given. `left`: per class, how many blocks may
   be freed still; NULL: not counted. False: nothing has been done. */
HAK_INLINE bool bins_free(struct bin *bins, const uint32_t *tag, int32_t *left, void *ptr) {
	uintptr_t addr = (uintptr_t)ptr;
	uint32_t code = pagemap_tag(addr) ^ PAGEMAP_LOAD(tag);
	if (HAK_UNLIKELY(code >= SC_CODE_END))
		return false;
	struct bin *b = (struct bin *)((char *)bins + code);
	uint32_t remainder = (uint16_t)addr * b->magic;
	__asm__("" : "+m"(b->magic)); /* compare with memory rather than spend an instruction on a load */
	if (HAK_UNLIKELY(remainder >= b->magic))
		return false;
	if (HAK_UNLIKELY(block_looks_free(addr)))
		return false;
	uintptr_t head = b->head;
	if (left != NULL && HAK_UNLIKELY(left[code >> SC_CODE_SHIFT] <= 0))
		return false;
	if (HAK_UNLIKELY(--b->room < 0)) {
		__asm__("" : "+m"(b->room)); /* lets the test above be one instruction */
		b->room++;
		return false;
	}
	if (left != NULL)
		left[code >> SC_CODE_SHIFT]--;
	block_set_link(addr, head);
	/* A fork child may find this thread between two stores: the link must come first. */
	atomic_signal_fence(memory_order_release);
	b->head = link_encode(addr);
	return true;
}

/* The fast path of free: one ownership test, two misuse tests, and is there room? False: nothing has
   been done, take the slow path. */
HAK_INLINE bool tcache_free(void *ptr) {
	return bins_free(hak_tcache.bin, &hak_tcache.tag, NULL, ptr);
}

/* The same for a thread whose frees go out of line. */
HAK_INLINE bool tcache_free_counted(void *ptr) {
	struct counted *c = hak_tcache.counted;
	return c != NULL && HAK_LIKELY(bins_free(hak_tcache.bin, &c->tag, c->left, ptr));
}

/* From here on frees go out of line and are counted; NULL: they do no longer, and `tag` is the heap's. */
HAK_INLINE void tcache_count_frees(struct counted *c, uint32_t tag) {
	hak_tcache.counted = c;
	__atomic_store_n(&hak_tcache.tag, c != NULL ? TAG_MATCHES_NONE : tag, __ATOMIC_RELAXED);
}

#endif
