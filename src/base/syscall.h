/* SPDX-License-Identifier: MIT */
/*
 * System calls that touch neither errno nor what is preloaded before libc's wrappers, and at which no thread is
 * cancelled.
 */
#ifndef HAK_BASE_SYSCALL_H
#define HAK_BASE_SYSCALL_H

#include <sys/syscall.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <errno.h>
#include <unistd.h>
#endif

/* By the number of arguments: what a call does not have need not be set. Result as the kernel gives it: -4095..-1 is an
   error number. */
#if defined(__x86_64__)
static inline long raw3(long nr, long a, long b, long c) {
	long ret;
	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return ret;
}

static inline long raw4(long nr, long a, long b, long c, long d) {
	long ret;
	register long r10 __asm__("r10") = d;
	__asm__ volatile("syscall"
	                 : "=a"(ret)
	                 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
	                 : "rcx", "r11", "memory");
	return ret;
}

static inline long raw6(long nr, long a, long b, long c, long d, long e, long f) {
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
	                 : "=a"(ret)
	                 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
	                 : "rcx", "r11", "memory");
	return ret;
}
#else
#if defined(__aarch64__)
static inline long raw6(long nr, long a, long b, long c, long d, long e, long f) {
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0"
	                 : "+r"(x0)
	                 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
	                 : "memory");
	return x0;
}
#else
static inline long raw6(long nr, long a, long b, long c, long d, long e, long f) {
	int saved = errno;
	long ret = syscall(nr, a, b, c, d, e, f);
	if (ret == -1)
		ret = -errno;
	errno = saved;
	return ret;
}
#endif

static inline long raw4(long nr, long a, long b, long c, long d) {
	return raw6(nr, a, b, c, d, 0, 0);
}

static inline long raw3(long nr, long a, long b, long c) {
	return raw6(nr, a, b, c, 0, 0, 0);
}
#endif

#endif
