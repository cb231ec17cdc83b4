/* SPDX-License-Identifier: MIT */
#include "block.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of larger blocks than this only the ends and one line per page are filled. */
enum { FILLED_WHOLE = 16 << 10, PAGE = 4096, LINE = 64 };

static unsigned long long seed;

void block_set_seed(unsigned long long new_seed)
{
	seed = new_seed;
}

__attribute__((noreturn)) static void fault(const char *what, const struct block *block, size_t at)
{
	fprintf(stderr, "stress: %s: block %p of %zu bytes, byte %zu (--seed %llu)\n", what,
		(void *)block->ptr, block->size, at, seed);
	_Exit(1);
}

/* What the eight bytes at offset `at` hold, in a block at `base` of `size` bytes. */
static uint64_t word_of(const unsigned char *base, size_t size, size_t at)
{
	uint64_t x = ((uint64_t)(uintptr_t)base + at) * 0x9e3779b97f4a7c15 + size;

	return (x ^ x >> 29) * 0xbf58476d1ce4e5b9;
}

/* The next offset that is filled, after the eight bytes at `at`. */
static size_t next_offset(size_t size, size_t at)
{
	at += 8;
	if (size <= FILLED_WHOLE || at % PAGE < LINE || at + LINE >= size)
		return at;
	at = (at / PAGE + 1) * PAGE;
	return at + LINE < size ? at : (size - LINE) & ~(size_t)7;
}

static size_t word_length(size_t size, size_t at)
{
	return size - at < 8 ? size - at : 8;
}

static void fill(const struct block *block)
{
	for (size_t at = 0; at < block->size; at = next_offset(block->size, at)) {
		uint64_t word = word_of(block->ptr, block->size, at);

		memcpy(block->ptr + at, &word, word_length(block->size, at));
	}
}

/* Checks the first `length` bytes at `ptr`, to which the contents of `block` may have moved. */
static void check(const struct block *block, const unsigned char *ptr, size_t length)
{
	for (size_t at = 0; at < length; at = next_offset(block->size, at)) {
		uint64_t word = word_of(block->ptr, block->size, at);

		if (memcmp(ptr + at, &word, word_length(length, at)) != 0)
			fault("damaged contents", block, at);
	}
}

static void check_cleared(const struct block *block, size_t asked)
{
	for (size_t i = 0; i < asked; i++)
		if (block->ptr[i])
			fault("not cleared by calloc", block, i);
}

/* As programs have it: mostly small, a few middling, seldom large, 0 as well. */
static size_t random_size(struct random *random)
{
	uint64_t kind = random_below(random, 1000);

	if (kind < 700)
		return random_below(random, 257);
	if (kind < 920)
		return random_below(random, 1100);
	if (kind < 980)
		return random_below(random, 9000);
	if (kind < 995)
		return random_below(random, 40 << 10);
	if (kind < 999)
		return random_below(random, 600 << 10);
	return random_below(random, 5 << 20);
}

static size_t random_alignment(struct random *random)
{
	if (random_below(random, 64) == 0)
		return (size_t)1 << (12 + random_below(random, 10));
	return (size_t)8 << random_below(random, 9);
}

static void allocate_aligned(struct block *block, size_t size, struct random *random)
{
	size_t alignment = random_alignment(random);
	void *ptr = NULL;
	int error;

	if (random_below(random, 2)) /* a multiple, as sanitizers want it */
		ptr = aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
	else if ((error = posix_memalign(&ptr, alignment, size))) {
		errno = error; /* which it does not say there */
		ptr = NULL;
	}
	block->ptr = ptr;
	if ((uintptr_t)ptr % alignment)
		fault("misaligned", block, alignment);
}

/* Takes over the block just allocated: how much of it may be used is part of the answer. */
static void adopt(struct block *block, size_t asked)
{
	size_t usable = block->ptr ? malloc_usable_size(block->ptr) : 0;

	if (!block->ptr && errno != ENOMEM)
		fault("no memory and no ENOMEM", block, asked);
	if (block->ptr && usable < asked)
		fault("usable size too small", block, asked);
	if ((uintptr_t)block->ptr % (asked < 16 ? 8 : 16))
		fault("misaligned", block, 16);
	block->size = asked ? usable : 0; /* sanitizers let nobody use an empty block */
	if (block->ptr)
		fill(block);
}

void block_allocate(struct block *block, struct random *random)
{
	size_t size = random_size(random);

	block->size = size;
	errno = 0;
	switch (random_below(random, 10)) {
	case 0:
	case 1:
		block->ptr = calloc(1, size);
		if (block->ptr)
			check_cleared(block, size);
		break;
	case 2:
		allocate_aligned(block, size, random);
		break;
	case 3:
		block->ptr = realloc(NULL, size);
		break;
	default:
		block->ptr = malloc(size);
	}
	adopt(block, size);
}

/* What moved is still as it was filled for its old place. */
void block_resize(struct block *block, struct random *random)
{
	size_t size = random_size(random) + 1; /* realloc to 0 frees */
	unsigned char *ptr;

	if (random_below(random, 4) == 0)
		size = block->size + block->size / 2 + 1; /* as growing arrays do */
	if (size > 8 << 20)
		size = 8 << 20;
	check(block, block->ptr, block->size);
	errno = 0;
	ptr = realloc(block->ptr, size);
	if (ptr) {
		check(block, ptr, block->size < size ? block->size : size);
		block->ptr = ptr;
		adopt(block, size);
	} else if (errno != ENOMEM) {
		fault("no memory and no ENOMEM", block, size);
	}
}

void block_free(struct block *block)
{
	if (!block->ptr)
		return;
	check(block, block->ptr, block->size);
	errno = 4711;
	free(block->ptr);
	if (errno != 4711)
		fault("errno changed by free", block, (size_t)errno);
	block->ptr = NULL;
}

void block_spoil(struct block *block, struct block *other, enum block_spoiling how)
{
	switch (how) {
	case BLOCK_OVERWRITTEN:
		block->ptr[block->size - 1] ^= 1;
		break;
	case BLOCK_SHARED:
		*other = (struct block){block->ptr + 32, block->size - 32};
		fill(other);
		break;
	case BLOCK_CLEARED:
		memset(block->ptr + block->size / 2, 0, block->size - block->size / 2);
		break;
	case BLOCK_INTACT:
		break;
	}
}
