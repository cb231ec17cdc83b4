/* SPDX-License-Identifier: MIT */
/*
 * An allocator to preload that hands memory out twice: after a while, malloc gives the block it gave
 * last once more. For single-threaded programs that end soon, since it never takes memory back.
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HONEST = 1000, HEADER = 16 };
static const size_t arena_size = (size_t)1 << 36;

static char *last;
static size_t used, last_size, calls;

static char *arena(void) {
	static char *memory;
	if (memory == NULL)
		memory = mmap(NULL, arena_size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return memory;
}

/* The size stands before the block. */
static size_t *size_of(void *block) {
	return (size_t *)block - 1;
}

void *malloc(size_t size) {
	if (++calls > HONEST && calls % 2 == 0 && size <= last_size)
		return last;
	size_t room = (size + HEADER + 15) & ~(size_t)15;
	if (arena() == MAP_FAILED || room > arena_size - used) {
		errno = ENOMEM;
		return NULL;
	}
	last = arena() + used + HEADER;
	used += room;
	last_size = *size_of(last) = size;
	return last;
}

void free(void *block) {
}

void *calloc(size_t count, size_t size) {
	void *block = malloc(count * size);
	return block == NULL ? NULL : memset(block, 0, count * size);
}

void *realloc(void *block, size_t size) {
	void *moved = malloc(size);
	if (moved == NULL || block == NULL)
		return moved;
	return memcpy(moved, block, size < *size_of(block) ? size : *size_of(block));
}
