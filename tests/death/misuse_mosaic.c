/* SPDX-License-Identifier: MIT */
/*
 * Misuse of blocks that lie in holes of another class's slabs: first many small blocks, most of them freed,
 * then larger ones until one lies between survivors. Where the allocator does no such thing, as with
 * slabs mapped alone by each class it still holds that the misuse is caught.
 */
#include "misuse.h"

#include "cases.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

enum { SMALL = 112, BIGGER = 320, COUNT = 60000, KEEP = 10 };

static char *small[COUNT], *bigger[COUNT / 8];

/* A block of BIGGER bytes less than 64 KiB from a survivor of SMALL bytes, if there is one. */
static char *block_in_hole(void)
{
	uintptr_t granule;

	for (size_t i = 0; i < COUNT; i++)
		small[i] = take(SMALL);
	for (size_t i = 0; i < COUNT; i++)
		if (i % KEEP != 0)
			free(small[i]);
	for (size_t i = 0; i < COUNT / 8; i++)
		bigger[i] = take(BIGGER);
	granule = (uintptr_t)bigger[COUNT / 16] >> 16;
	for (size_t i = 0; i < COUNT; i += KEEP)
		if ((uintptr_t)small[i] >> 16 == granule)
			return bigger[COUNT / 16];
	case_skip();
}

static void freed_twice(size_t size)
{
	char *p = block_in_hole();

	expect_double_free(p, malloc_usable_size(p));
	free(p);
	free(opaque(p));
}

static void freed_twice_after_others(size_t size)
{
	char *p = block_in_hole();

	expect_late_double_free(p, malloc_usable_size(p));
	free(p);
	for (size_t i = 0; i < 2000; i++)
		if (bigger[i] != p)
			free(bigger[i]);
	free(opaque(p));
}

static void *free_it(void *ptr)
{
	free(ptr);
	return NULL;
}

static void freed_by_other_thread_and_again(size_t size)
{
	char *p = block_in_hole();

	expect_double_free(p, malloc_usable_size(p));
	in_thread(free_it, p);
	free(opaque(p));
}

static void freed_inside(size_t size)
{
	char *p = block_in_hole();

	expect_interior("free", p + 16, p);
	free(opaque(p + 16));
}

static void freed_misaligned(size_t size)
{
	char *p = block_in_hole();

	expect_interior("free", p + 7, p);
	free(opaque(p + 7));
}

static void survivor_freed_inside(size_t size)
{
	char *p = block_in_hole();

	for (size_t i = 0; i < COUNT; i += KEEP)
		if ((uintptr_t)small[i] >> 16 == (uintptr_t)p >> 16)
			p = small[i];
	expect_interior("realloc", p + 32, p);
	opaque(realloc(opaque(p + 32), 10));
}

static void freed_block_measured(size_t size)
{
	char *p = block_in_hole();

	expect("malloc_usable_size of freed block %p (%zu-byte block)", (void *)p, malloc_usable_size(p));
	free(p);
	opaque((void *)malloc_usable_size(opaque(p)));
}

const struct misuse mosaic_cases[] = {
	{"mosaic_block_freed_twice", SIZE_NONE, freed_twice},
	{"mosaic_block_freed_twice_after_others", SIZE_NONE, freed_twice_after_others},
	{"mosaic_block_freed_by_other_thread_and_again", SIZE_NONE, freed_by_other_thread_and_again},
	{"mosaic_block_freed_inside", SIZE_NONE, freed_inside},
	{"mosaic_block_freed_misaligned", SIZE_NONE, freed_misaligned},
	{"mosaic_survivor_reallocated_inside", SIZE_NONE, survivor_freed_inside},
	{"mosaic_freed_block_measured", SIZE_NONE, freed_block_measured},
	{.name = NULL},
};
