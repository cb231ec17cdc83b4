/* SPDX-License-Identifier: MIT */
#include "space/pagemap.h"

#include "os/lock.h"
#include "os/os.h"

HAK_LAST_IN_BSS struct pagemap hak_pagemap;

/* The first leaf is part of the library's zero-initialised data: most processes need no other, and
   untouched pages of it cost nothing. */
HAK_LAST_IN_BSS struct pagemap_leaf hak_first_leaf;

/* `lock` guards the making of leaves; they are never removed. */
static struct {
	struct lock lock;
	bool first_used;
} state;

struct lock *pagemap_lock(void) {
	return &state.lock;
}

static uint32_t granule_of(uintptr_t addr) {
	return (uint32_t)(addr >> GRANULE_SHIFT);
}

static struct pagemap_leaf *leaf_at(uint32_t root_index) {
	uintptr_t off = __atomic_load_n(&hak_pagemap.root[root_index], __ATOMIC_RELAXED);
	return off == 0 ? NULL : (struct pagemap_leaf *)(void *)(pagemap_origin() + off);
}

static bool make_leaf(uint32_t root_index) {
	lock_acquire(&state.lock);
	struct pagemap_leaf *leaf = leaf_at(root_index);
	if (leaf == NULL) {
		leaf = state.first_used ? os_map(NULL, sizeof *leaf) : &hak_first_leaf;
		if (leaf != NULL) {
			state.first_used = true;
			/* Relaxed: a fresh leaf is zero, which is what a reader without it assumes. */
			__atomic_store_n(&hak_pagemap.root[root_index],
			                      (uintptr_t)leaf - (uintptr_t)hak_pagemap.zero, __ATOMIC_RELAXED);
		}
	}
	lock_release(&state.lock);
	return leaf != NULL;
}

bool pagemap_cover(uintptr_t addr, size_t granules) {
	uint32_t first = granule_of(addr) >> 16;
	uint32_t last = (uint32_t)((addr >> GRANULE_SHIFT) + granules - 1) >> 16;
	for (uint32_t r = first; r <= last; r++)
		if (leaf_at(r) == NULL && !make_leaf(r))
			return false;
	return true;
}

void pagemap_set(uintptr_t addr, size_t granules, uint32_t tag, void *desc) {
	uint32_t g = granule_of(addr);
	for (size_t i = 0; i < granules; i++, g++) {
		struct pagemap_leaf *leaf = leaf_at(g >> 16);
		__atomic_store_n(&leaf->desc[g & 0xffff], desc, __ATOMIC_RELAXED);
		/* Release: who reads this tag with acquire sees the descriptor and its contents. */
		__atomic_store_n(&leaf->tag[g & 0xffff], tag, __ATOMIC_RELEASE);
	}
}

void pagemap_set_tag(uintptr_t addr, size_t granules, uint32_t tag) {
	uint32_t g = granule_of(addr);
	for (size_t i = 0; i < granules; i++, g++)
		__atomic_store_n(&leaf_at(g >> 16)->tag[g & 0xffff], tag, __ATOMIC_RELEASE);
}
