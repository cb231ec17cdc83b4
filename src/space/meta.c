/* SPDX-License-Identifier: MIT */
#include "space/meta.h"

#include "base/bits.h"
#include "os/lock.h"
#include "os/os.h"

enum {
	GROWTH = 256 * 1024, /* bytes mapped when the donated stretches are used up */
	STRETCHES = 64,      /* remembered, for reports */
};

/* All under `lock`. `spare` is a second stretch, taken up when the first is used up. */
static struct {
	struct lock lock;
	char *at, *end;
	char *spare, *spare_end;
	size_t used;
	struct stretch {
		uintptr_t start, end;
	} all[STRETCHES]; /* whatever was taken up; neighbours are one */
	unsigned count;
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

static void remember(const char *start, size_t size) {
	uintptr_t s = (uintptr_t)start, e = s + size;
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
	for (unsigned i = 0; i < meta.count; i++)
		if (addr >= meta.all[i].start && addr < meta.all[i].end)
			return true;
	return false;
}

const void *meta_used_at(void) {
	return &meta.used;
}

void meta_donate(void *start, size_t size) {
	char *s = start;
	lock_acquire(&meta.lock);
	if (size != 0)
		remember(s, size);
	if (meta.at == meta.end) {
		meta.at = s;
		meta.end = s + size;
	} else if (size > (size_t)(meta.spare_end - meta.spare)) {
		meta.spare = s;
		meta.spare_end = s + size;
	}
	lock_release(&meta.lock);
}

static bool refill(size_t size) {
	if ((size_t)(meta.spare_end - meta.spare) >= size) {
		meta.at = meta.spare;
		meta.end = meta.spare_end;
		meta.spare = meta.spare_end = NULL;
		return true;
	}
	size_t growth = max_size(GROWTH, align_up(size, os_facts.page_size));
	char *p = os_map(NULL, growth);
	if (p == NULL)
		return false;
	remember(p, growth);
	meta.at = p;
	meta.end = p + growth;
	return true;
}

void *meta_alloc(size_t size) {
	size = align_up(size, HAK_CACHE_LINE);
	void *p = NULL;
	lock_acquire(&meta.lock);
	if ((size_t)(meta.end - meta.at) >= size || refill(size)) {
		p = meta.at;
		meta.at += size;
		meta.used += size;
	}
	lock_release(&meta.lock);
	return p;
}
