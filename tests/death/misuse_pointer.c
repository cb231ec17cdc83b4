/* SPDX-License-Identifier: MIT */
/* Pointers given to free that no block starts at. */
#include "misuse.h"

#include "cases.h"

#include <alloca.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *free_it(void *ptr)
{
	free(opaque(ptr));
	return NULL;
}

static void interior(size_t size, size_t offset)
{
	char *p = take(size);

	memset(p, 0x5a, size);
	expect_interior("free", p + offset, p);
	free(opaque(p + offset));
}

static void interior_1(size_t size)
{
	interior(size, 1);
}

static void interior_8(size_t size)
{
	interior(size, 8);
}

static void interior_16(size_t size)
{
	interior(size, 16);
}

static void interior_middle(size_t size)
{
	interior(size, size / 2 + 8);
}

static void interior_last(size_t size)
{
	interior(size, size - 1);
}

/* Page-aligned, as a block of that size would be. */
static void interior_page(size_t size)
{
	interior(size, size / 2 / 65536 * 65536 + (size > 65536 ? 65536 : 4096));
}

static void interior_in_thread(size_t size)
{
	char *p = take(size);

	expect_interior("free", p + 16, p);
	in_thread(free_it, p + 16);
}

static void interior_of_aligned(size_t size)
{
	void *p;

	CHECK(posix_memalign(&p, 4096, size) == 0);
	expect("free of interior pointer %p (*-byte block at *)", (void *)((char *)p + 16));
	free(opaque((char *)p + 16));
}

/* In the block before, when there is one; else in front of anything ever allocated. */
static void before_block(size_t size)
{
	enum { COUNT = 16 };
	char *blocks[COUNT];

	for (size_t i = 0; i < COUNT; i++)
		blocks[i] = take(size);
	for (size_t i = 0; i + 1 < COUNT; i++) {
		if (blocks[i] + malloc_usable_size(blocks[i]) != blocks[i + 1])
			continue;
		expect_interior("free", blocks[i + 1] - 16, blocks[i]);
		free(opaque(blocks[i + 1] - 16));
	}
	expect("free of invalid pointer %p", (void *)(blocks[0] - 16));
	expect("free of interior pointer %p (* at *)", (void *)(blocks[0] - 16));
	free(opaque(blocks[0] - 16));
}

/* The first multiple of 64 KiB behind a block: behind the slab of a small one, behind the pages of
   a large one. */
static void behind_slab(size_t size)
{
	uintptr_t end = (uintptr_t)take(size) + size;
	void *behind = (void *)((end + 0xffff) & ~(uintptr_t)0xffff);

	expect("free of invalid pointer %p", behind);
	expect("free of interior pointer %p (* at *)", behind);
	free(opaque(behind));
}

static void invalid(const void *ptr)
{
	expect("free of invalid pointer %p", ptr);
	free(opaque(ptr));
}

static void stack(size_t size)
{
	_Alignas(16) char buffer[64];

	invalid(opaque(buffer));
}

static void *stack_of_thread(void *unused)
{
	stack(0);
	return NULL;
}

static void stack_in_thread(size_t size)
{
	in_thread(stack_of_thread, NULL);
}

static void global(size_t size)
{
	static _Alignas(16) char buffer[64];

	invalid(buffer);
}

static void thread_local(size_t size)
{
	static _Thread_local _Alignas(16) char buffer[64];

	invalid(opaque(buffer));
}

static void from_alloca(size_t size)
{
	char *p = alloca(128);

	memset(p, 0, 128);
	invalid(opaque(p));
}

static void literal(size_t size)
{
	invalid("a string literal");
}

static void function(size_t size)
{
	invalid((void *)(uintptr_t)free_it);
}

static void library_function(size_t size)
{
	invalid((void *)(uintptr_t)memcpy);
}

static void environment(size_t size)
{
	invalid(environ[0]);
}

static void wild_small(size_t size)
{
	invalid((void *)0x10);
}

static void wild_odd(size_t size)
{
	invalid((void *)1);
}

static void wild_low(size_t size)
{
	invalid((void *)0xdeadbeef);
}

static void wild_high(size_t size)
{
	invalid((void *)0xdead000000000000);
}

static void wild_negative(size_t size)
{
	invalid((void *)-16);
}

static void wild_end_of_user_space(size_t size)
{
	invalid((void *)0x7ffffffff000);
}

static void wild_kernel(size_t size)
{
	invalid((void *)0xffff800000000000);
}

static void *map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static void mapped(size_t size)
{
	invalid(map(1 << 20));
}

static void mapped_inside(size_t size)
{
	invalid((char *)map(1 << 20) + 4096 + 16);
}

static void mapped_no_access(size_t size)
{
	void *p = map(1 << 20);

	CHECK(mprotect(p, 1 << 20, PROT_NONE) == 0);
	invalid(p);
}

static void mapped_no_access_inside(size_t size)
{
	char *p = map(1 << 20);

	CHECK(mprotect(p, 1 << 20, PROT_NONE) == 0);
	invalid(p + 4096);
}

/* What libc would take for the block's size leads to memory that nobody may touch. */
static void mapped_before_no_access(size_t size)
{
	char *p = map(1 << 20);

	CHECK(mprotect(p + (1 << 19), 1 << 19, PROT_NONE) == 0);
	*(size_t *)(void *)(p + 8) = (1 << 19) + 1;
	invalid(p + 16);
}

static void unmapped(size_t size)
{
	void *p = map(1 << 20);

	CHECK(munmap(p, 1 << 20) == 0);
	invalid(p);
}

static void break_area(size_t size)
{
	char *p = sbrk(65536);

	if (p == (void *)-1)
		case_skip();
	invalid(p + 4096);
}

static void in_thread_wild(size_t size)
{
	expect("free of invalid pointer %p", (void *)0xdeadbee0);
	in_thread(free_it, (void *)0xdeadbee0);
}

const struct misuse pointer_cases[] = {
	{"interior_pointer_at_1_freed", SIZE_EVERY, interior_1},
	{"interior_pointer_at_8_freed", SIZE_EVERY, interior_8},
	{"interior_pointer_at_16_freed", SIZE_EVERY, interior_16},
	{"interior_pointer_at_middle_freed", SIZE_EVERY, interior_middle},
	{"interior_pointer_at_last_byte_freed", SIZE_EVERY, interior_last},
	{"interior_pointer_at_page_freed", SIZE_MEDIUM | SIZE_LARGE | SIZE_HUGE, interior_page},
	{"interior_pointer_freed_by_thread", SIZE_EVERY, interior_in_thread},
	{"interior_pointer_of_aligned_block_freed", SIZE_EVERY, interior_of_aligned},
	{"pointer_before_block_freed", SIZE_EVERY, before_block},
	{"pointer_behind_slab_freed", SIZE_EVERY, behind_slab},
	{"stack_pointer_freed", SIZE_NONE, stack},
	{"stack_pointer_of_thread_freed", SIZE_NONE, stack_in_thread},
	{"global_pointer_freed", SIZE_NONE, global},
	{"thread_local_pointer_freed", SIZE_NONE, thread_local},
	{"alloca_pointer_freed", SIZE_NONE, from_alloca},
	{"literal_pointer_freed", SIZE_NONE, literal},
	{"function_pointer_freed", SIZE_NONE, function},
	{"library_function_pointer_freed", SIZE_NONE, library_function},
	{"environment_pointer_freed", SIZE_NONE, environment},
	{"wild_pointer_10_freed", SIZE_NONE, wild_small},
	{"wild_pointer_1_freed", SIZE_NONE, wild_odd},
	{"wild_pointer_deadbeef_freed", SIZE_NONE, wild_low},
	{"wild_pointer_dead000000000000_freed", SIZE_NONE, wild_high},
	{"wild_pointer_minus_16_freed", SIZE_NONE, wild_negative},
	{"wild_pointer_at_end_of_user_space_freed", SIZE_NONE, wild_end_of_user_space},
	{"wild_pointer_in_kernel_freed", SIZE_NONE, wild_kernel},
	{"wild_pointer_freed_by_thread", SIZE_NONE, in_thread_wild},
	{"mapped_pointer_freed", SIZE_NONE, mapped},
	{"mapped_interior_pointer_freed", SIZE_NONE, mapped_inside},
	{"mapped_inaccessible_pointer_freed", SIZE_NONE, mapped_no_access},
	{"mapped_inaccessible_interior_pointer_freed", SIZE_NONE, mapped_no_access_inside},
	{"mapped_pointer_before_inaccessible_page_freed", SIZE_NONE, mapped_before_no_access},
	{"unmapped_pointer_freed", SIZE_NONE, unmapped},
	{"break_area_pointer_freed", SIZE_NONE, break_area},
	{NULL, 0, NULL},
};
