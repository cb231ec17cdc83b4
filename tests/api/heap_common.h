/* SPDX-License-Identifier: MIT */
#ifndef HAK_TESTS_API_HEAP_COMMON_H
#define HAK_TESTS_API_HEAP_COMMON_H

#include "common.h"

#include <hakmem.h>

/* A new heap; the test case fails without one. */
static inline hak_heap_t *new_heap(void)
{
	hak_heap_t *heap = hak_heap_new();

	assert_non_null(heap);
	return heap;
}

#endif
