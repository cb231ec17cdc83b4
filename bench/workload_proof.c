/* SPDX-License-Identifier: MIT */
/*
 * The proof of who served. The object file that malloc resolves to says whose malloc is called;
 * that is not enough for HAKMEM, which can pass requests on to libc, so it is asked whether the
 * blocks shown are its own.
 */
#include "workload_internal.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

static struct proof proof;
static const char *expected;
static atomic_uint shown, owned;
static int (*owns)(const void *);

/* The compiler must ask the loader, not guess. */
static void *(*volatile called_malloc)(size_t) = malloc;

static Dl_info object_of(void *function) {
	Dl_info info;
	if (dladdr(function, &info) == 0 || info.dli_fname == NULL)
		workload_exit(3, "cannot tell which object file serves malloc");
	return info;
}

static void *malloc_address(void) {
	void *(*function)(size_t) = called_malloc;
	void *address;
	memcpy(&address, &function, sizeof(address));
	return address;
}

/* `symbol` of the very object that serves malloc, or NULL. */
static void *own_symbol(const Dl_info *server, const char *symbol) {
	void *address = dlsym(RTLD_DEFAULT, symbol);
	return address != NULL && object_of(address).dli_fbase == server->dli_fbase ? address : NULL;
}

static bool is_libc(const Dl_info *server) {
	return own_symbol(server, "gnu_get_libc_version") != NULL;
}

static const char *name_of(const Dl_info *server) {
	static const struct { const char *name, *symbol; } known[] = {
		{ "hakmem", "hak_owns" }, { "mimalloc", "mi_malloc" }, { "jemalloc", "mallctl" },
		{ "tcmalloc", "tc_malloc" },
	};
	if (is_libc(server))
		return "libc";
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (own_symbol(server, known[i].symbol) != NULL)
			return known[i].name;
	return "other";
}

static bool is_same_file(const char *path, const char *other) {
	struct stat a, b;
	return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
		a.st_ino == b.st_ino;
}

void proof_begin(const char *path) {
	Dl_info server = object_of(malloc_address());
	proof.object = server.dli_fname;
	proof.name = name_of(&server);
	if (strcmp(proof.name, "hakmem") == 0)
		*(void **)&owns = own_symbol(&server, "hak_owns");
	proof.can_own = owns != NULL;
	/* The loader allocates for each symbol that it does not find, as those above mostly are. With one that it finds at
	   once the process's first call of malloc would be timed, and with others not. */
	free(called_malloc(1));
	expected = path;
	if (path == NULL)
		return;
	struct stat file;
	bool is_libc_wanted = strcmp(path, "libc") == 0;
	if (!is_libc_wanted && stat(path, &file) != 0)
		workload_exit(2, "--expect: there is no file '%s'", path);
	if (!(is_libc_wanted ? is_libc(&server) : is_same_file(path, proof.object)))
		workload_exit(3, "malloc is served by %s, not by %s", proof.object, path);
}

void workload_served(void *block) {
	/* Relaxed: counts, read after the threads were joined. */
	atomic_fetch_add_explicit(&shown, 1, memory_order_relaxed);
	if (owns == NULL || owns(block))
		atomic_fetch_add_explicit(&owned, 1, memory_order_relaxed);
	else if (expected != NULL)
		workload_exit(3, "%s does not own the block at %p", proof.object, block);
}

const struct proof *proof_end(void) {
	proof.shown = atomic_load_explicit(&shown, memory_order_relaxed);
	proof.owned = atomic_load_explicit(&owned, memory_order_relaxed);
	proof.served = proof.shown > 0 && proof.owned == proof.shown;
	if (expected != NULL && !proof.served)
		workload_exit(3, "no block shows that %s serves", proof.object);
	struct mallinfo2 (*info)(void);
	*(void **)&info = proof.can_own ? dlsym(RTLD_DEFAULT, "mallinfo2") : NULL;
	if (info != NULL) {
		struct mallinfo2 counters = info();
		proof.mapped = counters.arena + counters.hblkhd;
		proof.live = counters.uordblks + counters.hblkhd;
	}
	return &proof;
}
