/* SPDX-License-Identifier: MIT */
#include "atfork_lib.h"

#include <dlfcn.h>
#include <stddef.h>

typedef int register_fn(void (*)(void), void (*)(void), void (*)(void), void *);
register_fn __register_atfork;

static int registered;

/* libc's as the allocator finds it: behind this library. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso)
{
	register_fn *real = (register_fn *)dlsym(RTLD_NEXT, "__register_atfork");

	registered++;
	return real(prepare, parent, child, dso);
}

int atfork_lib_registered(void)
{
	return registered;
}
