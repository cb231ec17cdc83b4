/* SPDX-License-Identifier: MIT */
/*
 * The C++ run time, used from C and only when it is there: looked up when memory has run out.
 */
#ifndef HAK_ABI_CATCH_H
#define HAK_ABI_CATCH_H

#include "base/compiler.h"

/* A function of the C++ library, also of one that was loaded later, out of sight of the symbol
   look-up; NULL: there is none. */
void *cxx_find(const char *mangled);

/* Calls `fn` with `arg`. False: it threw, and the exception is over. */
bool call_catching(void (*fn)(void *arg), void *arg);

#endif
