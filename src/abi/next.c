/* SPDX-License-Identifier: MIT */
#include "abi/next.h"

#include <dlfcn.h>
#include <stddef.h>

HAK_EVERYDAY void *next_definition(_Atomic(void *) *cached, const char *name) {
	/* Relaxed: every thread finds the same. */
	void *fn = atomic_load_explicit(cached, memory_order_relaxed);
	if (fn == NULL) {
		fn = dlsym(RTLD_NEXT, name);
		atomic_store_explicit(cached, fn, memory_order_relaxed);
	}
	return fn;
}
