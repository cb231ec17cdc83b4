/* SPDX-License-Identifier: MIT */
/*
 * The vDSO is a small ELF library that the kernel maps. Its dynamic section says where the symbols are;
 * how many they are only its hash table tells, of which there are two kinds, old and new.
 */
#include "os/vdso.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/text.h"

#if UINTPTR_MAX > UINT32_MAX
typedef Elf64_Ehdr header;
typedef Elf64_Phdr segment;
typedef Elf64_Dyn dynamic;
typedef Elf64_Sym symbol;
#else
typedef Elf32_Ehdr header;
typedef Elf32_Phdr segment;
typedef Elf32_Dyn dynamic;
typedef Elf32_Sym symbol;
#endif

#if defined(__s390x__)
typedef uint64_t hash_word;
#else
typedef uint32_t hash_word;
#endif

struct vdso {
	const char *bias; /* what addresses in it count from */
	const dynamic *dynamic;
	const symbol *symbols;
	const char *names;
	const hash_word *hash;
	const uint32_t *gnu_hash;
};

static bool find_segments(struct vdso *v, const header *h) {
	const segment *s = (const void *)((const char *)h + h->e_phoff);
	for (unsigned i = 0; i < h->e_phnum; i++, s++) {
		if (s->p_type == PT_LOAD && v->bias == NULL)
			v->bias = (const char *)h + s->p_offset - s->p_vaddr;
		else if (s->p_type == PT_DYNAMIC)
			v->dynamic = (const void *)((const char *)h + s->p_offset);
	}
	return v->bias != NULL && v->dynamic != NULL;
}

static bool find_tables(struct vdso *v) {
	for (const dynamic *d = v->dynamic; d->d_tag != DT_NULL; d++) {
		const void *at = v->bias + d->d_un.d_ptr;
		switch (d->d_tag) {
		case DT_SYMTAB: v->symbols = at; break;
		case DT_STRTAB: v->names = at; break;
		case DT_HASH: v->hash = at; break;
		case DT_GNU_HASH: v->gnu_hash = at; break;
		default: break;
		}
	}
	return v->symbols != NULL && v->names != NULL && (v->hash != NULL || v->gnu_hash != NULL);
}

/* The last symbol ends the chain that begins furthest behind; bit 0 ends a chain. */
static uint32_t count_by_gnu_hash(const uint32_t *h) {
	uint32_t buckets = h[0], first = h[1], bloom_words = h[2], last = 0;
	const uint32_t *bucket = h + 4 + bloom_words * (sizeof(size_t) / 4), *chain = bucket + buckets;
	for (uint32_t i = 0; i < buckets; i++)
		last = bucket[i] > last ? bucket[i] : last;
	if (last < first)
		return first;
	while ((chain[last - first] & 1) == 0)
		last++;
	return last + 1;
}

static uint32_t count_symbols(const struct vdso *v) {
	return v->hash != NULL ? (uint32_t)v->hash[1] : count_by_gnu_hash(v->gnu_hash);
}

static const header *elf_header(void) {
	int saved = errno; /* free may ask for the time, and libc would say ENOENT where there is no vDSO */
	const header *h = (const void *)getauxval(AT_SYSINFO_EHDR);
	errno = saved;
	return h;
}

HAK_EVERYDAY void *vdso_find(const char *name) {
#if defined(__powerpc64__) && _CALL_ELF != 2
	return NULL; /* a function is not called by its address there */
#endif
	const header *h = elf_header();
	struct vdso v = { .bias = NULL };
	if (h == NULL || !find_segments(&v, h) || !find_tables(&v))
		return NULL;
	for (uint32_t i = 0, n = count_symbols(&v); i < n; i++)
		if (v.symbols[i].st_shndx != SHN_UNDEF && is_same_text(v.names + v.symbols[i].st_name, name))
			return (void *)(uintptr_t)(v.bias + v.symbols[i].st_value);
	return NULL;
}
