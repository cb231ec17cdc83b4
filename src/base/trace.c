/* SPDX-License-Identifier: MIT */
#include "base/trace.h"

#include <dlfcn.h>
#include <string.h>

/* A static program need not have it. */
#pragma weak dladdr

/* The top of the first thread's stack, by the loader. */
extern void *__libc_stack_end __attribute__((weak));

enum {
	FRAME_MOST = 256 * 1024,     /* bytes; a longer frame is taken for a wrong turn */
	STACK_MOST = 64 * 1024 * 1024,
};

static HAK_TLS char above_threads_stack; /* libc puts a thread's TLS on top of its stack */

/* Where the stack that `sp` is in ends; 0: not known. */
static uintptr_t stack_end(uintptr_t sp) {
	uintptr_t tls = (uintptr_t)&above_threads_stack;
	if (tls > sp && tls - sp < STACK_MOST)
		return tls;
	uintptr_t first = &__libc_stack_end != NULL ? (uintptr_t)__libc_stack_end : 0;
	return first > sp && first - sp < STACK_MOST ? first : 0;
}

static void add(struct trace *s, const void *pc) {
	if (s->count < TRACE_FRAMES && pc != NULL && (s->count == 0 || s->pc[s->count - 1] != pc))
		s->pc[s->count++] = pc;
}

/* A frame record: the caller's frame pointer, then the return address. Those between this function and the
   program may be missing, since our own code keeps no frame pointers. */
__attribute__((noinline)) void trace_capture(struct trace *s, const void *caller) {
	uintptr_t at = (uintptr_t)__builtin_frame_address(0), end = stack_end(at);
	s->count = 0;
	add(s, caller);
	uintptr_t frame = *(uintptr_t *)at;
	while (s->count < TRACE_FRAMES && frame > at && frame - at < FRAME_MOST && frame % sizeof(void *) == 0 &&
	       frame + 2 * sizeof(void *) <= end) {
		const uintptr_t *record = (const uintptr_t *)frame;
		if (record[1] < 4096)
			break;
		add(s, (const void *)record[1]);
		at = frame;
		frame = record[0];
	}
}

void trace_write(const struct trace *s) {
	for (uint32_t i = 0; i < s->count; i++) {
		struct line l;
		Dl_info info;
		line_begin(&l);
		line_str(&l, "  #");
		line_dec(&l, i);
		line_str(&l, " ");
		line_ptr(&l, s->pc[i]);
		if (dladdr != NULL && dladdr(s->pc[i], &info) != 0 && info.dli_fname != NULL) {
			line_str(&l, " ");
			line_text(&l, info.dli_fname, strlen(info.dli_fname));
			line_str(&l, "+");
			line_ptr(&l, (const void *)((uintptr_t)s->pc[i] - (uintptr_t)info.dli_fbase));
		}
		line_write_plain(&l);
	}
}
