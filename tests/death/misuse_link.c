/* SPDX-License-Identifier: MIT */
/*
 * Writes to freed blocks that hit the links of free lists. What is no address of a block decodes to the end of
 * a list that it is not, and is told when the list comes to it; hardened, it is told from the block, and so
 * are addresses of what is not on the list.
 */
#include "misuse.h"

#include "cases.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 100, MORE = 20000 };

static char *blocks[COUNT];

static void *free_all(void *unused)
{
	for (size_t i = 0; i < COUNT; i++)
		free(blocks[i]);
	return NULL;
}

static void announce(void)
{
	expect("write after free to a *-byte block");
	expect("write after free to a block");
	expect("write after free to * (*-byte block)");
	expect("write before * (*-byte block)"); /* hardened, the word in front of the next one is checked, too */
}

static void take_many(size_t size)
{
	for (size_t i = 0; i < MORE; i++)
		*(volatile char *)take(size) = 1;
	malloc_trim(0);
}

/* Past the first blocks of a process, which have no links. Between the blocks lie others that stay, so that
   what is written to is still mapped when they are free. */
static void take_all(size_t size)
{
	for (size_t i = 0; i < 1000; i++)
		opaque(take(size));
	for (size_t i = 0; i < COUNT; i++) {
		blocks[i] = take(size);
		opaque(take(size));
	}
	announce();
}

static void write_all(uintptr_t value)
{
	for (size_t i = COUNT / 4; i < COUNT; i++)
		*(volatile uintptr_t *)opaque(blocks[i]) = value;
}

static void written(size_t size, uintptr_t value)
{
	take_all(size);
	free_all(NULL);
	write_all(value);
	take_many(size);
}

/* In quarantine it is zero already, and there are no links. */
static void skip_hardened(void)
{
	const char *level = getenv("HAKMEM_SECURE");

	if (level && atoi(level) >= 2)
		case_skip();
}

static void zero(size_t size)
{
	skip_hardened();
	written(size, 0);
}

static void number(size_t size)
{
	written(size, 42);
}

static void text(size_t size)
{
	uintptr_t letters;

	memcpy(&letters, "Benjamin", sizeof letters);
	written(size, letters & ~(uintptr_t)1);
	written(size, letters | 1);
}

static void odd_number(size_t size)
{
	written(size, 43);
}

static void ones(size_t size)
{
	written(size, ~(uintptr_t)0);
}

/* From where links are, had not their top bytes two different values. */
static void equal_bytes(size_t size)
{
	uintptr_t bytes;

	memset(&bytes, 0x80 + getpid() % 64, sizeof bytes);
	written(size, bytes);
}

static void stack_pointer(size_t size)
{
	_Alignas(16) char buffer[16];

	written(size, (uintptr_t)opaque(buffer));
}

static void heap_pointer(size_t size)
{
	written(size, (uintptr_t)take(size));
}

static void tagged_pointer(size_t size)
{
	written(size, (uintptr_t)take(size) + 1);
}

static void alter_all(uintptr_t bits)
{
	for (size_t i = COUNT / 4; i < COUNT; i++)
		*(volatile uintptr_t *)opaque(blocks[i]) ^= bits;
}

static void altered(size_t size, uintptr_t bits)
{
	take_all(size);
	free_all(NULL);
	alter_all(bits);
	take_many(size);
}

/* One of the bits that no address has. */
static void one_bit(size_t size)
{
	static const unsigned char bits[] = {0, 1, 2, 3, 48, 50, 52, 53, 55, 56, 57, 59, 60, 61, 62, 63};

	altered(size, (uintptr_t)1 << bits[(unsigned)getpid() % sizeof bits]);
}

static void shifted(size_t size)
{
	skip_hardened();
	take_all(size);
	free_all(NULL);
	for (size_t i = COUNT / 4; i < COUNT; i++)
		memmove(opaque(blocks[i]), (char *)opaque(blocks[i]) + 1, 16);
	take_many(size);
}

static void nowhere(size_t size)
{
	altered(size, (uintptr_t)1 << 41);
}

static void inside_block(size_t size)
{
	altered(size, 16);
}

static void live_block(size_t size)
{
	uintptr_t live = (uintptr_t)take(size);

	skip_hardened();
	*(uintptr_t *)opaque((void *)live) = live;
	take_all(size);
	free_all(NULL);
	/* The last leads to the one before. */
	*(volatile uintptr_t *)opaque(blocks[COUNT - 1]) ^= (uintptr_t)blocks[COUNT - 2] ^ live;
	for (size_t i = 0; i < COUNT; i++)
		CHECK(take(size) != (void *)live);
}

/* Before, they lie in two bins' worth of blocks and more: what is too much goes home. */
static void freed_after(size_t size)
{
	enum { MANY = 3000 };
	static char *others[MANY];

	for (size_t i = 0; i < MANY; i++)
		others[i] = take(size);
	take_all(size);
	free_all(NULL);
	alter_all(16);
	for (size_t i = 0; i < MANY; i++)
		free(others[i]);
}

/* What a string of the block before does that is too long by its end. */
static void low_byte_zero(size_t size)
{
	skip_hardened();
	take_all(size);
	free_all(NULL);
	for (size_t i = COUNT / 4; i < COUNT; i++)
		*(volatile char *)opaque(blocks[i]) = 0;
	take_many(size);
}

static void trimmed(size_t size)
{
	skip_hardened();
	take_all(size);
	free_all(NULL);
	write_all(0);
	malloc_trim(0);
}

static void in_other_threads_bin(size_t size)
{
	take_all(size);
	in_thread(free_all, NULL);
	write_all(0);
	take_many(size);
}

enum { SMALL = SIZE_SMALL | SIZE_MEDIUM };

const struct misuse link_cases[] = {
	{"link_of_freed_block_cleared", SMALL, zero},
	{"link_of_freed_block_counted", SMALL, number},
	{"link_of_freed_block_overwritten_by_text", SMALL, text},
	{"link_of_freed_block_pointed_to_stack", SMALL, stack_pointer},
	{"link_of_freed_block_pointed_to_block", SMALL, heap_pointer},
	{"link_of_freed_block_ended_by_string", SMALL, low_byte_zero},
	{"link_of_freed_block_cleared_before_trim", SMALL, trimmed},
	{"link_of_block_freed_by_thread_cleared", SMALL, in_other_threads_bin},
	{"link_of_freed_block_counted_to_odd", SMALL, odd_number},
	{"link_of_freed_block_set_to_ones", SMALL, ones},
	{"link_of_freed_block_filled_with_byte", SMALL, equal_bytes},
	{"link_of_freed_block_pointed_to_block_and_tagged", SMALL, tagged_pointer},
	{"link_of_freed_block_with_bit_flipped", SMALL, one_bit},
	{"link_of_freed_block_shifted", SMALL, shifted},
	{"link_of_freed_block_led_inside_block_before_free", SMALL, freed_after},
	{"link_of_freed_block_led_nowhere", SMALL, nowhere, 1},
	{"link_of_freed_block_led_inside_block", SMALL, inside_block, 1},
	{"link_of_freed_block_led_to_live_block", SMALL, live_block, 1},
	{NULL, 0, NULL},
};
