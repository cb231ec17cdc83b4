/* SPDX-License-Identifier: MIT */
/* A SIGTRAP after each instruction. Known here for x86-64 alone. */
#ifndef TESTS_STEP_H
#define TESTS_STEP_H

#if defined(__x86_64__)

#include <ucontext.h>

enum { STEP_TRAP = 0x100 }; /* in the flags */

/* From here on, in the calling thread. Inline, so that what is stepped through is the caller's own. */
static inline __attribute__((always_inline)) void step_begin(void)
{
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
}

static inline __attribute__((always_inline)) void step_end(void)
{
	__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

/* By the signal's handler: no more of them once it returns. */
static inline void step_no_more(void *context)
{
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~STEP_TRAP;
}

#endif
#endif
