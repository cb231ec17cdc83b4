/* SPDX-License-Identifier: MIT */
/*
 * The C++ run time as the loader knows it, asked when it is needed.
 */
#include "abi/catch.h"
#include "os/os.h"

/* Every C++ run time has it. The loader looks for this one name at each program's start. */
extern void begin_catch(void) __asm__("__cxa_begin_catch") __attribute__((weak));

HAK_EVERYDAY_SMALL bool cxx_is_there(void) {
	return begin_catch != NULL;
}

void *cxx_seen(const char *mangled) {
	return os_symbol(mangled);
}
