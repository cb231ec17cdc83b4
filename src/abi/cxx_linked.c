/* SPDX-License-Identifier: MIT */
/*
 * The C++ run time of a program that has the archive inside, which need not have a loader.
 */
#include "abi/catch.h"
#include "base/text.h"

#define CXX_FUNCTIONS(_) \
	_(get_new_handler, "_ZSt15get_new_handlerv") \
	_(throw_bad_alloc, "_ZSt17__throw_bad_allocv") \
	_(begin_catch, "__cxa_begin_catch") \
	_(end_catch, "__cxa_end_catch") \
	_(set_gr, "_Unwind_SetGR") \
	_(set_ip, "_Unwind_SetIP")

/* Weak: a program in C has none of them. */
#define DECLARE(name, mangled) extern void name(void) __asm__(mangled) __attribute__((weak));
CXX_FUNCTIONS(DECLARE)

void *cxx_seen(const char *sought) {
#define SEEN(name, mangled) \
	if (is_same_text(sought, mangled)) \
		return (void *)name;
	CXX_FUNCTIONS(SEEN)
	return NULL;
}
