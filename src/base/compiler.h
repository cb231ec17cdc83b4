/* SPDX-License-Identifier: MIT */
/* What the code asks of the compiler. */
#ifndef HAK_BASE_COMPILER_H
#define HAK_BASE_COMPILER_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of the two the loader need look up but one. */
void *memcpy(void *, const void *, size_t) __asm__("memmove");

#define HAK_LIKELY(x) __builtin_expect(!!(x), 1)
#define HAK_UNLIKELY(x) __builtin_expect(!!(x), 0)
/* Stays with its file: the linker puts what is called unlikely before everything else, where the everyday lies. */
#define HAK_COLD __attribute__((cold, noinline, section(".text.cold")))
/* What hardly any process runs, in a file of what most do: linkers put sections they know nothing of behind the code
   they know. (valgrind has no names for it.) */
#define HAK_FAR __attribute__((cold, noinline, section(".far_text")))
/* A copy for constant arguments would be as long again. */
#if __has_attribute(noclone)
#define HAK_NOINLINE __attribute__((noinline, noclone))
#else
#define HAK_NOINLINE __attribute__((noinline))
#endif
#define HAK_INLINE static inline __attribute__((always_inline))
/* Ours alone, and the compiler may know: -fvisibility=hidden says so of definitions only. */
#define HAK_HIDDEN __attribute__((visibility("hidden")))
/* For large arrays and what small processes do not write to: the linker puts common symbols behind all other data,
   so that the small variables share a page or two. */
#define HAK_LAST_IN_BSS __attribute__((common))
/* The same in files that are compiled as one (src/meson.build), where no symbol is common: a section behind their other
   zeros. */
#define HAK_LATE_IN_BSS __attribute__((section(".bss.late")))
/* For small variables of those files that every process writes, or looks at, as it starts and ends: before their other
   zeros, in the order of the files, so that all of this lies on the first page. */
#if __has_attribute(no_reorder)
#define HAK_AT_START __attribute__((no_reorder))
#else
#define HAK_AT_START
#endif
/* For a table whose last words alone hold an address. GNU ld puts this section before all that the loader writes to:
   a page of the table remains the file's. Other linkers may not know it as one to be read-only in the end. */
#define HAK_FIRST_IN_RELRO __attribute__((section(".exception_ranges")))
/* For what malloc and free load each time: its second word lies, within a page, where no block begins. Processors hold
   a load back behind a store whose address has the same last 12 bits, and programs write to the beginnings of blocks;
   where both were at a page's, those of 8 to 32 KiB took a third more time. */
#define HAK_BETWEEN_BLOCKS __attribute__((aligned(16)))
#define HAK_EXPORT __attribute__((visibility("default")))
/* Reads what others write without order, for a guess: race detectors are not to mind. */
#define HAK_GUESS __attribute__((no_sanitize("thread")))
/* Begins on a cache line: half a nanosecond of seven for malloc and free. */
#define HAK_HOT __attribute__((hot, aligned(64), section(".text.hot")))
/* What most processes run, in a file of what few run: it comes to lie beside the everyday files
   (src/meson.build). */
#define HAK_EVERYDAY __attribute__((section(".text.startup")))
/* Likewise, but in a file that is fast rather than small, for what need not be. */
#define HAK_EVERYDAY_SMALL __attribute__((cold, section(".text.startup")))
/* Constants that every process reads: beside that code, not amid the messages. */
#define HAK_EVERYDAY_CONST __attribute__((section(".text.hot.const")))
#define HAK_CACHE_LINE 64
#define HAK_CACHE_ALIGNED __attribute__((aligned(HAK_CACHE_LINE)))

/* Initial-exec: one load instead of a call, and the library still fits the static TLS surplus when
   it is dlopened. */
#define HAK_TLS __thread __attribute__((tls_model("initial-exec")))
/* A space of pointers: they hold the distance from the thread pointer, which instructions of x86-64 add by themselves.
   HAK_IN_THREAD makes one of an offset in a variable that is HAK_TLS, which compilers do only by way of its address;
   HAK_FROM_THREAD of an address. Sanitizers do not see such accesses. */
#if defined(__x86_64__) && defined(__SEG_FS) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HAK_BY_THREAD __seg_fs
#define HAK_IN_THREAD(variable, offset) __asm__("addq " #variable "@gottpoff(%%rip), %0" : "+r"(offset) : : "cc")
#define HAK_FROM_THREAD(address) __asm__("subq %%fs:0, %0" : "+r"(address) : : "cc")
#else
#define HAK_BY_THREAD
#define HAK_IN_THREAD(variable, offset) ((offset) += (uintptr_t)&(variable))
#define HAK_FROM_THREAD(address) ((void)(address))
#endif

#define HAK_KIB ((size_t)1 << 10)
#define HAK_MIB ((size_t)1 << 20)
#define HAK_GIB ((size_t)1 << 30)

/* std::size_t in a mangled C++ name: unsigned long, or unsigned int. */
#if SIZE_MAX == UINT64_MAX
#define CXX_SIZE_T "m"
#else
#define CXX_SIZE_T "j"
#endif

#endif
