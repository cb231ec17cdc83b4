/* SPDX-License-Identifier: MIT */
/*
 * The page map: what lies at an address.
 *
 * A leaf holds, for each granule of 4 GiB, a tag (owner and class, for the fast path of free) and a
 * descriptor pointer (slab or large block, for everything else).
 *
 *   near   the window: 4 GiB placed around the first memory that is covered. Its leaf is part of the
 *          library's zero-initialised data, so the fast path needs no dependent load to find it.
 *   far    all other addresses, by a root:
 *
 *          address bits   47..32 root index | 31..16 leaf index | 15..0 offset in the granule
 *
 *          Root entries are byte offsets from the permanent zero leaf, so an entry nobody wrote (0)
 *          leads to tag 0, "nobody's", without a branch, and a lookup of any address never faults.
 *
 * Tag: owner << TAG_OWNER_SHIFT | code. The code of a slab is its class's byte offset in an array of
 * bins (slab/size_class.h); other codes stand below, with owner 0. So
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

#include <stdatomic.h>

#include "base/compiler.h"
#include "os/lock.h"

#define GRANULE_SHIFT 16
#define GRANULE ((size_t)1 << GRANULE_SHIFT)
#define LEAF_GRANULES 65536u
#define ROOT_ENTRIES 65536u

#define TAG_OWNER_SHIFT 10
#define TAG_CODE_MASK ((1u << TAG_OWNER_SHIFT) - 1)
#define TAG_OWNER_MAX ((1u << (32 - TAG_OWNER_SHIFT)) - 2)
/* Of a thread that is to take no granule for its own, not even those without an owner. */
#define TAG_MATCHES_NONE (~0u << TAG_OWNER_SHIFT)

/* Codes above every class code; owner 0. */
enum tag_code {
	TAG_NONE = 0,
	TAG_MOSAIC = 0x3f0, /* a slab with a mosaic (slab/mosaic.h); the one code here that goes with an owner */
	TAG_FREE,           /* a granule of ours that holds nothing; descriptor: the size, as a number, of the blocks
	                       it held last, or 0 */
	TAG_GUARDED,        /* a block between guard pages (front/guard.h); descriptor: struct guarded */
	TAG_NURSERY,        /* blocks of mixed classes; front/nursery.h */
	TAG_LARGE,          /* a large block; descriptor: struct large */
	TAG_LARGE_FREED,    /* a large block began here that was freed, and the memory is still ours; descriptor: its
	                       size, as a number */
	TAG_LARGE_CACHED,   /* in BigCache; descriptor: struct large */
	TAG_LARGE_GONE,     /* as TAG_LARGE_FREED, but unmapped: may be somebody else's memory by now */
};

#define PAGEMAP_GUARD ((size_t)32 << 10) /* holds a page of up to 16 KiB, wherever it begins */

struct pagemap_leaf {
	uint32_t tag[LEAF_GRANULES];
	void *desc[LEAF_GRANULES];
	char guard[PAGEMAP_GUARD]; /* pagemap_guard */
};

struct pagemap_root {
	uint32_t zero[LEAF_GRANULES];   /* the tags of the permanent zero leaf */
	uintptr_t offset[ROOT_ENTRIES]; /* of a leaf from `zero` */
	char guard[PAGEMAP_GUARD];
};
extern HAK_HIDDEN struct pagemap_root hak_far;
extern HAK_HIDDEN struct pagemap_leaf hak_near;

/* The window. Until it is placed it lies at 0, where nothing of ours ever is. */
struct pagemap_window {
	struct lock lock; /* guards placing it and making leaves; neither is ever undone */
	bool placed;
	uintptr_t base;   /* written once, before any tag is */
} HAK_CACHE_ALIGNED; /* alone on its line */
static_assert(offsetof(struct pagemap_window, base) % 16 == 8, "free loads it each time: HAK_BETWEEN_BLOCKS");
extern HAK_HIDDEN struct pagemap_window hak_near_window;

/* A multiple of HUGE_APART in the window, as much to twice as much below the first memory that was covered; 0: none
   was. */
#define HUGE_APART ((uintptr_t)1 << 30)
uintptr_t pagemap_apart(void);

/* Forbids writing to a page behind either table; in front of them lie our own data and, before those, what nobody
   can write. Leaves that are mapped have guards from the start. */
void pagemap_guard(void);

/* A relaxed load; plain outside of race detectors, because compilers do not fold atomic loads into
   the instruction that uses them. Aligned words do not tear. */
#if defined(__SANITIZE_THREAD__)
#define PAGEMAP_LOAD(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#else
#define PAGEMAP_LOAD(p) (*(p))
#endif

/* Index in the near leaf; LEAF_GRANULES or more: the address is far. */
HAK_INLINE uintptr_t pagemap_near_index(uintptr_t addr) {
	/* Relaxed: who has an address of ours has it from somebody who has seen the window placed. */
	return (addr - PAGEMAP_LOAD(&hak_near_window.base)) >> GRANULE_SHIFT;
}

/* Where leaves are counted from. They lie outside of hak_far, which the compiler and sanitizers must not
   hold against us. */
HAK_INLINE char *pagemap_origin(void) {
	char *origin = (char *)hak_far.zero;
	__asm__("" : "+r"(origin));
	return origin;
}

HAK_INLINE uint32_t pagemap_tag(uintptr_t addr) {
	uintptr_t near = pagemap_near_index(addr);
	/* Relaxed, here and below: see "Readers" above; a leaf's tags are zero until it is in use. */
	if (HAK_LIKELY(near < LEAF_GRANULES))
		return PAGEMAP_LOAD(&hak_near.tag[near]);
	if (addr == 0)
		return TAG_NONE; /* as below, but free(NULL) touches two pages less */
	uint32_t g = (uint32_t)(addr >> GRANULE_SHIFT);
	const char *tags = pagemap_origin() + PAGEMAP_LOAD(&hak_far.offset[g >> 16]);
	return PAGEMAP_LOAD((const uint32_t *)(const void *)tags + (g & 0xffff));
}

/* The leaf that an address belongs to, and its index there. NULL: there is none. An address beyond 48
   bits, which pagemap_tag takes modulo 2^48, has none. */
HAK_INLINE struct pagemap_leaf *pagemap_leaf_of(uintptr_t addr, uintptr_t *indexp) {
	uintptr_t near = pagemap_near_index(addr);
	if (HAK_LIKELY(near < LEAF_GRANULES)) {
		*indexp = near;
		return &hak_near;
	}
	uint32_t g = (uint32_t)(addr >> GRANULE_SHIFT);
	*indexp = g & 0xffff;
	if (addr >> 48 != 0)
		return NULL;
	uintptr_t offset = __atomic_load_n(&hak_far.offset[g >> 16], __ATOMIC_RELAXED);
	return offset == 0 ? NULL : (struct pagemap_leaf *)(void *)(pagemap_origin() + offset);
}

/* What lies at an address. */
struct pagemap_entry {
	uint32_t tag;
	void *desc; /* only if tag != TAG_NONE */
};

/* pagemap_tag for the slow paths: what the descriptor held when the tag was written is seen. */
HAK_INLINE struct pagemap_entry pagemap_lookup(uintptr_t addr) {
	struct pagemap_entry e = { TAG_NONE, NULL };
	uintptr_t i;
	struct pagemap_leaf *leaf = pagemap_leaf_of(addr, &i);
	if (leaf == NULL)
		return e;
	/* Acquire: pairs with the release in pagemap_set; it orders the descriptor, too. */
	e.tag = __atomic_load_n(&leaf->tag[i], __ATOMIC_ACQUIRE);
	e.desc = __atomic_load_n(&leaf->desc[i], __ATOMIC_RELAXED);
	return e;
}

/* pagemap_lookup, out of line: for those who seldom ask. */
struct pagemap_entry pagemap_find(uintptr_t addr);

/* As pagemap_lookup for granules that may be others', who may be giving them up: tag and descriptor were so
   at the same time, or the tag is TAG_NONE. (Not if the granule changes hands back and forth meanwhile, twice:
   each time takes system calls.) */
struct pagemap_entry pagemap_lookup_steady(uintptr_t addr);

/* Makes sure that leaves exist for the range. False: out of memory. */
bool pagemap_cover(uintptr_t addr, size_t granules);

/* Sets tag and descriptor of a covered range. A tag whose descriptor is a pointer gives way to another before the
   descriptor becomes a number. */
void pagemap_set(uintptr_t addr, size_t granules, uint32_t tag, void *desc);

/* As pagemap_set for the tag alone. */
void pagemap_set_tag(uintptr_t addr, size_t granules, uint32_t tag);

struct lock *pagemap_lock(void);

#endif
