/* SPDX-License-Identifier: MIT */
/*
 * Sees to it that the stress test can fail: it must pass by itself and report each kind of damage,
 * with the seed, by exit status 1. Usage: self_test STRESS LIBRARY
 */
#include "../death/child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *program;
static const char *library;

static void run_spoiled(struct child_result *result, const char *how)
{
	char *argv[] = {program, (char[]){"--seed"}, (char[]){"77"}, (char[]){"--ops"},
		(char[]){"20000"}, (char[]){"--spoil"}, (char[]){"intact           "}, NULL};

	strcpy(argv[6], how);
	child_run(result, library, argv, 60);
}

static void damage_found(void **how)
{
	struct child_result result;
	const char *said = result.err.text;

	run_spoiled(&result, *how);
	if (!child_exited(&result, 1) || !strstr(said, "stress: damaged contents: block 0x") ||
		!strstr(said, "(--seed 77)")) {
		child_print(&result);
		fail();
	}
}

static void intact_run_passes(void **state)
{
	struct child_result result;

	run_spoiled(&result, "intact");
	if (!child_exited(&result, 0) || result.err.length) {
		child_print(&result);
		fail();
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intact_run_passes),
		{"block_overwritten_is_found", damage_found, NULL, NULL, (char[]){"overwritten"}},
		{"block_shared_is_found", damage_found, NULL, NULL, (char[]){"shared"}},
		{"block_cleared_is_found", damage_found, NULL, NULL, (char[]){"cleared"}},
	};

	if (argc != 3)
		return 2;
	program = argv[1];
	library = strcmp(argv[2], "-") == 0 ? NULL : argv[2];
	setenv("HAKMEM_EXPECT", library ? "1" : "0", 1);
	return cmocka_run_group_tests_name("stress self-test", tests, NULL, NULL);
}
