/* SPDX-License-Identifier: MIT */
/* Symbols of an ELF object in memory, by what its dynamic section says. */
#ifndef HAK_OS_ELF_H
#define HAK_OS_ELF_H

#include <link.h>

#include "base/compiler.h"

/* Address of what the object whose addresses count from `bias` defines by this name, whatever its version. NULL: nothing. */
const void *elf_find(uintptr_t bias, const ElfW(Dyn) *dynamic, const char *name);

/* The same in the first object of the process that has it, but this one and those whose files' names begin with one of
   the texts in `but`, an empty one behind the last. */
const void *elf_find_elsewhere(const char *name, const char *but);

#endif
