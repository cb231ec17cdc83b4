/* SPDX-License-Identifier: MIT */
/*
 * What libc may not have, by name. A library that refers to it would not be loaded where it is missing.
 *
 * dlsym by the oldest name that a loader may know it by: a program that brings a C library of its own has the
 * machine's preloaded libraries, too, and does not start if one of them needs what its C library has not. Before glibc
 * 2.34 dlsym was in libdl, which need not be loaded: then the name is sought object by object. An archive goes into
 * programs that have the C library they were made with, and may have no dlsym.
 */
#include <dlfcn.h>

#include "os/elf.h"
#include "os/os.h"

#if defined(HAK_PRELOADED) && defined(__GLIBC__) && defined(__x86_64__) && defined(__LP64__)
#define DLSYM "hak_dlsym"
__asm__(".symver " DLSYM ", dlsym@GLIBC_2.2.5");
#elif defined(HAK_PRELOADED) && defined(__GLIBC__) && defined(__aarch64__)
#define DLSYM "hak_dlsym"
__asm__(".symver " DLSYM ", dlsym@GLIBC_2.17");
#else
#define DLSYM "dlsym"
#endif

extern __typeof__(dlsym) find __asm__(DLSYM) __attribute__((weak));

HAK_EVERYDAY void *os_symbol_in(void *library, const char *name) {
	if (find != NULL)
		return find(library, name);
	/* No dlopen without libdl, so no handle. */
	return (void *)(uintptr_t)elf_find_elsewhere(name, "");
}

#ifdef HAK_PRELOADED
HAK_EVERYDAY const char *os_libc_alone(void) {
	HAK_EVERYDAY_CONST static const char name[] = "__libc_single_threaded";
	return elf_find_elsewhere(name, name + sizeof name - 1);
}
#else
extern char __libc_single_threaded __attribute__((weak));

const char *os_libc_alone(void) {
	return &__libc_single_threaded;
}
#endif
