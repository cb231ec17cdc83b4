/* SPDX-License-Identifier: MIT */
/*
 * The C++ run time as the loader knows it. Asked when it is needed: each name that a library refers to is looked up
 * at the start of every program, and few of them run out of memory, or are written in C++.
 */
#include <dlfcn.h>

#include "abi/catch.h"

void *cxx_seen(const char *mangled) {
	return dlsym(RTLD_DEFAULT, mangled);
}
