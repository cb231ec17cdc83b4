/* SPDX-License-Identifier: MIT */
#include "abi/libc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

#include "abi/lifecycle.h"
#include "abi/next.h"
#include "base/settings.h"
#include "os/os.h"
#include "os/trace.h"

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	size_t (*usable_size)(void *);
	void *other[LIBC_NAMES]; /* if all calls are to go there */
	_Atomic int state;
} libc;
enum { UNKNOWN, KNOWN, NONE };

/* The object that `address` belongs to: another allocator in between may have its names, too. */
static void *object_of(void *address) {
	Dl_info info;
	void *(*open)(const char *, int);
	*(void **)&open = next_definition("dlopen"); /* by name: a static program must not be linked with it */
	if (address == NULL || open == NULL || !trace_object(address, &info))
		return NULL;
	return open(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD); /* stays: it is loaded anyway */
}

/* `object` is NULL where no dlopen is loaded (before glibc 2.34). */
static void *of_libc(void *object, const char *name) {
	return object != NULL ? os_symbol_in(object, name) : next_definition(name);
}

static void look_up_others(void *object) {
	static const char names[][16] = { [LIBC_TRIM] = "malloc_trim", [LIBC_MALLOPT] = "mallopt",
		[LIBC_MALLINFO2] = "mallinfo2", [LIBC_STATS] = "malloc_stats", [LIBC_INFO] = "malloc_info" };
	for (unsigned i = 0; i < LIBC_NAMES; i++)
		libc.other[i] = of_libc(object, names[i]);
}

static bool look_up(void) {
	*(void **)&libc.malloc = next_definition("__libc_malloc");
	*(void **)&libc.calloc = next_definition("__libc_calloc");
	*(void **)&libc.memalign = next_definition("__libc_memalign");
	*(void **)&libc.realloc = next_definition("__libc_realloc");
	*(void **)&libc.free = next_definition("__libc_free");
	void *object = object_of(*(void **)&libc.malloc);
	*(void **)&libc.usable_size = of_libc(object, "malloc_usable_size");
	if (hak_settings.disable)
		look_up_others(object);
	return libc.malloc != NULL && libc.calloc != NULL && libc.memalign != NULL &&
		libc.realloc != NULL && libc.free != NULL && libc.usable_size != NULL;
}

/* The look-up itself may allocate and free: those calls we serve. */
static HAK_TLS bool looking_up;

static bool have_libc(void) {
	/* Acquire: the function pointers. */
	int state = atomic_load_explicit(&libc.state, memory_order_acquire);
	if (state == UNKNOWN && !looking_up) {
		/* Several threads may look at once; they find the same. */
		int saved = errno;
		looking_up = true;
		state = look_up() ? KNOWN : NONE;
		looking_up = false;
		errno = saved;
		atomic_store_explicit(&libc.state, state, memory_order_release);
	}
	return state == KNOWN;
}

void *libc_alloc(size_t size, size_t align, bool zero, bool *havep) {
	*havep = have_libc();
	if (!*havep)
		return NULL;
	if (align > 16)
		return libc.memalign(align, size);
	return zero ? libc.calloc(1, size) : libc.malloc(size);
}

void libc_free(void *ptr) {
	int saved = errno;
	if (have_libc())
		libc.free(ptr);
	errno = saved;
}

void *libc_realloc(void *ptr, size_t size) {
	return have_libc() ? libc.realloc(ptr, size) : NULL;
}

size_t libc_usable_size(const void *ptr) {
	return have_libc() ? libc.usable_size((void *)(uintptr_t)ptr) : 0;
}

HAK_COLD void *libc_instead(enum libc_name name) {
	lifecycle_init(); /* it may be the first call */
	return hak_settings.disable && have_libc() ? libc.other[name] : NULL;
}

/* ---- does a pointer look like libc's? ---- */

/* What glibc keeps before a block. */
struct chunk {
	size_t prev_size;
	size_t size; /* with the flags below */
};
enum { CHUNK_PREV_INUSE = 1, CHUNK_MMAPPED = 2, CHUNK_OTHER_ARENA = 4, CHUNK_FLAGS = 7, CHUNK_MIN = 32 };
#define ARENA_MAX ((size_t)1 << 46)
#define ARENA_HEAP ((uintptr_t)64 << 20) /* alignment of the heaps of arenas but the main one */

/* A chunk of the main arena is followed by another one, whose size says that this one is in use. */
static bool has_neighbour(const struct chunk *c, size_t size) {
	const struct chunk *next = (const void *)((const char *)c + size);
	if (!os_is_readable(next) || !os_is_readable((const char *)next + sizeof *next - 1))
		return false;
	return (next->size & CHUNK_PREV_INUSE) != 0 && next->size < ARENA_MAX;
}

bool libc_may_own(const void *ptr) {
	lifecycle_init(); /* likewise */
	/* Told to share the heap with libc, we do not judge: libc checks its own blocks. */
	if (hak_settings.disable || !hak_settings.wrap_tiny)
		return true;
	uintptr_t addr = (uintptr_t)ptr, page = os_facts.page_size;
	if (addr % 16 != 0 || addr < page || addr >> 48 != 0)
		return false;
	const struct chunk *c = (const struct chunk *)ptr - 1;
	if (!os_is_readable(c) || !os_is_readable(ptr))
		return false;
	size_t size = c->size & ~(size_t)CHUNK_FLAGS;
	if (size < CHUNK_MIN || size % 16 != 0 || size >= ARENA_MAX)
		return false;
	if ((c->size & CHUNK_MMAPPED) != 0) {
		/* Newer versions leave their own header out of the size and keep a flag in prev_size. */
		size_t before = c->prev_size & ~(size_t)CHUNK_FLAGS, all = before + size;
		return (addr - sizeof *c - before) % page == 0 &&
			(all % page == 0 || (all + sizeof *c) % page == 0);
	}
	if ((c->size & CHUNK_OTHER_ARENA) != 0)
		return size < ARENA_HEAP && os_is_readable((void *)(addr & ~(ARENA_HEAP - 1)));
	return has_neighbour(c, size);
}
