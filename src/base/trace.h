/* SPDX-License-Identifier: MIT */
/*
 * Call stacks: where an allocation came from, for reports. Taken by following frame pointers, which costs a
 * few loads and needs no tables, locks or memory; programs built without them show the call site alone.
 */
#ifndef HAK_BASE_TRACE_H
#define HAK_BASE_TRACE_H

#include "base/report.h"

enum { TRACE_FRAMES = 12 };

struct trace {
	uint32_t count;
	const void *pc[TRACE_FRAMES]; /* return addresses, innermost first */
};

/* The stack of the calling thread. `caller`: the return address into the program, NULL: not known. */
void trace_capture(struct trace *s, const void *caller);

/* A line per frame: address, and object and offset where they can be told. */
void trace_write(const struct trace *s);

#endif
