/* SPDX-License-Identifier: MIT */
/* libc's as the allocator finds it: behind this library. */
#include "atfork_lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

typedef int register_fn(void (*)(void), void (*)(void), void (*)(void), void *);
typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
register_fn __register_atfork;

static int registered, registered_before_thread;

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

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*routine)(void *), void *arg)
{
	create_fn *real = (create_fn *)dlsym(RTLD_NEXT, "pthread_create");

	registered_before_thread = registered;
	return real(thread, attr, routine, arg);
}

int atfork_lib_registered_before_thread(void)
{
	return registered_before_thread;
}
