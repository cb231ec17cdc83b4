/* SPDX-License-Identifier: MIT */
/*
 * What the programs of bench_apps work on: each function writes files into the workload's folder,
 * the same ones everywhere. `scale` is a percentage of the usual amount of work.
 */
#ifndef HAK_BENCH_APPS_INPUTS_H
#define HAK_BENCH_APPS_INPUTS_H

#include <stdint.h>

void input_cpp(uint64_t scale);        /* large.cc: C++17 that instantiates many templates */
void input_python(uint64_t scale);     /* job.py */
void input_perl(uint64_t scale);       /* job.pl */
void input_sql(uint64_t scale);        /* job.sql, for sqlite3 */
void input_repository(uint64_t scale); /* stream: a history for git fast-import */
void input_text(uint64_t scale);       /* text: words that compress as prose does */

#endif
