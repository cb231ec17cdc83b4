/* SPDX-License-Identifier: MIT */
/* The vDSO is a small ELF library that the kernel maps. */
#include "os/vdso.h"

#include <errno.h>
#include <sys/auxv.h>

#include "os/elf.h"

static const ElfW(Ehdr) *elf_header(void) {
	int saved = errno; /* free may ask for the time, and libc would say ENOENT where there is no vDSO */
	const ElfW(Ehdr) *h = (const void *)getauxval(AT_SYSINFO_EHDR);
	errno = saved;
	return h;
}

HAK_EVERYDAY void *vdso_find(const char *name) {
#if defined(__powerpc64__) && _CALL_ELF != 2
	return NULL; /* a function is not called by its address there */
#endif
	const ElfW(Ehdr) *h = elf_header();
	if (h == NULL)
		return NULL;
	const ElfW(Phdr) *s = (const void *)((const char *)h + h->e_phoff), *load = NULL, *dynamic = NULL;
	for (unsigned i = 0; i < h->e_phnum; i++, s++) {
		if (s->p_type == PT_LOAD && load == NULL)
			load = s;
		else if (s->p_type == PT_DYNAMIC)
			dynamic = s;
	}
	if (load == NULL || dynamic == NULL)
		return NULL;
	uintptr_t bias = (uintptr_t)h + load->p_offset - load->p_vaddr;
	return (void *)(uintptr_t)elf_find(bias, (const void *)((const char *)h + dynamic->p_offset), name);
}
