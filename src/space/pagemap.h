/* SPDX-License-Identifier: MIT */
/*
 * The page map: what lies at an address.
 *
 *   address bits   47..32 root index | 31..16 leaf index | 15..0 offset in the granule
 *
 * A leaf holds, per granule, a tag (owner and class, for the fast path of free) and a descriptor
 * pointer (slab or large block, for everything else). Root entries are byte offsets from the
 * permanent zero leaf, so an entry nobody wrote (0) leads to tag 0, "nobody's", without a branch,
 * and a lookup of any address never faults.
 *
 * Tag: owner << TAG_OWNER_SHIFT | code. The code of a slab is its class's byte offset in an array of
 * bins (slab/size_class.h); the codes of what is not a slab stand below, with owner 0. So
 *
 *   x = tag(p) ^ my_tag;     x < SC_CODE_END  <=>  a slab of mine, and x is the bin's offset
 *
 * Writers: whoever holds the granules exclusively (fresh from the space layer, owner, adopter).
 * Readers: anybody, any time. A thread that reads its own owner number reads what it wrote itself;
 * for any other value the reader goes on to the descriptor's own atomics, and the descriptor was
 * written before the tag (release), so tag != 0 implies a valid descriptor.
 */
#ifndef HAK_SPACE_PAGEMAP_H
#define HAK_SPACE_PAGEMAP_H

#include "base/compiler.h"

#define GRANULE_SHIFT 16
#define GRANULE ((size_t)1 << GRANULE_SHIFT)
#define LEAF_GRANULES 65536u
#define ROOT_ENTRIES 65536u

#define TAG_OWNER_SHIFT 10
#define TAG_CODE_MASK ((1u << TAG_OWNER_SHIFT) - 1)
#define TAG_OWNER_MAX ((1u << (32 - TAG_OWNER_SHIFT)) - 1)

/* Codes above every class code; owner 0. */
enum tag_code {
	TAG_NONE = 0,
	TAG_FREE = 0x3f0,        /* a granule of ours that holds nothing; descriptor: the size, as a number,
	                            of the blocks it held last, or 0 */
	TAG_NURSERY = 0x3c0,     /* blocks of mixed classes; front/nursery.h */
	TAG_LARGE = 0x3e0,       /* a large block; descriptor: struct large */
	TAG_LARGE_FREED = 0x3d0, /* a large block began here that was freed, and the memory is still ours;
	                            descriptor: its usable size, as a number */
	TAG_LARGE_CACHED = 0x3a0, /* in BigCache; descriptor: struct large */
	TAG_LARGE_GONE = 0x3b0,  /* likewise, but unmapped: may be somebody else's memory by now */
};

struct pagemap_leaf {
	uint32_t tag[LEAF_GRANULES];
	void *desc[LEAF_GRANULES];
};

struct pagemap {
	uint32_t zero[LEAF_GRANULES];  /* the tags of the permanent zero leaf */
	uintptr_t root[ROOT_ENTRIES];  /* offset of a leaf from `zero` */
};
extern HAK_HIDDEN struct pagemap hak_pagemap;
extern HAK_HIDDEN struct pagemap_leaf hak_first_leaf;

/* A relaxed load; plain outside of race detectors, because compilers do not fold atomic loads into
   the instruction that uses them. Aligned words do not tear. */
#if defined(__SANITIZE_THREAD__)
#define PAGEMAP_LOAD(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#else
#define PAGEMAP_LOAD(p) (*(p))
#endif

/* Where leaves are counted from. They lie outside of hak_pagemap, which the compiler and sanitizers must
   not hold against us. */
HAK_INLINE char *pagemap_origin(void) {
	char *origin = (char *)hak_pagemap.zero;
	__asm__("" : "+r"(origin));
	return origin;
}

HAK_INLINE uint32_t pagemap_tag(uintptr_t addr) {
	uint32_t g = (uint32_t)(addr >> GRANULE_SHIFT);
	/* Relaxed: see "Readers" above; a leaf's tags are zero until it is in use. */
	uintptr_t leaf = PAGEMAP_LOAD(&hak_pagemap.root[g >> 16]);
#if defined(__SANITIZE_ADDRESS__)
	const char *tags = pagemap_origin() + leaf;
#else
	const char *tags = (const char *)hak_pagemap.zero + leaf; /* an instruction less */
#endif
	return PAGEMAP_LOAD((const uint32_t *)(const void *)tags + (g & 0xffff));
}

/* What lies at an address. */
struct pagemap_entry {
	uint32_t tag;
	void *desc; /* only if tag != TAG_NONE */
};

/* pagemap_tag for the slow paths: what the descriptor held when the tag was written is seen, and an
   address beyond 48 bits, which the fast path takes modulo 2^48, is nobody's. */
HAK_INLINE struct pagemap_entry pagemap_lookup(uintptr_t addr) {
	uint32_t g = (uint32_t)(addr >> GRANULE_SHIFT);
	uintptr_t offset = addr >> 48 != 0 ? 0
		: __atomic_load_n(&hak_pagemap.root[g >> 16], __ATOMIC_RELAXED);
	struct pagemap_leaf *leaf = (struct pagemap_leaf *)(void *)(pagemap_origin() + offset);
	struct pagemap_entry e = { 0, NULL };
	if (offset == 0)
		return e;
	/* Acquire: pairs with the release in pagemap_set; it orders the descriptor, too. */
	e.tag = __atomic_load_n(&leaf->tag[g & 0xffff], __ATOMIC_ACQUIRE);
	e.desc = __atomic_load_n(&leaf->desc[g & 0xffff], __ATOMIC_RELAXED);
	return e;
}

/* Makes sure that leaves exist for the range. False: out of memory. */
bool pagemap_cover(uintptr_t addr, size_t granules);

/* Sets tag and descriptor of a covered range. */
void pagemap_set(uintptr_t addr, size_t granules, uint32_t tag, void *desc);

/* As pagemap_set for the tag alone. */
void pagemap_set_tag(uintptr_t addr, size_t granules, uint32_t tag);

struct lock *pagemap_lock(void);

#endif
