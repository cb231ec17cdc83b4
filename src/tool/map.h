/* SPDX-License-Identifier: MIT */
/* What `hakmem map` draws. */
#ifndef HAK_TOOL_MAP_H
#define HAK_TOOL_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { MAP_GRANULES = 32, MAP_GRANULE_SHIFT = 16, MAP_CLASSES = 64 };

enum map_kind { MAP_OTHER, MAP_CLEAN, MAP_DIRTY, MAP_SLAB, MAP_MOSAIC, MAP_LARGE, MAP_LARGE_MORE };

struct map_cell {
	uint8_t kind;    /* enum map_kind */
	uint8_t sc;      /* of a slab */
	uint8_t percent; /* how full */
	bool orphan;     /* no thread has the slab */
};

struct map_row {
	uint64_t base;
	bool huge;
	struct map_cell cell[MAP_GRANULES];
};

struct map {
	char title[96];
	struct map_row *row; /* by address */
	size_t rows, room;
	size_t alone;        /* slabs outside of SuperSlabs */
	uint64_t big, big_bytes, kept, kept_bytes; /* live blocks with mappings of their own; in BigCache */
	uint64_t class_size[MAP_CLASSES];
};

/* Which of the twelve doublings from 16 bytes on a block size belongs to. */
unsigned map_band(uint64_t size);

/* What stands above it. */
void map_head(const struct map *m, char *to, size_t size);

void map_write_svg(const struct map *m, FILE *file);

#endif
