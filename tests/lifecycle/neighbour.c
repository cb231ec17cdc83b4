/* SPDX-License-Identifier: MIT */
/*
 * A program that is linked with another library that has malloc_usable_size, while requests are handed to
 * libc: their size must be asked of libc.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "../death/cases.h"

static void check(size_t size)
{
	/* Volatile: the compiler does not see how large it was asked to be, and with _FORTIFY_SOURCE would stop us. */
	char *volatile p = malloc(size), *bigger;
	size_t usable = malloc_usable_size(p);

	CHECK(p && usable >= size && usable <= 2 * size + 64);
	memset(p, 1, usable);
	bigger = realloc(p, 2 * usable);
	CHECK(bigger && malloc_usable_size(bigger) >= 2 * usable && bigger[size - 1] == 1);
	free(bigger);
}

static void sizes(void)
{
	for (size_t size = 1; size < 1 << 20; size = size * 3 / 2 + 1)
		check(size);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"usable_size_of_any_block_right", sizes},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
