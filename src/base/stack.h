/* SPDX-License-Identifier: MIT */
/*
 * Call stacks: where an allocation came from, for reports. Taken by following frame pointers, which costs a
 * few loads and needs no tables, locks or memory; programs built without them show the call site alone.
 */
#ifndef HAK_BASE_STACK_H
#define HAK_BASE_STACK_H

#include "base/report.h"

enum { STACK_FRAMES = 12 };

struct stack {
	uint32_t count;
	const void *pc[STACK_FRAMES]; /* return addresses, innermost first */
};

/* The stack of the calling thread. `caller`: the return address into the program, NULL: not known. */
void stack_capture(struct stack *s, const void *caller);

/* A line per frame: address, and object and offset where they can be told. */
void stack_write(const struct stack *s);

#endif
