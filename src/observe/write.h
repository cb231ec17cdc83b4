/* SPDX-License-Identifier: MIT */
/* Statistics as text: for people, JSON, OpenMetrics, malloc_info's XML. Nothing here allocates or uses
   stdio, so it may run in a signal handler. */
#ifndef HAK_OBSERVE_WRITE_H
#define HAK_OBSERVE_WRITE_H

#include <stdbool.h>

#include "observe/reading.h"

/* Takes the next piece of a text. */
typedef void put_fn(void *arg, const char *text, size_t length);

/* The numbers, as hak_stats_write promises. `warm`: those of the warm pool, too. */
void write_text(const struct hak_stats *st, bool warm, put_fn *put, void *arg);
void write_json(const struct hak_stats *st, put_fn *put, void *arg);

/* The same heap by heap: a table's head and a row of it; the beginning of an object, its members, its end. */
void write_text_heaps(put_fn *put, void *arg);
void write_text_heap(const struct reading_heap *h, put_fn *put, void *arg);
void write_json_open(const struct hak_stats *st, put_fn *put, void *arg);
void write_json_heap(const struct reading_heap *h, put_fn *put, void *arg);
void write_json_close(put_fn *put, void *arg);

/* Of several processes what they have the same name for must stand together. */
struct metric_source {
	const struct hak_stats *stats;
	const char *labels; /* as in braces, without them; may be empty */
};
void write_openmetrics(const struct metric_source *sources, size_t n, put_fn *put, void *arg);
void write_xml(const struct hak_stats *st, put_fn *put, void *arg);

#endif
