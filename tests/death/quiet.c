/* SPDX-License-Identifier: MIT */
/*
 * Judges correct programs: each case of PROGRAM (see cases.h) must exit 0 and print nothing at all.
 * Usage: quiet SECONDS LIBRARY PROGRAM; "-" as LIBRARY preloads nothing.
 */
#include "child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static unsigned seconds;
static const char *library;
static char *program;
static struct child_result listing;

static void run_case(void **state)
{
	struct child_result result;
	bool quiet;

	child_run(&result, library, (char *[]){program, *state, NULL}, seconds);
	if (child_exited(&result, CHILD_SKIPPED))
		skip();
	quiet = result.out.length == 0 && result.err.length == 0;
	if (!quiet || !child_exited(&result, 0)) {
		child_print(&result);
		fail();
	}
}

/* Of the library under test this asks nothing: the list is made without it. */
static size_t list_cases(struct CMUnitTest *tests, size_t room)
{
	size_t count = 0;

	child_run(&listing, NULL, (char *[]){program, (char[]){"--list"}, NULL}, 60);
	if (!child_exited(&listing, 0)) {
		child_print(&listing);
		return 0;
	}
	for (char *name = strtok(listing.out.text, "\n"); name && count < room;
	     name = strtok(NULL, "\n"))
		tests[count++] = (struct CMUnitTest){
			.name = name, .test_func = run_case, .initial_state = name};
	return count;
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[64]; /* cmocka passes over the nameless */

	if (argc < 4) {
		fprintf(stderr, "usage: quiet SECONDS LIBRARY PROGRAM [PATTERN]\n");
		return 2;
	}
	seconds = (unsigned)atoi(argv[1]);
	library = strcmp(argv[2], "-") == 0 ? NULL : argv[2];
	program = argv[3];
	if (argc > 4)
		cmocka_set_test_filter(argv[4]);
	if (list_cases(tests, sizeof tests / sizeof *tests) == 0)
		return 1;
	return cmocka_run_group_tests_name(program, tests, NULL, NULL);
}
