/* SPDX-License-Identifier: MIT */
/*
 * dlopen without RTLD_DEEPBIND. A library loaded with that flag binds malloc to libc's and free, in
 * the objects it passes blocks to, to ours: programs that use it (php, sssd) abort under any preloaded
 * allocator. Without the flag everybody has one allocator again.
 *
 * The call of the real dlopen must be a jump: libc looks at its return address to find whose RUNPATH
 * and $ORIGIN apply. Hence the assembly; a compiler makes a call of it at -O0.
 */
#include <dlfcn.h>

#include "abi/next.h"
#include "observe/profile.h"

typedef void *dlopen_fn(const char *, int);

static_assert(RTLD_DEEPBIND == 8, "the constant in the assembly below");

dlopen_fn *hak_find_dlopen(void);
__attribute__((used, visibility("hidden"))) dlopen_fn *hak_find_dlopen(void) {
	/* Loads a library, which it may not amid loading another. */
	if (profile_is_due())
		profile_begin(NULL);
	static _Atomic(void *) cached;
	return (dlopen_fn *)next_cached(&cached, "dlopen");
}

#if defined(__x86_64__)
__asm__(".pushsection .text\n"
        ".globl dlopen\n"
        ".type dlopen, @function\n"
        "dlopen:\n"
        ".cfi_startproc\n"
#if defined(__CET__) && (__CET__ & 1)
        "endbr64\n"
#endif
        "push %rdi\n"
        ".cfi_adjust_cfa_offset 8\n"
        "push %rsi\n"
        ".cfi_adjust_cfa_offset 8\n"
        "sub $8, %rsp\n" /* the stack is 16-aligned at the call */
        ".cfi_adjust_cfa_offset 8\n"
        "call hak_find_dlopen\n"
        "add $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "pop %rsi\n"
        ".cfi_adjust_cfa_offset -8\n"
        "pop %rdi\n"
        ".cfi_adjust_cfa_offset -8\n"
        "and $~8, %esi\n"
        "jmp *%rax\n"
        ".cfi_endproc\n"
        ".size dlopen, .-dlopen\n"
        ".popsection\n");
#elif defined(__aarch64__)
__asm__(".pushsection .text\n"
        ".globl dlopen\n"
        ".type dlopen, %function\n"
        "dlopen:\n"
        ".cfi_startproc\n"
        "hint #34\n" /* bti c */
        "stp x0, x1, [sp, #-32]!\n"
        ".cfi_adjust_cfa_offset 32\n"
        "str x30, [sp, #16]\n"
        ".cfi_offset 30, -16\n"
        "bl hak_find_dlopen\n"
        "mov x16, x0\n"
        "ldr x30, [sp, #16]\n"
        ".cfi_restore 30\n"
        "ldp x0, x1, [sp], #32\n"
        ".cfi_adjust_cfa_offset -32\n"
        "and w1, w1, #0xfffffff7\n"
        "br x16\n"
        ".cfi_endproc\n"
        ".size dlopen, .-dlopen\n"
        ".popsection\n");
#else
HAK_EXPORT void *dlopen(const char *file, int mode) {
	return hak_find_dlopen()(file, mode & ~RTLD_DEEPBIND);
}
#endif
