/* SPDX-License-Identifier: MIT */
#include "space/meta.h"

#include "base/bits.h"
#include "os/lock.h"
#include "os/os.h"

/* Large, but every process writes to its beginning: right behind the small variables. */
HAK_AT_START HAK_LATE_IN_BSS struct meta_first hak_meta_first;

enum {
	GROWTH = 256 * 1024, /* bytes mapped when the other stretches are used up */
	STRETCHES = 64,      /* remembered, for reports */
};

/* All under `lock`. `spare` is a second stretch, taken up when what there is now is used up. */
static struct {
	struct lock lock;
	bool has_begun; /* hak_meta_first was taken up */
	char *at, *end;
	char *spare, *spare_end;
	size_t used;
	struct stretch {
		uintptr_t start, end;
	} all[STRETCHES]; /* whatever was taken up, guards and all; neighbours are one */
	unsigned count;
	bool is_guarded;
} meta;

struct lock *meta_lock(void) {
	return &meta.lock;
}

void meta_reset(void) {
	meta.at = meta.end = meta.spare = meta.spare_end = NULL;
}

size_t meta_used(void) {
	return meta.used;
}

HAK_EVERYDAY static void guard_ends(uintptr_t start, uintptr_t end) {
	os_protect((void *)start, os_facts.page_size, false);
	os_protect((void *)(end - os_facts.page_size), os_facts.page_size, false);
}

HAK_NOINLINE HAK_EVERYDAY static void guard_locked(void) {
	if (meta.is_guarded)
		return;
	meta.is_guarded = true;
	for (unsigned i = 0; i < meta.count; i++)
		guard_ends(meta.all[i].start, meta.all[i].end);
}

void meta_guard(void) {
	lock_acquire(&meta.lock);
	guard_locked();
	lock_release(&meta.lock);
}

HAK_EVERYDAY static void take_up(const char *start, size_t size) {
	uintptr_t s = (uintptr_t)start, e = s + size;
	if (meta.is_guarded)
		guard_ends(s, e);
	for (unsigned i = 0; i < meta.count; i++) {
		struct stretch *r = &meta.all[i];
		if (r->start == e || r->end == s) {
			*r = r->start == e ? (struct stretch){ s, r->end } : (struct stretch){ r->start, e };
			return;
		}
	}
	if (meta.count < STRETCHES)
		meta.all[meta.count++] = (struct stretch){ s, e };
}

bool meta_has(uintptr_t addr) {
	if (addr - (uintptr_t)hak_meta_first.bytes < META_FIRST_BYTES)
		return true;
	for (unsigned i = 0; i < meta.count; i++)
		if (addr >= meta.all[i].start && addr < meta.all[i].end)
			return true;
	return false;
}

const void *meta_used_at(void) {
	return &meta.used;
}

HAK_EVERYDAY static bool begin_locked(void) {
	if (meta.has_begun)
		return false;
	meta.has_begun = true;
	meta.at = hak_meta_first.bytes;
	meta.end = meta.at + META_FIRST_BYTES;
	return true;
}

HAK_EVERYDAY void meta_donate(void *start, size_t size) {
	size_t page = os_facts.page_size;
	char *s = (char *)start + page, *end = (char *)start + size - page;
	if (size <= 2 * page)
		return;
	lock_acquire(&meta.lock);
	take_up(start, size);
	if (meta.at == meta.end && !begin_locked()) {
		guard_locked();
		meta.at = s;
		meta.end = end;
	} else if (end - s > meta.spare_end - meta.spare) {
		meta.spare = s;
		meta.spare_end = end;
	}
	lock_release(&meta.lock);
}

HAK_EVERYDAY static bool refill(size_t size) {
	if (size <= META_FIRST_BYTES && begin_locked())
		return true;
	guard_locked();
	if ((size_t)(meta.spare_end - meta.spare) >= size) {
		meta.at = meta.spare;
		meta.end = meta.spare_end;
		meta.spare = meta.spare_end = NULL;
		return true;
	}
	size_t page = os_facts.page_size, growth = max_size(GROWTH, align_up(size, page) + 2 * page);
	char *p = os_map(NULL, growth);
	if (p == NULL)
		return false;
	take_up(p, growth);
	meta.at = p + page;
	meta.end = p + growth - page;
	return true;
}

/* A process that needs little touches as few pages as it can. */
HAK_EVERYDAY static char *place(size_t size) {
	size_t page = os_facts.page_size, left = -(uintptr_t)meta.at & (page - 1);
	return size > left && size <= page / 4 ? meta.at + left : meta.at;
}

HAK_EVERYDAY void *meta_alloc(size_t size) {
	size = align_up(size, HAK_CACHE_LINE);
	lock_acquire(&meta.lock);
	char *p = place(size);
	if (meta.end - p < (ptrdiff_t)size)
		p = refill(size) ? place(size) : NULL;
	if (p != NULL) {
		meta.at = p + size;
		meta.used += size;
	}
	lock_release(&meta.lock);
	return p;
}
