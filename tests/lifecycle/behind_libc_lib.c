/* SPDX-License-Identifier: MIT */
/* A library that needs HAKMEM, of which the program that uses it knows nothing: blocks of libc's come to it. */
#include <hakmem.h>

#include <string.h>

#include "behind_libc.h"

size_t size_of_libcs(void)
{
	char *text = strdup("twelve bytes"), *longer;
	size_t usable = hak_usable_size(text);

	longer = hak_realloc(text, 1000);
	if (longer == NULL || hak_owns(longer) || strcmp(longer, "twelve bytes") != 0)
		return 0;
	hak_free(longer);
	return usable;
}

int size_of_ours_is_right(void)
{
	void *block = hak_malloc(100);
	int right = block != NULL && hak_owns(block) && hak_usable_size(block) >= 100;

	hak_free(block);
	return right;
}
