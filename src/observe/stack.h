/* SPDX-License-Identifier: MIT */
/*
 * Who called: the return addresses of the calling thread, innermost first.
 *
 * Programs are mostly built without frame pointers, so the C run time's unwinder is asked, if the libc has
 * _dl_find_object: without it the unwinder takes the loader's lock, which whoever is in malloc may not. Else
 * frame pointers are followed (os/trace.h).
 *
 * Unwinding costs a microsecond and most samples come from where one came from before. So stacks are
 * remembered with the places on the thread's stack that the return addresses were in: if the call comes from
 * the same place at the same depth, and all those words are what they were, so are the callers.
 */
#ifndef HAK_OBSERVE_STACK_H
#define HAK_OBSERVE_STACK_H

#include "base/compiler.h"

enum { STACK_MOST = 48 };

struct stack {
	unsigned depth;
	uintptr_t frame[STACK_MOST];
};

/* Whether a library may be loaded amid an allocation: not by the loader, which may be anywhere in its own work, nor
   once there are threads: somebody may have the loader's lock and wait for the caller. */
bool stack_may_prepare(const void *caller);

/* Finds the unwinder, which may load a library: where the caller may do that only, and libc is initialised.
   `caller`: as of stack_capture, or NULL. False: no memory. */
bool stack_prepare(const void *caller);

/* The stack from the frame on that `caller` returns into. Thread-safe; allocates nothing. */
void stack_capture(struct stack *s, const void *caller);

/* Takes this library's own frames off the inner end, unless it is part of the program. */
void stack_leave_out_own(struct stack *s);

/* Around fork: is the lock held? In the child. */
bool stack_holds_lock(void);
void stack_after_fork(void);

#endif
