/* SPDX-License-Identifier: MIT */
/* New programs: by vfork, posix_spawn, system, popen, from a process under load. */
#include "forks.h"

#include "work.h"
#include "../death/cases.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 40, WHOLE_SECONDS = 60 };

/* Another copy of this program, which itself allocates. */
static char again_name[] = "all_sizes_serve";
static char *again[] = {NULL, again_name, NULL};

/* The child of vfork runs on the parent's memory and thread data: what it takes the parent has. */
static void by_vfork(void)
{
	static void *volatile taken;

	fork_start_load(2);
	for (int i = 0; i < ROUNDS; i++) {
		pid_t child = vfork();

		if (child == 0) {
			taken = malloc(100);
			free(malloc(100000));
			execv(again[0], again);
			_exit(127);
		}
		fork_expect_success(child);
		free(taken);
	}
	work_all_sizes();
}

static void by_posix_spawn(void)
{
	fork_start_load(2);
	for (int i = 0; i < ROUNDS; i++) {
		pid_t child;

		CHECK(posix_spawn(&child, again[0], NULL, NULL, again, environ) == 0);
		fork_expect_success(child);
	}
	work_all_sizes();
}

static void by_system(void)
{
	fork_start_load(2);
	for (int i = 0; i < ROUNDS; i++)
		CHECK(system("x=$(echo some words | cat); test \"$x\" = 'some words'") == 0);
	work_all_sizes();
}

static void by_popen(void)
{
	fork_start_load(2);
	for (int i = 0; i < ROUNDS; i++) {
		char line[64] = "";
		FILE *pipe = popen("echo some words", "re");

		CHECK(pipe);
		CHECK(fgets(line, sizeof line, pipe));
		CHECK(strcmp(line, "some words\n") == 0);
		CHECK(pclose(pipe) == 0);
	}
	work_all_sizes();
}

static void by_exec(void)
{
	fork_start_load(2);
	work_all_sizes();
	execv(again[0], again);
	CHECK(!"exec");
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"vfork_and_exec_work", by_vfork},
		{"posix_spawn_works", by_posix_spawn},
		{"system_works", by_system},
		{"popen_works", by_popen},
		{"exec_under_load_works", by_exec},
		{"all_sizes_serve", work_all_sizes},
		{NULL, NULL},
	};

	again[0] = argv[0];
	alarm(WHOLE_SECONDS);
	return cases_main(argc, argv, cases);
}
