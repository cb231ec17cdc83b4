/* SPDX-License-Identifier: MIT */
/* What every fuzz target is: libFuzzer's entry, which AFL++ takes, too, and replay.c. */
#ifndef TESTS_TARGET_H
#define TESTS_TARGET_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

/* The input found a fault: says it on standard error and aborts. */
#define target_fail(file, line, what) \
	(fprintf(stderr, "%s:%d: failed: %s\n", file, line, what), abort())

#endif
