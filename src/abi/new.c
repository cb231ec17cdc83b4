/* SPDX-License-Identifier: MIT */
/*
 * The C++ operators new and delete, by their mangled names, in C: a C program that preloads us must
 * not load libstdc++. What is needed of the C++ run time when memory runs out (the new-handler, and
 * a way to throw std::bad_alloc) is looked for then.
 *
 * Each operator is a function of its own: programs and tools compare the addresses of new and new[].
 *
 * A program may replace some of them; they are weak, so that one with libhakmem.a inside may, too. The standard then
 * has the others call its own, so ours do: new[], and new that does not throw, go by the plain new; delete[], and
 * delete with a size, by the plain delete; with an alignment likewise.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

#include "abi/catch.h"
#include "abi/entry.h"
#include "abi/lifecycle.h"
#include "base/report.h"
#include "os/os.h"

#define SZ CXX_SIZE_T

/* ---- out of memory ---- */

typedef void (*new_handler)(void);
typedef new_handler get_new_handler_fn(void);
typedef void throw_bad_alloc_fn(void);

static new_handler current_handler(const void *caller) {
	get_new_handler_fn *get = (get_new_handler_fn *)cxx_find("_ZSt15get_new_handlerv", caller, NULL);
	return get != NULL ? get() : NULL;
}

extern void *own_op_new(size_t size) HAK_HIDDEN;

static void throw_or_die(size_t size, const void *caller) {
	throw_bad_alloc_fn *thrower = (throw_bad_alloc_fn *)cxx_find("_ZSt17__throw_bad_allocv", caller, NULL);
	if (thrower != NULL)
		thrower();
	/* A run time inside a library has no more than that needs, but its new, which finds no such block either and throws. */
	__typeof__(own_op_new) *its_new = (__typeof__(own_op_new) *)cxx_find("_Znw" SZ, caller, (void *)own_op_new);
	if (its_new != NULL)
		its_new(SIZE_MAX);
	struct line l;
	line_begin(&l);
	line_str(&l, "out of memory in operator new of ");
	line_dec(&l, size);
	line_str(&l, " bytes, and no C++ run time to throw");
	line_die(&l);
}

/* Lets a handler's exception through. */
static bool call_throwing(new_handler handler) {
	handler();
	return true;
}

static void call_handler(void *arg) {
	(*(new_handler *)arg)();
}

static bool call_handler_catching(new_handler handler) {
	return call_catching(call_handler, &handler);
}

/* As the standard asks: the handler is called until it frees enough, throws, or is gone. With
   call_handler_catching, one that throws has given up. */
static void *new_failed(size_t size, size_t align, unsigned kind, const void *caller, bool (*call)(new_handler)) {
	new_handler handler;
	while ((handler = current_handler(caller)) != NULL && call(handler)) {
		void *p = entry_alloc_as(size, align, kind, caller);
		if (p != NULL)
			return p;
	}
	return NULL;
}

HAK_FAR static void *new_or_throw(size_t size, size_t align, unsigned kind, const void *caller) {
	void *p = new_failed(size, align, kind, caller, call_throwing);
	if (p == NULL)
		throw_or_die(size, caller);
	return p;
}

HAK_FAR static void *new_or_null(size_t size, size_t align, unsigned kind, const void *caller) {
	return new_failed(size, align, kind, caller, call_handler_catching);
}

/* What the short ways leave: called last, so that it is called by the program. */
HAK_NOINLINE static void *new_aligned(size_t size, size_t align, unsigned kind) {
	void *p = entry_alloc_as(size, align, kind, ENTRY_CALLER);
	return HAK_LIKELY(p != NULL) ? p : new_or_throw(size, align, kind, ENTRY_CALLER);
}

HAK_NOINLINE static void *new_aligned_nothrow(size_t size, size_t align, unsigned kind) {
	void *p = entry_alloc_as(size, align, kind, ENTRY_CALLER);
	return HAK_LIKELY(p != NULL) ? p : new_or_null(size, align, kind, ENTRY_CALLER);
}

HAK_INLINE void *new_plain(size_t size, unsigned kind) {
	void *p = tcache_alloc(size);
	return HAK_LIKELY(p != NULL) ? p : new_aligned(size, ALLOC_ALIGN, kind);
}

HAK_INLINE void *new_nothrow(size_t size, unsigned kind) {
	void *p = tcache_alloc(size);
	return HAK_LIKELY(p != NULL) ? p : new_aligned_nothrow(size, ALLOC_ALIGN, kind);
}

/* ---- the operators ---- */

#define OPERATOR(ret, name, mangled, params, body) \
	ret name params __asm__(mangled); \
	HAK_EXPORT __attribute__((weak)) ret name params body

/* One that others go by: `own_##name` is ours whatever happens, `seen_##name` what the process takes for it. */
#define BASE_OPERATOR(ret, name, mangled, params, body) \
	OPERATOR(ret, name, mangled, params, body) \
	extern __typeof__(name) own_##name __attribute__((alias(mangled))) HAK_HIDDEN; \
	static const char name##_mangled[] = mangled; \
	static __typeof__(name) *seen_##name;

/* Which of them the program has of its own, as bits. Constant from our constructor on, before which no C++ runs, unless
   in .preinit_array. */
enum { NEW = 1, NEW_ARRAY = 2, DELETE = 4, DELETE_ARRAY = 8, ALIGNED = 4 /* bits further */ };
static unsigned replaced;
#define IS_REPLACED(bits) HAK_UNLIKELY((replaced & (bits)) != 0)

BASE_OPERATOR(void *, op_new, "_Znw" SZ, (size_t size), { return new_plain(size, KIND_NEW); })
BASE_OPERATOR(void *, op_new_aligned, "_Znw" SZ "St11align_val_t", (size_t size, size_t align),
              { return new_aligned(size, align, KIND_NEW); })
BASE_OPERATOR(void *, op_new_array, "_Zna" SZ, (size_t size), {
	if (IS_REPLACED(NEW))
		return seen_op_new(size);
	return new_plain(size, KIND_NEW_ARRAY);
})
BASE_OPERATOR(void *, op_new_array_aligned, "_Zna" SZ "St11align_val_t", (size_t size, size_t align), {
	if (IS_REPLACED(NEW << ALIGNED))
		return seen_op_new_aligned(size, align);
	return new_aligned(size, align, KIND_NEW_ARRAY);
})

/* A program's own operator, which may throw where NULL is wanted. */
struct attempt {
	void *(*plain)(size_t size);
	void *(*aligned)(size_t size, size_t align);
	size_t size, align;
	void *result;
};

static void attempt(void *arg) {
	struct attempt *a = arg;
	a->result = a->plain != NULL ? a->plain(a->size) : a->aligned(a->size, a->align);
}

/* One of the two is NULL. */
HAK_FAR static void *attempt_new(void *(*plain)(size_t size), void *(*aligned)(size_t size, size_t align), size_t size,
                                 size_t align) {
	struct attempt a = { .plain = plain, .aligned = aligned, .size = size, .align = align };
	return call_catching(attempt, &a) ? a.result : NULL;
}

OPERATOR(void *, op_new_nothrow, "_Znw" SZ "RKSt9nothrow_t", (size_t size, const void *tag), {
	if (IS_REPLACED(NEW))
		return attempt_new(seen_op_new, NULL, size, 0);
	return new_nothrow(size, KIND_NEW);
})
OPERATOR(void *, op_new_array_nothrow, "_Zna" SZ "RKSt9nothrow_t", (size_t size, const void *tag), {
	if (IS_REPLACED(NEW | NEW_ARRAY))
		return attempt_new(seen_op_new_array, NULL, size, 0);
	return new_nothrow(size, KIND_NEW_ARRAY);
})
OPERATOR(void *, op_new_aligned_nothrow, "_Znw" SZ "St11align_val_tRKSt9nothrow_t",
         (size_t size, size_t align, const void *tag), {
	if (IS_REPLACED(NEW << ALIGNED))
		return attempt_new(NULL, seen_op_new_aligned, size, align);
	return new_aligned_nothrow(size, align, KIND_NEW);
})
OPERATOR(void *, op_new_array_aligned_nothrow, "_Zna" SZ "St11align_val_tRKSt9nothrow_t",
         (size_t size, size_t align, const void *tag), {
	if (IS_REPLACED((NEW | NEW_ARRAY) << ALIGNED))
		return attempt_new(NULL, seen_op_new_array_aligned, size, align);
	return new_aligned_nothrow(size, align, KIND_NEW_ARRAY);
})

BASE_OPERATOR(void, op_delete, "_ZdlPv", (void *p), { entry_release_as(p, KIND_NEW); })
BASE_OPERATOR(void, op_delete_aligned, "_ZdlPvSt11align_val_t", (void *p, size_t align),
              { entry_free_as(p, KIND_NEW); })
BASE_OPERATOR(void, op_delete_array, "_ZdaPv", (void *p), {
	if (IS_REPLACED(DELETE))
		seen_op_delete(p);
	else
		entry_release_as(p, KIND_NEW_ARRAY);
})
BASE_OPERATOR(void, op_delete_array_aligned, "_ZdaPvSt11align_val_t", (void *p, size_t align), {
	if (IS_REPLACED(DELETE << ALIGNED))
		seen_op_delete_aligned(p, align);
	else
		entry_free_as(p, KIND_NEW_ARRAY);
})

OPERATOR(void, op_delete_sized, "_ZdlPv" SZ, (void *p, size_t size), {
	if (IS_REPLACED(DELETE))
		seen_op_delete(p);
	else
		entry_release_sized(p, size, 0, KIND_NEW);
})
OPERATOR(void, op_delete_array_sized, "_ZdaPv" SZ, (void *p, size_t size), {
	if (IS_REPLACED(DELETE | DELETE_ARRAY))
		seen_op_delete_array(p);
	else
		entry_release_sized(p, size, 0, KIND_NEW_ARRAY);
})
/* The next two are called if a constructor throws: out of line, as those of aligned blocks, which are few. */
OPERATOR(void, op_delete_nothrow, "_ZdlPvRKSt9nothrow_t", (void *p, const void *tag), {
	if (IS_REPLACED(DELETE))
		seen_op_delete(p);
	else
		entry_free_as(p, KIND_NEW);
})
OPERATOR(void, op_delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", (void *p, const void *tag), {
	if (IS_REPLACED(DELETE | DELETE_ARRAY))
		seen_op_delete_array(p);
	else
		entry_free_as(p, KIND_NEW_ARRAY);
})
OPERATOR(void, op_delete_sized_aligned, "_ZdlPv" SZ "St11align_val_t", (void *p, size_t size, size_t align), {
	if (IS_REPLACED(DELETE << ALIGNED))
		seen_op_delete_aligned(p, align);
	else
		entry_free_sized(p, size, align, KIND_NEW);
})
OPERATOR(void, op_delete_array_sized_aligned, "_ZdaPv" SZ "St11align_val_t", (void *p, size_t size, size_t align), {
	if (IS_REPLACED((DELETE | DELETE_ARRAY) << ALIGNED))
		seen_op_delete_array_aligned(p, align);
	else
		entry_free_sized(p, size, align, KIND_NEW_ARRAY);
})
OPERATOR(void, op_delete_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t",
         (void *p, size_t align, const void *tag), {
	if (IS_REPLACED(DELETE << ALIGNED))
		seen_op_delete_aligned(p, align);
	else
		entry_free_as(p, KIND_NEW);
})
OPERATOR(void, op_delete_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t",
         (void *p, size_t align, const void *tag), {
	if (IS_REPLACED((DELETE | DELETE_ARRAY) << ALIGNED))
		seen_op_delete_array_aligned(p, align);
	else
		entry_free_as(p, KIND_NEW_ARRAY);
})

/* ---- what the program replaced ---- */

#ifdef __GLIBC__
/* A program that is not position-independent has its own address for an operator whose address it takes: of
   a jump to ours. */
static bool is_jump(void *seen) {
	Dl_info info;
	void *symbol = NULL;
	__typeof__(dladdr1) *find;
	*(void **)&find = os_symbol("dladdr1");
	return find != NULL && find(seen, &info, &symbol, RTLD_DL_SYMENT) != 0 && symbol != NULL &&
		((const ElfW(Sym) *)symbol)->st_shndx == SHN_UNDEF;
}
#else
static bool is_jump(void *seen) {
	return false;
}
#endif

HAK_COLD HAK_NOINLINE static void *note_seen(unsigned bit, const char *mangled, void *own) {
	void *seen = cxx_seen(mangled);
	if (seen != NULL && seen != own && !is_jump(seen))
		replaced |= bit;
	return seen;
}

#define NOTE(bit, name) seen_##name = (__typeof__(name) *)note_seen(bit, name##_mangled, (void *)own_##name)

HAK_FAR static void note_replaced(void) {
	NOTE(NEW, op_new);
	NOTE(NEW_ARRAY, op_new_array);
	NOTE(DELETE, op_delete);
	NOTE(DELETE_ARRAY, op_delete_array);
	NOTE(NEW << ALIGNED, op_new_aligned);
	NOTE(NEW_ARRAY << ALIGNED, op_new_array_aligned);
	NOTE(DELETE << ALIGNED, op_delete_aligned);
	NOTE(DELETE_ARRAY << ALIGNED, op_delete_array_aligned);
}

/* Here, since later the loader's lock may be held by a thread that waits for the one that asks. Where there is no C++ run
   time, each form serves itself, and most programs are spared eight names to look up. */
HAK_EVERYDAY_SMALL __attribute__((constructor(INIT_FIRST))) static void note_if_cxx(void) {
	if (cxx_is_there())
		note_replaced();
}
