/* SPDX-License-Identifier: MIT */
/* The object that we are linked into: the library, or a static program. */
#ifndef HAK_BASE_OWN_H
#define HAK_BASE_OWN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* The linker's: where it begins, and its code ends. */
extern HAK_HIDDEN const char __ehdr_start[], etext[];

HAK_INLINE bool is_in_own_code(uintptr_t address) {
	uintptr_t begin = (uintptr_t)__ehdr_start;
	return address - begin < (uintptr_t)etext - begin;
}

#endif
