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
	_(set_ip, "_Unwind_SetIP") \
	_(op_new, "_Znw" CXX_SIZE_T) \
	_(op_new_array, "_Zna" CXX_SIZE_T) \
	_(op_delete, "_ZdlPv") \
	_(op_delete_array, "_ZdaPv") \
	_(op_new_aligned, "_Znw" CXX_SIZE_T "St11align_val_t") \
	_(op_new_array_aligned, "_Zna" CXX_SIZE_T "St11align_val_t") \
	_(op_delete_aligned, "_ZdlPvSt11align_val_t") \
	_(op_delete_array_aligned, "_ZdaPvSt11align_val_t")

/* Weak: a program in C has none of them. */
#define DECLARE(name, mangled) extern void name(void) __asm__(mangled) __attribute__((weak));
CXX_FUNCTIONS(DECLARE)

bool cxx_is_there(void) {
	return true; /* the program's operators, if it has any, are as near as ours */
}

void *cxx_seen(const char *sought) {
#define SEEN(name, mangled) \
	if (is_same_text(sought, mangled)) \
		return (void *)name;
	CXX_FUNCTIONS(SEEN)
	return NULL;
}
