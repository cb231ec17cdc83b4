/* SPDX-License-Identifier: MIT */
/* The descriptor of this process (observe/descriptor.h), and reading by it. */
#ifndef HAK_ABI_DESCRIPTOR_H
#define HAK_ABI_DESCRIPTOR_H

#include "base/compiler.h"

/* Fills in the roots. Once, before the first block. */
void descriptor_init(void);

/* What the note holds. */
extern HAK_HIDDEN const char hak_descriptor[];

#endif
