/* SPDX-License-Identifier: MIT */
#include "os/elf.h"

#include <elf.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"

#if defined(__s390x__)
typedef uint64_t hash_word;
#else
typedef uint32_t hash_word;
#endif

/* Of the two kinds of hash table, old and new, there is one at least. */
struct tables {
	const ElfW(Sym) *symbols;
	const char *names;
	const hash_word *hash;
	const uint32_t *gnu_hash;
};

static uintptr_t distance(uintptr_t a, uintptr_t b) {
	return min_size(a - b, b - a);
}

/* Most loaders have put addresses in place of what counts from `bias`, which may be anything. Right is what is nearer to
   the dynamic section. */
static bool find_tables(struct tables *t, uintptr_t bias, const ElfW(Dyn) *d) {
	for (; d->d_tag != DT_NULL; d++) {
		uintptr_t here = d->d_un.d_ptr, there = bias + here;
		const void *at = (const void *)(distance(here, (uintptr_t)d) < distance(there, (uintptr_t)d) ? here : there);
		if (d->d_tag == DT_SYMTAB)
			t->symbols = at;
		else if (d->d_tag == DT_STRTAB)
			t->names = at;
		else if (d->d_tag == DT_HASH)
			t->hash = at;
		else if (d->d_tag == DT_GNU_HASH)
			t->gnu_hash = at;
	}
	return t->symbols != NULL && t->names != NULL && (t->hash != NULL || t->gnu_hash != NULL);
}

static uint32_t gnu_hash_of(const char *name) {
	uint32_t hash = 5381;
	for (; *name != '\0'; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

HAK_EVERYDAY const void *elf_find(uintptr_t bias, const ElfW(Dyn) *dynamic, const char *name) {
	struct tables t = { .symbols = NULL };
	if (!find_tables(&t, bias, dynamic))
		return NULL;
	/* The old kind says how many symbols there are. The new one has a filter, where each bucket's chain of symbols begins,
	   0 if it is empty, and the hash of each symbol, whose bit 0 ends a chain. */
	uint32_t i = 0, hash = gnu_hash_of(name);
	const uint32_t *h = t.gnu_hash, *chain = NULL;
	if (h != NULL) {
		uint32_t buckets = h[0], first = h[1], filter_words = h[2];
		const uint32_t *bucket = h + 4 + filter_words * (sizeof(size_t) / 4);
		i = bucket[hash % buckets];
		if (i == 0)
			return NULL;
		chain = bucket + buckets - first;
	}
	for (;; i++) {
		const ElfW(Sym) *s = &t.symbols[i];
		if ((chain == NULL || (chain[i] ^ hash) >> 1 == 0) && s->st_shndx != SHN_UNDEF &&
		    is_same_text(t.names + s->st_name, name))
			return (const void *)(bias + s->st_value);
		if (chain != NULL ? (chain[i] & 1) != 0 : i + 1 >= t.hash[1])
			return NULL;
	}
}

/* ---- the process's objects ---- */

struct search {
	const char *name, *but;
	const void *found;
};

HAK_EVERYDAY static bool is_among(const char *path, const char *starts) {
	const char *file = path;
	for (; *path != '\0'; path++)
		if (*path == '/')
			file = path + 1;
	while (*starts != '\0' && !begins_with(file, starts))
		starts += text_length(starts) + 1;
	return *starts != '\0';
}

HAK_EVERYDAY static int look_at(struct dl_phdr_info *o, size_t size, void *arg) {
	struct search *s = arg;
	const void *dynamic = NULL;
	for (const ElfW(Phdr) *p = o->dlpi_phdr, *end = p + o->dlpi_phnum; p < end; p++) {
		uintptr_t begin = o->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_LOAD && (uintptr_t)look_at - begin < p->p_memsz)
			return 0; /* this one */
		if (p->p_type == PT_DYNAMIC)
			dynamic = (const void *)begin;
	}
	if (dynamic != NULL && !is_among(o->dlpi_name, s->but))
		s->found = elf_find(o->dlpi_addr, dynamic, s->name);
	return s->found != NULL;
}

HAK_EVERYDAY const void *elf_find_elsewhere(const char *name, const char *but) {
	struct search s = { name, but, NULL };
	dl_iterate_phdr(look_at, &s);
	return s.found;
}
