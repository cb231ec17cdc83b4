/* SPDX-License-Identifier: MIT */
#include "abi/libc.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <sys/auxv.h>

#include "base/settings.h"
#include "os/os.h"

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	size_t (*usable_size)(void *);
	_Atomic int state; /* 0 unknown, 1 being looked up, 2 known, 3 none */
} libc;

/* A static program without the dynamic loader has none. */
#pragma weak dlsym

static void *next(const char *name) {
	return dlsym(RTLD_NEXT, name);
}

static bool look_up(void) {
	if (dlsym == NULL)
		return false;
	*(void **)&libc.malloc = next("__libc_malloc");
	*(void **)&libc.calloc = next("__libc_calloc");
	*(void **)&libc.memalign = next("__libc_memalign");
	*(void **)&libc.realloc = next("__libc_realloc");
	*(void **)&libc.free = next("__libc_free");
	*(void **)&libc.usable_size = next("malloc_usable_size");
	return libc.malloc != NULL && libc.calloc != NULL && libc.memalign != NULL &&
		libc.realloc != NULL && libc.free != NULL && libc.usable_size != NULL;
}

/* False also for calls that the look-up itself makes: those we serve. */
static bool have_libc(void) {
	/* Acquire: the function pointers. */
	int state = atomic_load_explicit(&libc.state, memory_order_acquire);
	if (state >= 2)
		return state == 2;
	int unknown = 0;
	if (!atomic_compare_exchange_strong(&libc.state, &unknown, 1))
		return unknown == 2;
	int saved = errno;
	bool ok = look_up();
	errno = saved;
	atomic_store_explicit(&libc.state, ok ? 2 : 3, memory_order_release);
	return ok;
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

/* ---- does a pointer look like libc's? ---- */

/* What glibc keeps before a block. */
struct chunk {
	size_t prev_size;
	size_t size; /* with the flags below */
};
enum { CHUNK_MMAPPED = 2, CHUNK_OTHER_ARENA = 4, CHUNK_FLAGS = 7, CHUNK_MIN = 32 };
#define ARENA_HEAP ((uintptr_t)64 << 20) /* alignment of the heaps of arenas but the main one */

/* Where the executable ends: the brk heap begins somewhere behind. */
static uintptr_t executable_end(void) {
	const ElfW(Phdr) *ph = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	size_t n = getauxval(AT_PHNUM);
	uintptr_t bias = 0, end = 0;
	for (size_t i = 0; i < n; i++)
		if (ph[i].p_type == PT_PHDR)
			bias = (uintptr_t)ph - ph[i].p_vaddr;
	for (size_t i = 0; i < n; i++)
		if (ph[i].p_type == PT_LOAD && bias + ph[i].p_vaddr + ph[i].p_memsz > end)
			end = bias + ph[i].p_vaddr + ph[i].p_memsz;
	return end;
}

bool libc_may_own(const void *ptr) {
	uintptr_t addr = (uintptr_t)ptr, page = os_facts.page_size;
	if (addr % 16 != 0 || addr < page || addr >> 47 != 0)
		return false;
	const struct chunk *c = (const struct chunk *)ptr - 1;
	if (!os_is_mapped(c))
		return false;
	size_t size = c->size & ~(size_t)CHUNK_FLAGS;
	if (size < CHUNK_MIN || size % 16 != 0)
		return false;
	if ((c->size & CHUNK_MMAPPED) != 0)
		return (addr - sizeof *c - c->prev_size) % page == 0 && (c->prev_size + size) % page == 0;
	if ((c->size & CHUNK_OTHER_ARENA) != 0)
		return size < ARENA_HEAP && os_is_mapped((void *)(addr & ~(ARENA_HEAP - 1)));
	uintptr_t end = os_brk_end();
	return addr >= executable_end() && addr < end && size <= end - addr + sizeof *c;
}
