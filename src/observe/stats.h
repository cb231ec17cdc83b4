/* SPDX-License-Identifier: MIT */
/* Statistics: totals over all heaps, and the reports that malloc.h promises. */
#ifndef HAK_OBSERVE_STATS_H
#define HAK_OBSERVE_STATS_H

#include <malloc.h>
#include <stdio.h>

#include "base/compiler.h"

/* Bytes unless the name says otherwise. Taken while other threads run: each number is right, their
   sum may be off by what is in flight. */
struct stats {
	size_t mapped;      /* SuperSlabs and mappings of large blocks */
	size_t live;        /* blocks with the program or in thread caches */
	size_t live_blocks;
	size_t free_bytes;  /* free blocks and free granules in slabs and SuperSlabs */
	size_t dirty;       /* of free granules, maybe resident */
	size_t big;         /* large blocks with a mapping of their own */
	size_t bigcache;    /* kept by BigCache */
	size_t metadata;
	size_t slabs;
};

void stats_collect(struct stats *s);

struct mallinfo2 stats_mallinfo2(void);

/* A report for people on standard error. */
void stats_print(void);

/* malloc_info's XML. 0, or -1 if the stream fails. */
int stats_print_xml(FILE *stream);

#endif
