/* SPDX-License-Identifier: MIT */
/*
 * Call stacks: where an allocation came from, for reports. Taken by following frame pointers, which costs a
 * few loads and needs no tables, locks or memory; programs built without them show the call site alone.
 *
 * A frame pointer of such a program may be any number, and a coroutine's or a signal handler's stack ends
 * where we are not told. So what is followed must lead up by less than a frame's length, and whether a page
 * can be read is asked of the system, once (os_is_readable); that the thread's stack goes on there is not.
 */
#ifndef HAK_OS_TRACE_H
#define HAK_OS_TRACE_H

#include <dlfcn.h>

#include "base/report.h"

enum { TRACE_FRAMES = 12 };

struct trace {
	uint32_t count;
	uintptr_t pc[TRACE_FRAMES]; /* return addresses, innermost first */
};

/* The stack of the calling thread. `caller`: the return address into the program, NULL: not known. */
void trace_capture(struct trace *s, const void *caller);

/* Likewise, into the `most` first of `pc`. Returns how many there are. */
unsigned trace_walk(uintptr_t *pc, unsigned most, const void *caller);

/* dladdr. False: there is no such object, or no loader. */
bool trace_object(const void *address, Dl_info *info);

/* An address in that object, as its file has it and addr2line wants it. */
uintptr_t trace_in_file(uintptr_t address, const Dl_info *info);

/* Looks up what trace_write finds objects by. If it could not, that waits for the loader, as dladdr does: for ever, in
   a thread that a library's constructor waits for, or where a thread that had the loader's lock is not in a forked
   child. */
void trace_prepare(void);

/* A line per frame: address, and object and offset where they can be told. */
void trace_write(const struct trace *s);

#endif
