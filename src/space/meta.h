/* SPDX-License-Identifier: MIT */
/*
 * Metadata memory: what descriptors are made of. It comes from mappings of its own, never beside
 * user blocks, is handed out by bumping a pointer, and is never given back; users of one type keep
 * their own free lists.
 *
 * The first and the last page of every stretch hold nothing. They become inaccessible once the process is hardened
 * or has grown beyond its first SuperSlab: a small one is not to pay the system calls, and has a gap there.
 */
#ifndef HAK_SPACE_META_H
#define HAK_SPACE_META_H

#include "base/compiler.h"

/* `size` zero bytes aligned to a cache line, or NULL. Thread-safe. */
void *meta_alloc(size_t size);

/* Adds a page-aligned stretch of fresh zero memory to what meta_alloc uses; of those that wait it keeps
   the largest. Its first and last page are not used. */
void meta_donate(void *start, size_t size);

/* From here on every stretch has inaccessible pages at both ends, as far as the system lets it. */
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
