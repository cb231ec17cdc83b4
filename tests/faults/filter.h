/* SPDX-License-Identifier: MIT */
/* seccomp filters made of lists of system calls. */
#ifndef TESTS_FILTER_H
#define TESTS_FILTER_H

#include <stdbool.h>
#include <stddef.h>

/* What a filter lets pass. */
struct filter_calls {
	long numbers[256];
	size_t count;
};

void filter_add(struct filter_calls *calls, long number);

/* What libc's malloc needs while the heap is small: memory, its locks, and a
   random number at its start. */
void filter_add_malloc(struct filter_calls *calls);

/* What hardly any program can do without: to write, to return from a signal handler, to end. */
void filter_add_basic(struct filter_calls *calls);

/* From here on every other call ends the process by SIGSYS. `strict`: so does memory that can be
   executed. False: the system has no seccomp. */
bool filter_install(const struct filter_calls *calls, bool strict);

#endif
