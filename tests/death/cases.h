/* SPDX-License-Identifier: MIT */
/*
 * A test program made of named cases, each run in a process of its own: `PROGRAM --list` names
 * them, `PROGRAM NAME` runs one. A case that returns has passed. Nothing here allocates or uses
 * stdio once a case runs: what a case does to the allocator is its own doing only.
 */
#ifndef TESTS_CASES_H
#define TESTS_CASES_H

#include <stddef.h>

struct test_case {
	const char *name;
	void (*run)(void);
};

/* What main returns for a program with these cases; a nameless one ends them. */
int cases_main(int argc, char **argv, const struct test_case *cases);

/* Ends the process: exit status 1 and one line on standard error. Async-signal-safe. */
__attribute__((noreturn)) void case_fail(const char *file, int line, const char *what);

/* Ends the process: the case cannot run on this machine. */
__attribute__((noreturn)) void case_skip(void);

#define CHECK(condition) \
	((condition) ? (void)0 : case_fail(__FILE__, __LINE__, #condition))

#endif
