/* SPDX-License-Identifier: MIT */
/* What the parts of the common module know of each other; workloads include workload.h alone. */
#ifndef HAK_BENCH_WORKLOAD_INTERNAL_H
#define HAK_BENCH_WORKLOAD_INTERNAL_H

#include <stdbool.h>
#include <stdio.h>

#include "workload.h"

enum { LABEL_MAX = 48, FIGURES_MAX = 256 };

struct figure {
	char name[LABEL_MAX], unit[LABEL_MAX];
	double value;
};

struct sample {
	char label[LABEL_MAX];
	size_t resident, live; /* bytes */
	double ratio;          /* 0 while nothing is live */
};

/* Times in seconds. */
struct measures {
	double wall, cpu;
	uint64_t operations;
	size_t peak, end; /* bytes in memory */
	unsigned figure_count, sample_count;
	struct figure figures[FIGURES_MAX];
	struct sample samples[SAMPLES_MAX];
};

/* Who serves malloc, and why we believe it. */
struct proof {
	const char *name;   /* libc, hakmem, mimalloc, jemalloc, tcmalloc or other */
	const char *object; /* path of the file malloc resolves to */
	bool can_own;       /* it can be asked which blocks are its own: HAKMEM alone */
	bool served;
	unsigned shown, owned; /* blocks */
	size_t mapped, live;   /* bytes by its own counters, if can_own */
};

extern const struct workload *workload_self;
extern bool workload_json;

/* Looks who serves malloc; ends the program if it is not `expected` (NULL: anybody). */
void proof_begin(const char *expected);
/* Completes the proof; ends the program if `expected` did not serve the blocks shown. */
const struct proof *proof_end(void);

/* Completes the measures. */
const struct measures *measures_end(void);

void report_text(const struct measures *measures, const struct proof *proof);
void report_json(const struct measures *measures, const struct proof *proof);

#endif
