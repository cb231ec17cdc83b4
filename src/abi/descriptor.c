/* SPDX-License-Identifier: MIT */
/*
 * The note that leads outside processes, and the tables it leads to. Nothing here needs a relocation: the
 * note's offsets are the linker's, and the roots are filled in at run time, where other data is written
 * anyway.
 */
#include "abi/descriptor.h"

#include "abi/conf_table.h"
#include "build_options.h"
#include "front/bigcache.h"
#include "front/heap.h"
#include "front/large.h"
#include "front/nursery.h"
#include "front/quarantine.h"
#include "hakmem.h"
#include "observe/descriptor.h"
#include "observe/reading.h"
#include "observe/stats.h"
#include "os/os.h"
#include "slab/mosaic.h"
#include "slab/pool.h"
#include "space/meta.h"

extern HAK_HIDDEN uint64_t hak_descriptor_roots[];
extern HAK_HIDDEN const uint32_t hak_descriptor_layout[];
extern HAK_HIDDEN const char hak_descriptor_version[];

HAK_AT_START __attribute__((used)) uint64_t hak_descriptor_roots[DESCRIPTOR_ROOTS];
__attribute__((used)) const char hak_descriptor_version[DESCRIPTOR_VERSION_MAX] = HAKMEM_VERSION;

#define FIELD(id, structure, member) \
	offsetof(struct structure, member) << 16 | sizeof(((struct structure *)0)->member),
#define SIZE(id, structure) sizeof(struct structure),
#define NUMBER(id, value) value,
__attribute__((used)) const uint32_t hak_descriptor_layout[] = {
	DESCRIPTOR_FIELDS, DESCRIPTOR_SIZES, DESCRIPTOR_NUMBERS,
#include "observe/descriptor.def"
};
#undef FIELD
#undef SIZE
#undef NUMBER
/* The longest. Readers, also those of other versions, copy no more. */
static_assert(sizeof(struct heap) <= READING_COPY_MAX, "there would be no statistics");

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
/* Name and description of a note are padded to 4 bytes. The numbers are checked below. */
#define FORMAT 1
#define BYTES 32
#define ROOTS 17
__asm__(".pushsection .note.hakmem, \"a\", %note\n"
        ".balign 4\n"
        ".long 7, " TEXT(BYTES) ", 1\n"
        ".asciz \"HAKMEM\"\n"
        ".balign 4\n"
        ".globl hak_descriptor\n"
        ".hidden hak_descriptor\n"
        ".type hak_descriptor, %object\n"
        ".size hak_descriptor, " TEXT(BYTES) "\n"
        "hak_descriptor:\n"
        ".long " TEXT(FORMAT) ", " TEXT(ROOTS) "\n"
        ".quad hak_descriptor_roots - .\n"
        ".quad hak_descriptor_layout - .\n"
        ".quad hak_descriptor_version - .\n"
        ".popsection\n");
static_assert(sizeof(struct descriptor) == BYTES && DESCRIPTOR_FORMAT == FORMAT, "as the note says");
static_assert(DESCRIPTOR_ROOTS == ROOTS && DESCRIPTOR_NOTE_TYPE == 1, "as the note says");
static_assert(sizeof DESCRIPTOR_NOTE == 7, "as the note says");

static void set_root(enum descriptor_root root, const void *address) {
	hak_descriptor_roots[root] = (uintptr_t)address;
}

HAK_EVERYDAY void descriptor_init(void) {
	set_root(ROOT_SLABS, slab_chunks());
	set_root(ROOT_LARGES, large_chunks());
	set_root(ROOT_SUPERSLABS, superslab_all());
	set_root(ROOT_SPACE, &hak_space);
	set_root(ROOT_POOLS, hak_pools);
	set_root(ROOT_BIGCACHE, &hak_bigcache_stats);
	set_root(ROOT_BIGCACHE_GRANULES, bigcache_granules_at());
	set_root(ROOT_OS, &os_counters);
	set_root(ROOT_MAPPED, os_mapped_at());
	set_root(ROOT_META_USED, meta_used_at());
	set_root(ROOT_NURSERY, &hak_nursery);
	set_root(ROOT_SETTINGS, &hak_settings);
	set_root(ROOT_SETTING_ROWS, conf_table);
	set_root(ROOT_SETTING_NAMES, conf_names);
	set_root(ROOT_PROFILE_NAMES, conf_profile_names);
	set_root(ROOT_CLASSES, hak_size_classes);
	set_root(ROOT_HEAPS, heap_registry_first());
	stats_init(hak_descriptor);
}
