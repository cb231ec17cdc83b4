/* SPDX-License-Identifier: MIT */
/*
 * For programs that would pass on any allocator: is it HAKMEM that they test? HAKMEM_EXPECT=0 says that it is not meant
 * to be. They must be position-independent: in others the linker decides where `hak_owns` is, which is nowhere.
 */
#ifndef TESTS_SERVES_H
#define TESTS_SERVES_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int hak_owns(const void *ptr) __attribute__((weak));

static inline bool serves_as_expected(void)
{
	enum { SIZE = 2000 }; /* smaller ones may be libc's: tiny_wrap */
	const char *expect = getenv("HAKMEM_EXPECT");

	if (expect && strcmp(expect, "0") == 0)
		return true;
	void *block = malloc(SIZE);
	bool ours = hak_owns && block && hak_owns(block);

	free(block);
	return ours;
}

#endif
