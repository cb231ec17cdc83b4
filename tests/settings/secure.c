/* SPDX-License-Identifier: MIT */
/*
 * A program that has the allocator built in, to be made setuid. Its exit status is 0 if the environment
 * was obeyed, which asks for libc's allocator, and 1 if it was not; plus 2 in secure execution.
 */
#include <stdlib.h>
#include <sys/auxv.h>

#include "hakmem.h"

int main(void)
{
	void *block = malloc(5000);
	int owned = hak_owns(block);

	free(block);
	return (owned ? 1 : 0) + (getauxval(AT_SECURE) ? 2 : 0);
}
