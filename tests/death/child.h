/* SPDX-License-Identifier: MIT */
/*
 * Runs a program with a library preloaded and gathers what it wrote and how it ended. The caller
 * itself is never preloaded, so a broken library cannot break the judge.
 */
#ifndef TESTS_CHILD_H
#define TESTS_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Exit status of a program that cannot run its case on this machine. */
#define CHILD_SKIPPED 77

struct child_text {
	char text[32768]; /* its beginning, terminated by NUL */
	size_t length;    /* all that was written; may be more than fits `text` */
};

struct child_result {
	pid_t pid;
	int status;     /* as waitpid gives it */
	bool timed_out; /* ended by us, with everything it had started */
	struct child_text out, err;
};

/* Runs argv[0] with `preload` (NULL: none) as LD_PRELOAD for at most `seconds`, standard input
   empty, no core dumps. A command in HAKMEM_TEST_WRAPPER, such as "qemu-aarch64 -L DIR", is put in
   front. Ends the test program if even that fails. */
void child_run(struct child_result *result, const char *preload, char *const argv[],
	unsigned seconds);

/* Whether the child returned `code` from main by itself. */
bool child_exited(const struct child_result *result, int code);

/* Whether the child was ended by `signal`. */
bool child_killed(const struct child_result *result, int signal);

/* Prints how the child ended and what it wrote, for a failed test. */
void child_print(const struct child_result *result);

#endif
