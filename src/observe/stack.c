/* SPDX-License-Identifier: MIT */
#include "observe/stack.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <unwind.h>

#include "base/bits.h"
#include "base/own.h"
#include "os/alone.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/trace.h"

enum { CACHED = 256 };

typedef _Unwind_Reason_Code backtrace_fn(_Unwind_Trace_Fn, void *);
typedef _Unwind_Word get_fn(struct _Unwind_Context *);
typedef _Unwind_Word get_ip_fn(struct _Unwind_Context *, int *);

static struct {
	backtrace_fn *backtrace; /* NULL: go by frame pointers */
	get_ip_fn *get_ip;
	get_fn *get_cfa;
	uintptr_t begin, end;    /* its library */
} unwinder;

/* A stack and where on the thread's stack its addresses stood. */
struct remembered {
	uintptr_t thread, top;
	const void *caller;
	struct stack stack;
	uintptr_t place[STACK_MOST];
};

/* The entries are under the lock. */
static struct {
	struct lock lock;
	struct remembered *entry;
} cache;

/* ---- the unwinder ---- */

struct walk {
	struct stack *stack;
	uintptr_t *place;   /* of each frame; 0: not where it is expected */
	const void *caller; /* frames before it are our own */
	bool has_begun;
};

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *arg) {
	struct walk *w = arg;
	int is_interrupted = 0;
	uintptr_t ip = unwinder.get_ip(context, &is_interrupted);
	w->has_begun |= ip == (uintptr_t)w->caller;
	if (!w->has_begun)
		return _URC_NO_REASON;
	if (ip == 0 || w->stack->depth == STACK_MOST)
		return _URC_END_OF_STACK;
	/* The frame's CFA is the inner one's end, behind which x86 puts the return address; of one that a signal
	   interrupted, where its stack ends, and behind that there may be no memory. */
	uintptr_t place = unwinder.get_cfa(context) - sizeof(uintptr_t);
	w->place[w->stack->depth] = !is_interrupted && *(const uintptr_t *)place == ip ? place : 0;
	w->stack->frame[w->stack->depth++] = ip;
	return _URC_NO_REASON;
}

/* `begin`: of a library, whose header is there. */
static uintptr_t end_of(uintptr_t begin) {
	const ElfW(Ehdr) *header = (const void *)begin;
	const ElfW(Phdr) *part = (const void *)(begin + header->e_phoff);
	uintptr_t end = begin;
	for (unsigned i = 0; i < header->e_phnum; i++)
		if (part[i].p_type == PT_LOAD)
			end = max_size(end, begin + part[i].p_vaddr + part[i].p_memsz);
	return end;
}

static void find_its_library(void) {
	Dl_info info;
	if (!trace_object(*(void **)&unwinder.get_ip, &info))
		return;
	unwinder.begin = (uintptr_t)info.dli_fbase;
	unwinder.end = end_of(unwinder.begin);
}

/* The unwinder itself allocates, with its lock held, when it first meets code that was registered at run
   time (__register_frame). */
static bool is_in_unwinder(const void *caller) {
	return (uintptr_t)caller - unwinder.begin < unwinder.end - unwinder.begin;
}

static void find_unwinder(void) {
	void *(*open)(const char *, int);
	if (os_symbol("_dl_find_object") == NULL)
		return;
	*(void **)&open = os_symbol("dlopen");
	void *library = open != NULL ? open("libgcc_s.so.1", RTLD_LAZY) : NULL;
	if (library == NULL)
		return;
	*(void **)&unwinder.get_ip = os_symbol_in(library, "_Unwind_GetIPInfo");
	*(void **)&unwinder.get_cfa = os_symbol_in(library, "_Unwind_GetCFA");
	if (unwinder.get_ip == NULL || unwinder.get_cfa == NULL)
		return;
	find_its_library();
	if (unwinder.end != 0)
		*(void **)&unwinder.backtrace = os_symbol_in(library, "_Unwind_Backtrace");
}

/* ---- memory of stacks ---- */

static struct remembered *entry_for(uintptr_t thread, uintptr_t top, const void *caller) {
	uintptr_t h = (thread ^ top >> 4 ^ (uintptr_t)caller) * 0x9e3779b97f4a7c15;
	return &cache.entry[h >> 56 & (CACHED - 1)];
}

static bool still_holds(const struct remembered *r, uintptr_t thread, uintptr_t top, const void *caller) {
	if (r->thread != thread || r->top != top || r->caller != caller)
		return false;
	for (unsigned i = 0; i < r->stack.depth; i++)
		if (*(const volatile uintptr_t *)r->place[i] != r->stack.frame[i])
			return false;
	return true;
}

static bool recall(struct stack *s, uintptr_t thread, uintptr_t top, const void *caller) {
	const struct remembered *r = entry_for(thread, top, caller);
	lock_acquire(&cache.lock);
	bool known = still_holds(r, thread, top, caller);
	if (known) {
		s->depth = r->stack.depth;
		memcpy(s->frame, r->stack.frame, s->depth * sizeof *s->frame);
	}
	lock_release(&cache.lock);
	return known;
}

static void remember(const struct walk *w, uintptr_t thread, uintptr_t top) {
	for (unsigned i = 0; i < w->stack->depth; i++)
		if (w->place[i] == 0)
			return;
	struct remembered *r = entry_for(thread, top, w->caller);
	lock_acquire(&cache.lock);
	r->thread = thread;
	r->top = top;
	r->caller = w->caller;
	r->stack = *w->stack;
	memcpy(r->place, w->place, w->stack->depth * sizeof *r->place);
	lock_release(&cache.lock);
}

bool stack_may_prepare(const void *caller) {
	uintptr_t loader = getauxval(AT_BASE), at = (uintptr_t)caller;
	return libc_is_alone() && (loader == 0 || at < loader || at >= end_of(loader));
}

bool stack_prepare(const void *caller) {
	if (cache.entry != NULL)
		return true;
	size_t page = os_facts.page_size, size = CACHED * sizeof *cache.entry;
	struct remembered *entry = os_map(NULL, (size + page - 1) / page * page);
	if (entry == NULL)
		return false;
	find_unwinder();
	cache.entry = entry;
	/* The unwinder sets itself up when it is first used. */
	struct stack s;
	if (!is_in_unwinder(caller))
		stack_capture(&s, NULL);
	return true;
}

HAK_NOINLINE void stack_capture(struct stack *s, const void *caller) {
	uintptr_t thread = (uintptr_t)__builtin_thread_pointer(), place[STACK_MOST];
	uintptr_t top = (uintptr_t)place;
	s->depth = 0;
	if (unwinder.backtrace != NULL && !is_in_unwinder(caller)) {
		if (recall(s, thread, top, caller))
			return;
		struct walk w = { .stack = s, .place = place, .caller = caller };
		unwinder.backtrace(take_frame, &w);
		if (s->depth != 0) {
			remember(&w, thread, top);
			return;
		}
	}
	s->depth = trace_walk(s->frame, STACK_MOST, caller);
}

void stack_leave_out_own(struct stack *s) {
	if (is_in_own_code(getauxval(AT_PHDR))) /* all of a static program */
		return;
	unsigned own = 0;
	while (own < s->depth && is_in_own_code(s->frame[own]))
		own++;
	s->depth -= own;
	memmove(s->frame, s->frame + own, s->depth * sizeof *s->frame);
}

bool stack_holds_lock(void) {
	return lock_is_held(&cache.lock);
}

void stack_after_fork(void) {
	lock_reset(&cache.lock);
}
