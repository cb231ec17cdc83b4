/* SPDX-License-Identifier: MIT */
#include "os/trace.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"

/* The top of the first thread's stack, by the loader. */
extern void *__libc_stack_end __attribute__((weak));

enum {
	FRAME_BYTES_MOST = 256 * 1024, /* a longer frame is taken for a wrong turn */
	STACK_BYTES_MOST = 64 * 1024 * 1024,
	OWN_FRAMES_MOST = 32,          /* between the walk and the program */
	CODE_LEAST = 4096,             /* no code lies below */
};

/* What a frame pointer points to. */
struct frame {
	uintptr_t up;   /* the caller's frame */
	uintptr_t back; /* the return address */
};

/* Memory that can be read, by pages. */
struct extent {
	uintptr_t begin, end;
};

static HAK_TLS char above_threads_stack; /* libc puts a thread's TLS on top of its stack */

/* What a frame keeps is signed where the code is built so (-mbranch-protection of 64-bit Arm); what a caller is known by
   is not. An instruction that older processors pass over. */
static uintptr_t unsigned_address(uintptr_t back) {
#if defined(__aarch64__)
	register uintptr_t link __asm__("x30") = back;
	__asm__("hint #7" : "+r"(link)); /* xpaclri */
	return link;
#else
	return back;
#endif
}

/* No frame of the stack that `sp` is in lies beyond, as far as known. */
static uintptr_t stack_bound(uintptr_t sp) {
	uintptr_t tls = (uintptr_t)&above_threads_stack;
	if (tls > sp && tls - sp < STACK_BYTES_MOST)
		return tls;
	uintptr_t first = &__libc_stack_end != NULL ? (uintptr_t)__libc_stack_end : 0;
	return first > sp && first - sp < STACK_BYTES_MOST ? first : UINTPTR_MAX;
}

static bool is_readable(struct extent *known, uintptr_t word) {
	uintptr_t page = align_down(word, os_facts.page_size);
	if (page >= known->begin && page < known->end)
		return true;
	if (!os_is_readable((const void *)word))
		return false;
	if (page != known->end)
		known->begin = page;
	known->end = page + os_facts.page_size;
	return true;
}

static bool leads_up(uintptr_t from, uintptr_t to, struct extent *known, uintptr_t bound) {
	return to > from && to - from < FRAME_BYTES_MOST && to % sizeof(uintptr_t) == 0 &&
		to < bound && bound - to >= sizeof(struct frame) &&
		is_readable(known, to) && is_readable(known, to + offsetof(struct frame, back));
}

/* Our own code need not keep frame pointers: then the first frame found is the one that `caller` is in. Else
   those before it are our own. */
HAK_NOINLINE unsigned trace_walk(uintptr_t *pc, unsigned most, const void *caller) {
	const struct frame *f = __builtin_frame_address(0);
	uintptr_t bound = stack_bound((uintptr_t)f), page = align_down((uintptr_t)f, os_facts.page_size);
	struct extent known = { page, page + os_facts.page_size };
	bool met = caller == NULL;
	unsigned n = 0;
	if (!met && most != 0)
		pc[n++] = (uintptr_t)caller;
	for (unsigned steps = 0; steps < most + OWN_FRAMES_MOST; steps++) {
		if (!leads_up((uintptr_t)f, f->up, &known, bound))
			break;
		f = (const struct frame *)f->up;
		uintptr_t back = unsigned_address(f->back);
		if (back < CODE_LEAST)
			break;
		if (!met && back == (uintptr_t)caller) {
			met = true;
			n = 0;
		}
		if (n < most)
			pc[n++] = back;
	}
	return n;
}

void trace_capture(struct trace *s, const void *caller) {
	s->count = trace_walk(s->pc, TRACE_FRAMES, caller);
}

/* ---- objects ---- */

#ifdef DLFO_STRUCT_HAS_EH_DBASE
static __typeof__(_dl_find_object) *find_unlocked;

void trace_prepare(void) {
	*(void **)&find_unlocked = os_symbol("_dl_find_object");
}

static bool object_of(const void *pc, Dl_info *info) {
	struct dl_find_object o;
	if (find_unlocked == NULL)
		return trace_object(pc, info);
	if (find_unlocked((void *)(uintptr_t)pc, &o) != 0)
		return false;
	info->dli_fbase = o.dlfo_map_start;
	info->dli_fname = o.dlfo_link_map->l_name;
	return true;
}
#else
void trace_prepare(void) {
}

static bool object_of(const void *pc, Dl_info *info) {
	return trace_object(pc, info);
}
#endif

HAK_COLD void trace_write(const struct trace *s) {
	for (uint32_t i = 0; i < s->count; i++) {
		const void *pc = (const void *)s->pc[i];
		struct line l;
		Dl_info info;
		line_begin(&l);
		line_str(&l, "  #");
		line_dec(&l, i);
		line_str(&l, " ");
		line_ptr(&l, pc);
		if (object_of(pc, &info) && info.dli_fname != NULL) {
			/* The program itself has no name among objects. */
			bool is_program = info.dli_fname[0] == '\0' && os_facts.started_as != NULL;
			const char *name = is_program ? os_facts.started_as : info.dli_fname;
			line_str(&l, " ");
			line_text(&l, name, text_length(name));
			line_str(&l, "+");
			line_ptr(&l, (const void *)trace_in_file(s->pc[i], &info));
		}
		line_write_plain(&l);
	}
}

bool trace_object(const void *address, Dl_info *info) {
	__typeof__(dladdr) *find;
	*(void **)&find = os_symbol("dladdr");
	return find != NULL && find(address, info) != 0;
}

uintptr_t trace_in_file(uintptr_t address, const Dl_info *info) {
	const ElfW(Ehdr) *header = info->dli_fbase;
	/* A program that is not position-independent lies where its file says. */
	return header->e_type == ET_EXEC ? address : address - (uintptr_t)header;
}
