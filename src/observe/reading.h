/* SPDX-License-Identifier: MIT */
/*
 * Reading a process that uses HAKMEM, this one or another, while it runs: from its memory, by what the
 * descriptor says, to struct hak_stats. Nothing is taken for granted but the layout; what changes under our
 * feet gives numbers that are off by what changed, never a wrong access.
 *
 * No part of the library but the public header is used here: the command is made of this file, too.
 */
#ifndef HAK_OBSERVE_READING_H
#define HAK_OBSERVE_READING_H

#include <stdbool.h>
#include <stddef.h>

#include "hakmem.h"
#include "observe/descriptor.h"

/* Copies `size` bytes at address `from` of the process to `to`. False: they cannot be read. */
typedef bool reading_copy_fn(void *arg, uint64_t from, void *to, size_t size);

/* A structure of the process, copied. */
enum { READING_COPY_MAX = 8192 };
struct reading_copy {
	uint64_t bytes[READING_COPY_MAX / sizeof(uint64_t)];
};

/* What a reading works on, which is too much for the stack of a signal handler. */
struct reading_room {
	struct reading_copy outer, inner;   /* a part of a list; what that leads to */
	uint64_t out[HAK_STATS_CLASSES];    /* blocks not at home */
	uint64_t cached[HAK_STATS_CLASSES]; /* of those, in bins, outboxes, quarantines */
	uint64_t samples[HAK_STATS_CLASSES], waste[HAK_STATS_CLASSES];
};

struct reading {
	reading_copy_fn *copy;
	void *arg;
	struct reading_room *room;
	bool without_bins; /* do not look at the caches of threads: they may go any moment */
	uint64_t root[DESCRIPTOR_ROOTS];
	uint32_t field[DESCRIPTOR_FIELDS], size[DESCRIPTOR_SIZES], number[DESCRIPTOR_NUMBERS];
	char version[DESCRIPTOR_VERSION_MAX];
};

enum reading_result {
	READING_OK,
	READING_GONE,          /* memory could not be read */
	READING_OTHER_VERSION, /* `version` says which, if it is known */
	READING_NOT_STARTED,   /* the process has not allocated yet */
};

/* Learns the layout from the descriptor at `address`. `copy`, `arg` and `room` are set. */
enum reading_result reading_open(struct reading *r, uint64_t address);

/* Fills *`stats`, all of it. */
enum reading_result reading_stats(const struct reading *r, struct hak_stats *stats);

/* What a granule holds, for pictures. */
struct reading_slab {
	uint64_t base;
	unsigned sc;              /* 0: a mosaic */
	uint64_t capacity, live;  /* blocks; of a mosaic: granule and live blocks' bytes */
	bool is_orphan;           /* no thread has it */
};
struct reading_large {
	uint64_t base, granules, usable, unused;
	bool is_live, in_superslab, in_pocket;
};
struct reading_superslab {
	uint64_t base;
	uint32_t free, zero;      /* a bit per granule */
	bool huge;
};

/* Call `visit` for each. Blocks in threads' caches count as live in slabs. */
typedef void reading_slab_fn(void *arg, const struct reading_slab *slab);
typedef void reading_large_fn(void *arg, const struct reading_large *large);
typedef void reading_superslab_fn(void *arg, const struct reading_superslab *superslab);
enum reading_result reading_slabs(const struct reading *r, reading_slab_fn *visit, void *arg);
enum reading_result reading_larges(const struct reading *r, reading_large_fn *visit, void *arg);
enum reading_result reading_superslabs(const struct reading *r, reading_superslab_fn *visit, void *arg);

/* A thread's part, or one of a heap that has no thread: of `counts` all that is counted by thread, and `cached`
   bytes and blocks. */
struct reading_heap {
	uint64_t index, number; /* from 0; as the log and reports name it */
	bool has_thread, is_locked; /* locked: a first-class heap, or one of HAKMEM's own */
	struct hak_stats counts;
};
typedef void reading_heap_fn(void *arg, const struct reading_heap *heap);
/* Each in turn is in *`heap`. */
enum reading_result reading_heaps(const struct reading *r, struct reading_heap *heap, reading_heap_fn *visit,
                                  void *arg);

/* Usable size of blocks of a class; 0: no such class. */
uint64_t reading_class_size(const struct reading *r, unsigned sc);

/* Setting number `row`, from 0: its name and, as in hakmem.conf, its value. False: no such row. */
struct reading_setting {
	char name[24], value[256];
};
bool reading_setting(const struct reading *r, unsigned row, struct reading_setting *setting);

#endif
