/* SPDX-License-Identifier: MIT */
/* Stands for a second allocator that a program is linked with: the names are its own, libc's blocks mean
   nothing to it. */
#include <malloc.h>
#include <stdlib.h>

size_t malloc_usable_size(void *ptr)
{
	abort();
}
