/* SPDX-License-Identifier: MIT */
/* Statistics of this process: read as an outside process would read them (observe/reading.h), and the
   reports made of them. */
#ifndef HAK_OBSERVE_STATS_H
#define HAK_OBSERVE_STATS_H

#include <malloc.h>
#include <stdio.h>

#include "base/compiler.h"
#include "observe/write.h"

struct lock;

/* The address of our descriptor, for what follows. Once, before the first block. */
void stats_init(const void *descriptor);

/* Takes the numbers while other threads run: each is right, their sum may be off by what is in flight. They
   are the caller's until stats_put_back. `wait`: for locks; otherwise, as in a signal handler, NULL if others
   have them, and the caches of other threads are left out if those may be going away. */
const struct hak_stats *stats_take(bool wait);
void stats_put_back(void);

/* What is taken, in all and heap by heap. */
void stats_write_text(bool warm, put_fn *put, void *arg);
void stats_write_json(put_fn *put, void *arg);

/* For fork. A child forgets what others have taken. */
struct lock *stats_lock(void);

struct mallinfo2 stats_mallinfo2(void);

/* A report for people on standard error. */
void stats_print(void);

/* What the settings stats, stats_file, stats_signal and warm_pool_stats ask for. At the start, once they are
   known; the report of one process, at its end. */
void stats_begin(void);
void stats_end(void);

/* Does standard error lead where it led at the start? Where a setting asks for a report or a heap profile. */
bool stats_stderr_is_there(void);

/* malloc_info's XML. 0, or -1 if the stream fails. */
int stats_print_xml(FILE *stream);

#endif
