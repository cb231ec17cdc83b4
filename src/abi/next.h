/* SPDX-License-Identifier: MIT */
/* What we stand before: the definition that the process would use without us, libc's as a rule. */
#ifndef HAK_ABI_NEXT_H
#define HAK_ABI_NEXT_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

/* Looked up once; NULL: there is none. Relaxed: every thread finds the same. */
static inline void *next_definition(_Atomic(void *) *cached, const char *name) {
	void *fn = atomic_load_explicit(cached, memory_order_relaxed);
	if (fn == NULL) {
		fn = dlsym(RTLD_NEXT, name);
		atomic_store_explicit(cached, fn, memory_order_relaxed);
	}
	return fn;
}

#endif
