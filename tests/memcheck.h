/* SPDX-License-Identifier: MIT */
/* Tests that run under memcheck. Every program of the suites unit and api is linked with memcheck.c. */
#ifndef TESTS_MEMCHECK_H
#define TESTS_MEMCHECK_H

#include <stdbool.h>

/* Whether this process is run by memcheck. False where memcheck.h was missing at build time. */
bool on_memcheck(void);

#endif
