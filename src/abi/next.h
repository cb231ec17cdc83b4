/* SPDX-License-Identifier: MIT */
/* What the library stands before: the definitions that the process would use without it, libc's as a rule. */
#ifndef HAK_ABI_NEXT_H
#define HAK_ABI_NEXT_H

#include <stdatomic.h>

#include "base/compiler.h"

/* NULL: there is none. Not in a static program. */
void *next_definition(const char *name);

/* Looked up once. */
void *next_cached(_Atomic(void *) *cached, const char *name);

#endif
