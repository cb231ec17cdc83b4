/* SPDX-License-Identifier: MIT */
/* Symbols of an ELF object in memory, by what its dynamic section says. */
#ifndef HAK_OS_ELF_H
#define HAK_OS_ELF_H

#include <link.h>

#include "base/compiler.h"

/* Address of what the object whose addresses count from `bias` defines by this name, whatever its version. NULL: nothing. */
const void *elf_find(uintptr_t bias, const ElfW(Dyn) *dynamic, const char *name);

/* Does an object of the process define the name, but this one and those whose files' names begin with one of the texts
   in `but`, an empty one behind the last? False, too, where there is no loader to ask. */
bool elf_others_define(const char *name, const char *but);

#endif
