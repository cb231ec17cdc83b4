/* SPDX-License-Identifier: MIT */
#include "abi/next.h"

#include <dlfcn.h>
#include <stddef.h>

#include "base/own.h"
#include "os/os.h"

/* By handle; not by dlopen, which is ours. Before glibc 2.34 libc was several. */
HAK_COLD static void *in_libc(const char *name) {
	static const char libraries[][16] = { "libc.so.6", "libpthread.so.0", "libdl.so.2" };
	void *fn = NULL, *(*open)(Lmid_t, const char *, int);
	*(void **)&open = os_symbol("dlmopen"); /* by name: a static program must not be linked with it */
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries && fn == NULL && open != NULL; i++) {
		void *library = open(LM_ID_BASE, libraries[i], RTLD_LAZY | RTLD_NOLOAD);
		fn = library != NULL ? os_symbol_in(library, name) : NULL;
	}
	return fn;
}

/* Behind a library that stands before dlsym and asks for us it is we who come next; where a library needs us that
   the program does not, libc may come before us, and nothing next. */
HAK_EVERYDAY void *next_definition(const char *name) {
	void *fn = os_symbol_in(RTLD_NEXT, name);
	return HAK_LIKELY(fn != NULL && !is_in_own_code((uintptr_t)fn)) ? fn : in_libc(name);
}

HAK_EVERYDAY void *next_cached(_Atomic(void *) *cached, const char *name) {
	/* Relaxed: every thread finds the same. */
	void *fn = atomic_load_explicit(cached, memory_order_relaxed);
	if (fn == NULL) {
		fn = next_definition(name);
		atomic_store_explicit(cached, fn, memory_order_relaxed);
	}
	return fn;
}
