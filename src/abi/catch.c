/* SPDX-License-Identifier: MIT */
/*
 * A catch (...) in C: a frame with a personality routine of its own, which claims every exception and
 * resumes at a landing pad. (Itanium C++ ABI, exception handling, level I.)
 */
#include "abi/catch.h"

#include <dlfcn.h>
#include <unwind.h>

#include "os/os.h"
#include "os/trace.h"

void *cxx_find(const char *mangled, const void *caller, const void *ours) {
	static const char libraries[][16] = { "libstdc++.so.6", "libc++abi.so.1", "libc++.so.1", "libgcc_s.so.1" };
	void *found = cxx_seen(mangled), *(*open)(const char *, int);
	if (found != NULL && found != ours)
		return found;
	/* By name: a static program that had it would be warned at link time. */
	*(void **)&open = os_symbol("dlopen");
	if (open == NULL)
		return NULL;
	Dl_info at = { .dli_fname = libraries[0] };
	trace_object(caller, &at); /* leaves it as it is where there is none */
	for (size_t i = 0; ; i++) {
		void *lib = open(at.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
		found = lib != NULL ? os_symbol_in(lib, mangled) : NULL;
		if (found != NULL && found != ours)
			return found; /* the handle stays open: the library must not go away now */
		if (i == sizeof libraries / sizeof *libraries)
			return NULL;
		at.dli_fname = libraries[i];
	}
}

#if defined(__x86_64__) || defined(__aarch64__)

typedef void set_gr_fn(struct _Unwind_Context *, int, _Unwind_Word);
typedef void set_ip_fn(struct _Unwind_Context *, _Unwind_Ptr);
typedef void *begin_catch_fn(void *);
typedef void end_catch_fn(void);

extern HAK_HIDDEN const char hak_landing_pad[];
extern HAK_HIDDEN int hak_call_guarded(void (*fn)(void *), void *arg);
HAK_HIDDEN _Unwind_Reason_Code hak_personality(int version, _Unwind_Action actions,
                                               _Unwind_Exception_Class class,
                                               struct _Unwind_Exception *exception,
                                               struct _Unwind_Context *context);
HAK_HIDDEN void hak_swallow(void *exception);

/* The register the run time passes the exception to a landing pad in: rax, or x0 on Arm. */
enum { EXCEPTION_REGISTER = 0 };

__attribute__((used)) _Unwind_Reason_Code
hak_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                struct _Unwind_Exception *exception, struct _Unwind_Context *context) {
	set_gr_fn *gr = (set_gr_fn *)cxx_find("_Unwind_SetGR", NULL, NULL);
	set_ip_fn *ip = (set_ip_fn *)cxx_find("_Unwind_SetIP", NULL, NULL);
	/* Forced unwinding (thread cancellation) is not ours to stop. */
	if (gr == NULL || ip == NULL || (actions & _UA_FORCE_UNWIND) != 0)
		return _URC_CONTINUE_UNWIND;
	if ((actions & _UA_SEARCH_PHASE) != 0)
		return _URC_HANDLER_FOUND;
	gr(context, EXCEPTION_REGISTER, (_Unwind_Word)(uintptr_t)exception);
	ip(context, (_Unwind_Ptr)hak_landing_pad);
	return _URC_INSTALL_CONTEXT;
}

__attribute__((used)) void hak_swallow(void *exception) {
	begin_catch_fn *begin = (begin_catch_fn *)cxx_find("__cxa_begin_catch", NULL, NULL);
	end_catch_fn *end = (end_catch_fn *)cxx_find("__cxa_end_catch", NULL, NULL);
	if (begin == NULL || end == NULL)
		return; /* the exception object is lost, nothing else */
	begin(exception);
	end();
}

#if defined(__x86_64__)
__asm__(".pushsection .text\n"
        ".hidden hak_personality\n"
        ".globl hak_call_guarded\n"
        ".hidden hak_call_guarded\n"
        ".type hak_call_guarded, @function\n"
        "hak_call_guarded:\n"
        ".cfi_startproc\n"
        ".cfi_personality 0x1b, hak_personality\n"
#if defined(__CET__) && (__CET__ & 1)
        "endbr64\n"
#endif
        "sub $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "mov %rdi, %rax\n"
        "mov %rsi, %rdi\n"
        "call *%rax\n"
        "mov $1, %eax\n"
        "jmp 1f\n"
        ".globl hak_landing_pad\n"
        ".hidden hak_landing_pad\n"
        "hak_landing_pad:\n"
#if defined(__CET__) && (__CET__ & 1)
        "endbr64\n"
#endif
        "mov %rax, %rdi\n"
        "call hak_swallow\n"
        "xor %eax, %eax\n"
        "1: add $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size hak_call_guarded, .-hak_call_guarded\n"
        ".popsection\n");
#else
__asm__(".pushsection .text\n"
        ".hidden hak_personality\n"
        ".globl hak_call_guarded\n"
        ".hidden hak_call_guarded\n"
        ".type hak_call_guarded, %function\n"
        "hak_call_guarded:\n"
        ".cfi_startproc\n"
        ".cfi_personality 0x1b, hak_personality\n"
        "stp x29, x30, [sp, #-16]!\n"
        ".cfi_adjust_cfa_offset 16\n"
        ".cfi_offset 29, -16\n"
        ".cfi_offset 30, -8\n"
        "mov x2, x0\n"
        "mov x0, x1\n"
        "blr x2\n"
        "mov w0, #1\n"
        "b 1f\n"
        ".globl hak_landing_pad\n"
        ".hidden hak_landing_pad\n"
        "hak_landing_pad:\n"
        "hint #36\n" /* bti j */
        "bl hak_swallow\n"
        "mov w0, #0\n"
        "1: ldp x29, x30, [sp], #16\n"
        ".cfi_adjust_cfa_offset -16\n"
        ".cfi_restore 29\n"
        ".cfi_restore 30\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size hak_call_guarded, .-hak_call_guarded\n"
        ".popsection\n");
#endif

bool call_catching(void (*fn)(void *), void *arg) {
	return hak_call_guarded(fn, arg) != 0;
}

#else

/* On other machines an exception passes through to the caller. */
bool call_catching(void (*fn)(void *), void *arg) {
	fn(arg);
	return true;
}

#endif
