/* SPDX-License-Identifier: MIT */
/*
 * Honest work for an allocator in any situation: blocks of every size range, filled, kept, checked
 * and freed. No stdio, no locks, no system calls of its own, so it may run before main, in a signal
 * handler's child or after exit has begun. Any fault ends the process by case_fail.
 */
#ifndef TESTS_WORK_H
#define TESTS_WORK_H

#include <stdbool.h>
#include <stddef.h>

/* One size of every range that an allocator may treat differently, up to WORK_LARGEST. */
extern const size_t work_sizes[];
extern const size_t work_size_count;
enum { WORK_LARGEST = 3 << 20 };

/* Marks the first and the last bytes of a block, so that both its sharing and its loss show. */
void work_mark(void *ptr, size_t size);

/* Whether a marked block still is as it was. */
bool work_is_marked(const void *ptr, size_t size);

/* A marked block, which must be had. */
void *work_take(size_t size);

/* Checks and frees a marked block. */
void work_give(void *ptr, size_t size);

/* malloc, calloc, realloc both ways, posix_memalign and free over all sizes. */
void work_all_sizes(void);

/* One block of each size, kept for later. */
struct work_set {
	void *blocks[32];
};
void work_keep(struct work_set *set);
void work_release(struct work_set *set);

/* A block that knows its size, for handing over: freed by whoever holds it. */
void *work_parcel(size_t size);
void work_open_parcel(void *parcel);

/* Kilobytes of this process that are in memory. Uses no stdio. */
long work_resident_kib(void);

#endif
