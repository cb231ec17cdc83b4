/* SPDX-License-Identifier: MIT */
/* Statistics as text: for people, JSON, OpenMetrics, malloc_info's XML. Nothing here allocates or uses
   stdio, so it may run in a signal handler. */
#ifndef HAK_OBSERVE_WRITE_H
#define HAK_OBSERVE_WRITE_H

#include <stdbool.h>

#include "hakmem.h"

/* Takes the next piece of a text. */
typedef void put_fn(void *arg, const char *text, size_t length);

/* The numbers, as hak_stats_write promises. `warm`: those of the warm pool, too. */
void write_text(const struct hak_stats *st, bool warm, put_fn *put, void *arg);
void write_json(const struct hak_stats *st, put_fn *put, void *arg);
void write_openmetrics(const struct hak_stats *st, put_fn *put, void *arg);
void write_xml(const struct hak_stats *st, put_fn *put, void *arg);

#endif
