/* SPDX-License-Identifier: MIT */
/* The command line of the stress test. */
#ifndef TESTS_STRESS_OPTIONS_H
#define TESTS_STRESS_OPTIONS_H

#include "block.h"

#include <stdbool.h>

struct options {
	unsigned long long seed; /* from the clock unless given */
	long threads;
	long ops;    /* by all threads together; of each round when there are `seconds` */
	int seconds; /* 0: until the operations are done */
	enum block_spoiling spoil;
};

/* False, with the usage printed, when the command line is no good. */
bool options_parse(struct options *options, int argc, char **argv, long max_threads);

#endif
