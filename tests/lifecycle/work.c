/* SPDX-License-Identifier: MIT */
#include "work.h"

#include "../death/cases.h"
#include "../resident.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const size_t work_sizes[] = {1, 8, 16, 24, 48, 100, 256, 513, 1000, 1024, 1025, 3000, 4096, 8192,
	12 << 10, 20000, 32 << 10, (32 << 10) + 1, 100 << 10, 500 << 10, 600 << 10, 2 << 20,
	WORK_LARGEST};
const size_t work_size_count = sizeof work_sizes / sizeof *work_sizes;

/* How many bytes are marked at either end. */
static size_t edge(size_t size)
{
	return size < 64 ? size : 64;
}

static unsigned char mark_of(const unsigned char *byte, size_t size)
{
	return (unsigned char)(((uintptr_t)byte * 0x9e3779b97f4a7c15 + size) >> 40);
}

void work_mark(void *ptr, size_t size)
{
	unsigned char *bytes = ptr;

	for (size_t i = 0; i < edge(size); i++) {
		bytes[i] = mark_of(bytes + i, size);
		bytes[size - 1 - i] = mark_of(bytes + size - 1 - i, size);
	}
}

bool work_is_marked(const void *ptr, size_t size)
{
	const unsigned char *bytes = ptr;

	for (size_t i = 0; i < edge(size); i++)
		if (bytes[i] != mark_of(bytes + i, size) ||
			bytes[size - 1 - i] != mark_of(bytes + size - 1 - i, size))
			return false;
	return true;
}

void *work_take(size_t size)
{
	void *ptr = malloc(size);

	CHECK(ptr);
	CHECK((uintptr_t)ptr % (size < 16 ? 8 : 16) == 0);
	work_mark(ptr, size);
	return ptr;
}

void work_give(void *ptr, size_t size)
{
	CHECK(work_is_marked(ptr, size));
	free(ptr);
}

static void work_cleared(size_t size)
{
	unsigned char *ptr = calloc(1, size);

	CHECK(ptr);
	for (size_t i = 0; i < edge(size); i++)
		CHECK(ptr[i] == 0 && ptr[size - 1 - i] == 0);
	memset(ptr, 0xa5, edge(size));
	free(ptr);
}

static void work_resized(size_t size)
{
	unsigned char *ptr = work_take(size), first = ptr[0];

	ptr = realloc(ptr, size * 2 + 1);
	CHECK(ptr && ptr[0] == first);
	ptr[size * 2] = 1;
	ptr = realloc(ptr, size / 2 + 1);
	CHECK(ptr && ptr[0] == first);
	free(ptr);
}

static void work_aligned(size_t size)
{
	size_t alignment = size < 4096 ? 256 : 65536;
	void *ptr;

	CHECK(posix_memalign(&ptr, alignment, size) == 0);
	CHECK((uintptr_t)ptr % alignment == 0);
	work_mark(ptr, size);
	work_give(ptr, size);
}

void work_all_sizes(void)
{
	struct work_set set;

	work_keep(&set);
	for (size_t i = 0; i < work_size_count; i++) {
		work_cleared(work_sizes[i]);
		work_resized(work_sizes[i]);
		work_aligned(work_sizes[i]);
	}
	work_release(&set);
}

void work_keep(struct work_set *set)
{
	for (size_t i = 0; i < work_size_count; i++)
		set->blocks[i] = work_take(work_sizes[i]);
}

void work_release(struct work_set *set)
{
	for (size_t i = 0; i < work_size_count; i++)
		work_give(set->blocks[i], work_sizes[i]);
}

void *work_parcel(size_t size)
{
	size_t *parcel;

	size += sizeof *parcel;
	parcel = malloc(size);
	CHECK(parcel);
	work_mark(parcel + 1, size - sizeof *parcel);
	*parcel = size;
	return parcel;
}

void work_open_parcel(void *parcel)
{
	size_t *size = parcel;

	CHECK(work_is_marked(size + 1, *size - sizeof *size));
	free(parcel);
}

long work_resident_kib(void)
{
	long kib = resident_kib();

	CHECK(kib >= 0);
	return kib;
}
