/* SPDX-License-Identifier: MIT */
/*
 * libc's own allocator: for requests that settings hand to it and for blocks that came from it (a
 * library in another link-map namespace, a program switched to pass-through).
 *
 * Its functions are looked up the first time one is needed. In a static program there is no other
 * allocator: every look-up fails.
 */
#ifndef HAK_ABI_LIBC_H
#define HAK_ABI_LIBC_H

#include "base/compiler.h"

/* A block from libc, or NULL. False in *`havep`: there is no libc allocator to ask. */
void *libc_alloc(size_t size, size_t align, bool zero, bool *havep);

/* Could `ptr`, which is not ours, be a block of libc's? Looks at the chunk header libc would have
   put before it. */
bool libc_may_own(const void *ptr);

/* For a pointer libc_may_own says yes to; libc aborts if it is garbage after all. */
void libc_free(void *ptr);
void *libc_realloc(void *ptr, size_t size);
size_t libc_usable_size(const void *ptr);

/* Where all calls are to go to libc, that function of its; else, or if it has none, NULL. */
enum libc_name { LIBC_TRIM, LIBC_MALLOPT, LIBC_MALLINFO2, LIBC_STATS, LIBC_INFO, LIBC_NAMES };
void *libc_instead(enum libc_name name);

#endif
