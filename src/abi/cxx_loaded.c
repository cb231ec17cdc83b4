/* SPDX-License-Identifier: MIT */
/*
 * The C++ run time as the loader knows it, asked when it is needed.
 */
#include "abi/catch.h"
#include "os/os.h"

void *cxx_seen(const char *mangled) {
	return os_symbol(mangled);
}
