/* SPDX-License-Identifier: MIT */
#include "space/pagemap.h"

#include "base/bits.h"
#include "os/lock.h"
#include "os/os.h"

HAK_LAST_IN_BSS struct pagemap_root hak_far;
HAK_LAST_IN_BSS struct pagemap_leaf hak_near;
struct pagemap_window hak_near_window;

#define LEAF_BYTES (LEAF_GRANULES * GRANULE)
/* Address space is handed out from the top down, but holes above the first mapping fill up later. */
#define NEAR_ABOVE (LEAF_BYTES / 8)

struct lock *pagemap_lock(void) {
	return &hak_near_window.lock;
}

static void place_window_locked(uintptr_t addr) {
	if (hak_near_window.placed)
		return;
	hak_near_window.placed = true;
	uintptr_t end = align_up(addr, GRANULE) + NEAR_ABOVE;
	/* Relaxed: as in pagemap_near_index. */
	__atomic_store_n(&hak_near_window.base, end < LEAF_BYTES ? 0 : end - LEAF_BYTES, __ATOMIC_RELAXED);
}

uintptr_t pagemap_apart(void) {
	uintptr_t base = PAGEMAP_LOAD(&hak_near_window.base);
	return base != 0 ? align_down(base + LEAF_BYTES - NEAR_ABOVE - HUGE_APART, HUGE_APART) : 0;
}

/* Still readable: the data of a library are among what garbage collectors and leak checkers read. */
HAK_EVERYDAY_SMALL static void guard(char *room) {
	uintptr_t page = align_up((uintptr_t)room, os_facts.page_size);
	if (2 * os_facts.page_size <= PAGEMAP_GUARD)
		os_forbid_writes((void *)page, os_facts.page_size);
}

HAK_EVERYDAY_SMALL void pagemap_guard(void) {
	guard(hak_near.guard);
	guard(hak_far.guard);
}

/* A page in front is inaccessible, and `guard` behind is as for the tables. */
static struct pagemap_leaf *map_leaf(void) {
	size_t page = os_facts.page_size;
	char *p = os_map(NULL, align_up(page + sizeof(struct pagemap_leaf), page));
	if (p == NULL)
		return NULL;
	struct pagemap_leaf *leaf = (struct pagemap_leaf *)(void *)(p + page);
	os_protect(p, page, false);
	guard(leaf->guard);
	return leaf;
}

/* The leaf of a far address, made if there is none. */
static bool make_leaf_locked(uintptr_t addr) {
	uintptr_t i;
	if (pagemap_leaf_of(addr, &i) != NULL)
		return true;
	struct pagemap_leaf *leaf = map_leaf();
	if (leaf == NULL)
		return false;
	/* Relaxed: a fresh leaf is zero, which is what a reader without it assumes. */
	__atomic_store_n(&hak_far.offset[addr >> 32], (uintptr_t)leaf - (uintptr_t)hak_far.zero,
	                 __ATOMIC_RELAXED);
	return true;
}

/* Does every granule have a leaf? If not and `make`, makes what is missing. */
HAK_COLD static bool covered(uintptr_t addr, uintptr_t end, bool make) {
	while (addr < end) {
		uintptr_t i;
		if (pagemap_near_index(addr) < LEAF_GRANULES) {
			addr = hak_near_window.base + LEAF_BYTES;
			continue;
		}
		if (make ? !make_leaf_locked(addr) : pagemap_leaf_of(addr, &i) == NULL)
			return false;
		addr = align_up(addr + 1, LEAF_BYTES);
	}
	return true;
}

HAK_COLD bool pagemap_cover(uintptr_t addr, size_t granules) {
	uintptr_t end = addr + (granules << GRANULE_SHIFT);
	if (PAGEMAP_LOAD(&hak_near_window.base) != 0 && covered(addr, end, false))
		return true;
	lock_acquire(&hak_near_window.lock);
	place_window_locked(addr);
	bool ok = covered(addr, end, true);
	lock_release(&hak_near_window.lock);
	return ok;
}

void pagemap_set(uintptr_t addr, size_t granules, uint32_t tag, void *desc) {
	/* Release: who sees a new descriptor sees that the tag changed before (pagemap_lookup_steady). */
	atomic_thread_fence(memory_order_release);
	for (size_t n = 0; n < granules; n++, addr += GRANULE) {
		uintptr_t i;
		struct pagemap_leaf *leaf = pagemap_leaf_of(addr, &i);
		__atomic_store_n(&leaf->desc[i], desc, __ATOMIC_RELAXED);
		/* Release: who reads this tag with acquire sees the descriptor and its contents. */
		__atomic_store_n(&leaf->tag[i], tag, __ATOMIC_RELEASE);
	}
}

void pagemap_set_tag(uintptr_t addr, size_t granules, uint32_t tag) {
	for (size_t n = 0; n < granules; n++, addr += GRANULE) {
		uintptr_t i;
		struct pagemap_leaf *leaf = pagemap_leaf_of(addr, &i);
		/* Release: as in pagemap_set. */
		__atomic_store_n(&leaf->tag[i], tag, __ATOMIC_RELEASE);
	}
}

/* ---- out of line ---- */

HAK_COLD struct pagemap_entry pagemap_find(uintptr_t addr) {
	return pagemap_lookup(addr);
}

HAK_COLD struct pagemap_entry pagemap_lookup_steady(uintptr_t addr) {
	struct pagemap_entry e = pagemap_find(addr);
	/* Acquire: pairs with the fence in pagemap_set. If the descriptor was newer than the tag, a newer tag is
	   seen now. */
	atomic_thread_fence(memory_order_acquire);
	struct pagemap_entry again = pagemap_find(addr);
	bool steady = again.tag == e.tag && again.desc == e.desc;
	return steady ? e : (struct pagemap_entry){ TAG_NONE, NULL };
}
