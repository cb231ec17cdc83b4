/* SPDX-License-Identifier: MIT */
/* Symbols of an ELF object in memory, by what its dynamic section says. */
#ifndef HAK_OS_ELF_H
#define HAK_OS_ELF_H

#include <link.h>
#include <stdatomic.h>

#include "base/compiler.h"

/* Address of what the object whose addresses count from `bias` defines by this name, whatever its version. NULL: nothing. */
const void *elf_find(uintptr_t bias, const ElfW(Dyn) *dynamic, const char *name);

/* What elf_others_define asks the loader by. It looks that up by itself, under the loader's lock, if NULL is here: who loads
   libraries looks it up before, for a thread that a library's constructor waits for may not wait for that lock. */
#define ELF_EACH_NAME "dl_iterate_phdr"
extern HAK_HIDDEN _Atomic(void *) hak_elf_each;

/* Does an object of the process define the name, but this one and those whose files' names begin with one of the texts
   in `but`, an empty one behind the last? False, too, where there is no loader to ask. */
bool elf_others_define(const char *name, const char *but);

#endif
