/*
 * A library that exports malloc with a version of its own: preloaded, it serves nobody, since the
 * loader looks for the C library's version. What a comparison must notice.
 */
#include <stddef.h>

void *malloc(size_t size);

void *malloc(size_t size) {
	(void)size;
	return NULL;
}
