/* SPDX-License-Identifier: MIT */
/*
 * The descriptor: how an outside process finds its way in ours. It is an ELF note, so it is found in the
 * memory of any process by the program headers alone, whatever the file is called, stripped, replaced or
 * linked in statically.
 *
 *   note "HAKMEM", type 1:   struct descriptor, whose offsets count from themselves
 *     roots    uint64_t[]    addresses, all 0 until the process has allocated
 *     layout   uint32_t[]    numbers of fields, sizes and numbers; fields as offset << 16 | size;
 *                            sizes; numbers: see descriptor.def
 *     version  text
 *
 * This header, descriptor.def, reading.h and write.h are what the library publishes for tools.
 */
#ifndef HAK_OBSERVE_DESCRIPTOR_H
#define HAK_OBSERVE_DESCRIPTOR_H

#include <stdint.h>

#define DESCRIPTOR_NOTE "HAKMEM"
enum { DESCRIPTOR_NOTE_TYPE = 1, DESCRIPTOR_FORMAT = 1, DESCRIPTOR_VERSION_MAX = 16 };

struct descriptor {
	uint32_t format; /* DESCRIPTOR_FORMAT; another cannot be read */
	uint32_t roots;  /* their number */
	int64_t to_roots, to_layout, to_version;
} __attribute__((packed, aligned(4)));

#define ROOT(id) ROOT_##id,
enum descriptor_root {
#include "observe/descriptor.def"
	DESCRIPTOR_ROOTS
};
#undef ROOT

#define FIELD(id, structure, member) F_##id,
enum descriptor_field {
#include "observe/descriptor.def"
	DESCRIPTOR_FIELDS
};
#undef FIELD

#define SIZE(id, structure) S_##id,
enum descriptor_size {
#include "observe/descriptor.def"
	DESCRIPTOR_SIZES
};
#undef SIZE

#define NUMBER(id, value) N_##id,
enum descriptor_number {
#include "observe/descriptor.def"
	DESCRIPTOR_NUMBERS
};
#undef NUMBER

enum { DESCRIPTOR_COUNTS = 3 }; /* before the fields */

#endif
