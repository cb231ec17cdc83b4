/* SPDX-License-Identifier: MIT */
/*
 * Metadata memory: what descriptors are made of. It never lies beside user blocks, is handed out
 * by bumping a pointer, and is never given back; users of one type keep their own free lists.
 *
 * What a small process needs comes from the library's zero-initialised data: in front of those lie
 * the library's own data and code, behind them bytes that hold nothing. That takes no system call,
 * and pages nobody touches cost nothing. (In a static program its own data lie in front, too.)
 *
 * What follows are stretches of mappings, whose first and last pages hold nothing, and are
 * inaccessible before such a stretch is used. At level 0 of HAKMEM_SECURE the guard behind the page
 * map comes only with the second SuperSlab, and until then is a gap.
 */
#ifndef HAK_SPACE_META_H
#define HAK_SPACE_META_H

#include "base/compiler.h"

enum { META_FIRST_BYTES = 64 * 1024 }; /* a SuperSlab full of slabs and some threads take less */

/* Other data of the library may lie behind it, or nothing of ours. */
struct meta_first {
	char bytes[META_FIRST_BYTES] HAK_CACHE_ALIGNED;
	char gap[32 * 1024];
};
extern HAK_HIDDEN struct meta_first hak_meta_first;

/* `size` zero bytes aligned to a cache line, of one page if they are at most a quarter of one; or NULL. Thread-safe. */
void *meta_alloc(size_t size);

/* Adds a page-aligned stretch of fresh zero memory to what meta_alloc uses, after hak_meta_first; of
   those that wait it keeps the largest. Its first and last page are not used. */
void meta_donate(void *start, size_t size);

/* From here on every stretch that was mapped has inaccessible pages at both ends, as far as the
   system lets it: by itself from the first that is used on. */
void meta_guard(void);

/* Is `addr` in metadata memory? Takes no lock: a guess while it grows. */
bool meta_has(uintptr_t addr);

/* Bytes handed out. */
size_t meta_used(void);
const void *meta_used_at(void);

struct lock *meta_lock(void);

/* After fork with that lock held by a thread that is gone: gives up what was left. */
void meta_reset(void);

#endif
