/* SPDX-License-Identifier: MIT */
/*
 * Runs every case of the misuse program and checks how it dies: by SIGABRT, after exactly one line
 * on standard error, which is one of those that the case announced.
 * Usage: driver MISUSE LIBRARY [PATTERN]
 *        driver MISUSE LIBRARY --table    prints what libc and each level of HAKMEM_SECURE make of each
 */
#include "child.h"

#include <fnmatch.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { CASES_MOST = 512 };

static char *program;
static const char *library;
static struct child_result listing;

/* Cuts "hakmem: WHAT in misuse[PID]\n" down to WHAT; NULL when it is not of that form. */
static char *cut_message(char *text, int pid)
{
	static const char head[] = "hakmem: ";
	char tail[64];
	size_t length = strlen(text);
	size_t tail_length = (size_t)snprintf(tail, sizeof tail, " in misuse[%d]\n", pid);

	if (strncmp(text, head, strlen(head)) != 0 || length < strlen(head) + tail_length)
		return NULL;
	if (strcmp(text + length - tail_length, tail) != 0)
		return NULL;
	text[length - tail_length] = '\0';
	return strchr(text, '\n') ? NULL : text + strlen(head);
}

/* An emulator has something to say of its own about a program that died; and hardened, or verbose, we have
   more to say of the block. */
static void drop_other_lines(char *said)
{
	char *end = strchr(said, '\n');
	const char *level = getenv("HAKMEM_SECURE");

	if (end && (getenv("HAKMEM_TEST_WRAPPER") || (level && atoi(level) >= 2)))
		end[1] = '\0';
}

/* Whether what was said is one of the announced messages, each "PID PATTERN\n". */
static bool is_announced(const struct child_result *result)
{
	char announced[sizeof result->out.text], said[sizeof result->err.text];
	char *message;

	strcpy(announced, result->out.text);
	strcpy(said, result->err.text);
	drop_other_lines(said);
	message = cut_message(said, atoi(announced));
	if (!message)
		return false;
	for (char *line = strtok(announced, "\n"); line; line = strtok(NULL, "\n"))
		if (fnmatch(strchr(line, ' ') + 1, message, 0) == 0)
			return true;
	return false;
}

static void run_case(void **state)
{
	struct child_result result;

	child_run(&result, library, (char *[]){program, *state, NULL}, 60);
	if (child_exited(&result, CHILD_SKIPPED))
		skip();
	if (!child_killed(&result, SIGABRT) || !is_announced(&result)) {
		child_print(&result);
		fail();
	}
}

static size_t list_cases(struct CMUnitTest *tests, size_t room)
{
	static char names[CASES_MOST][96];
	size_t count = 0;

	child_run(&listing, NULL, (char *[]){program, (char[]){"--list"}, NULL}, 60);
	if (!child_exited(&listing, 0))
		return 0;
	for (char *name = strtok(listing.out.text, "\n"); name && count < room;
	     name = strtok(NULL, "\n")) {
		snprintf(names[count], sizeof names[count], "%s_aborts", name);
		tests[count] = (struct CMUnitTest){
			.name = names[count], .test_func = run_case, .initial_state = name};
		count++;
	}
	return count < room ? count : 0; /* there may be more */
}

/* How a case ended: "caught" if it died as it should have, else what happened instead. */
static const char *outcome(const char *preload, char *name)
{
	static char text[32];
	struct child_result result;

	child_run(&result, preload, (char *[]){program, name, NULL}, 60);
	if (result.timed_out)
		return "hangs";
	if (child_exited(&result, CHILD_SKIPPED))
		return "n/a";
	if (preload && child_killed(&result, SIGABRT) && is_announced(&result))
		return "caught";
	if (child_exited(&result, 0))
		return "-";
	if (WIFSIGNALED(result.status))
		snprintf(text, sizeof text, "SIG%s", sigabbrev_np(WTERMSIG(result.status)));
	else
		snprintf(text, sizeof text, "exit %d", WEXITSTATUS(result.status));
	return text;
}

/* Every misuse, the level that must catch it, and what libc and each level do; "-": nothing happens. */
static void print_table(void)
{
	char *rest = listing.out.text, *line;

	child_run(&listing, NULL, (char *[]){program, (char[]){"--list-all"}, NULL}, 60);
	printf("| misuse | caught from | libc | 0 | 1 | 2 | 3 |\n|---|---|---|---|---|---|---|\n");
	while ((line = strtok_r(rest, "\n", &rest)) != NULL) {
		char *level = strchr(line, ' ');

		*level++ = '\0';
		setenv("HAKMEM_GUARD_RATE", strcmp(level, "sampled") == 0 ? "1" : "off", 1);
		printf("| %s | %s | %s |", line, level, outcome(NULL, line));
		for (char at[] = "0"; at[0] <= '3'; at[0]++) {
			setenv("HAKMEM_SECURE", at, 1);
			printf(" %s |", outcome(library, line));
		}
		putchar('\n');
	}
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[CASES_MOST]; /* cmocka passes over the nameless */

	if (argc < 3) {
		fprintf(stderr, "usage: driver MISUSE LIBRARY [PATTERN | --table]\n");
		return 2;
	}
	program = argv[1];
	library = argv[2];
	if (argc > 3 && strcmp(argv[3], "--table") == 0) {
		print_table();
		return 0;
	}
	if (argc > 3)
		cmocka_set_test_filter(argv[3]);
	if (list_cases(tests, sizeof tests / sizeof *tests) == 0)
		return 1;
	return cmocka_run_group_tests_name("death", tests, NULL, NULL);
}
