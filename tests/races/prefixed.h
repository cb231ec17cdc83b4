/* SPDX-License-Identifier: MIT */
/*
 * Included before everything else where a program of the malloc family is to use the library by its own
 * names, linked with its objects: so a race detector, which brings its own malloc, sees inside.
 */
#ifndef TESTS_PREFIXED_H
#define TESTS_PREFIXED_H

#include "hakmem.h"

#include <malloc.h>
#include <stdlib.h>

#define malloc hak_malloc
#define calloc hak_calloc
#define realloc hak_realloc
#define free hak_free
#define aligned_alloc hak_aligned_alloc
#define posix_memalign hak_posix_memalign
#define malloc_usable_size hak_usable_size
#define malloc_trim hak_trim

/* The library has one of that name inside. */
#define block_resize stress_block_resize

#endif
