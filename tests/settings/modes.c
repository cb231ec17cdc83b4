/* SPDX-License-Identifier: MIT */
/*
 * Modes are data: whatever the settings, malloc and free that find what they need in the thread's cache run
 * the same instructions, as many as in the default. They are counted one by one, by single steps.
 *
 * Usage: modes PROGRAM LIBRARY; exit status 77 where a process cannot be stepped, unless some mode failed before.
 * PROGRAM (steps.c) stops itself before and after the calls that count; if it ends before, that is a failure.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build_options.h"

#define TEXT(x) #x
#define SETTING_BUILD(option) TEXT(option)

enum { SKIPPED = 77, STEPS_MOST = 10000000 };

static const char *const defaults[][2] = {
#define SETTING(name, kind, field, low, high, words, initial, meaning) {#name, initial},
#include "abi/conf_table.def"
#undef SETTING
};
enum { SETTINGS = sizeof defaults / sizeof *defaults };

static char *program, *library;
static int failed; /* modes */

/* NULL: not set. */
static void set(const char *name, const char *value)
{
	char variable[64] = "HAKMEM_";

	for (size_t i = 0; name[i] != '\0' && i < 50; i++)
		variable[7 + i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i]);
	if (value != NULL)
		setenv(variable, value, 1);
	else
		unsetenv(variable);
}

/* "NAME=VALUE ..."; "defaults": all of them, each as it is anyway. */
static void set_all(char *settings)
{
	char *word, *rest = settings;

	if (strcmp(settings, "defaults") == 0) {
		for (size_t i = 0; i < SETTINGS; i++)
			set(defaults[i][0], defaults[i][1]);
		return;
	}
	while ((word = strtok_r(rest, " ", &rest)) != NULL) {
		char *value = strchr(word, '=');
		*value = '\0';
		set(word, value + 1);
	}
}

static pid_t start(const char *settings)
{
	char text[256];
	pid_t child = fork();

	if (child != 0)
		return child;
	for (size_t i = 0; i < SETTINGS; i++)
		set(defaults[i][0], NULL);
	set("wrap_tiny", "1");
	snprintf(text, sizeof text, "%s", settings);
	set_all(text);
	if (strcmp(settings, "defaults") == 0)
		set("wrap_tiny", "1"); /* the build's default may be libc */
	setenv("LD_PRELOAD", library, 1);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(SKIPPED);
	if (freopen("/dev/null", "w", stderr) == NULL)
		_exit(127);
	execv(program, (char *[]){program, NULL});
	_exit(127);
}

/* Until the child stops, for whatever reason: which. If it ends instead so do we. */
static int await_stop(const char *settings, pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("modes");
		exit(1);
	}
	if (WIFSTOPPED(status))
		return WSTOPSIG(status);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED && failed == 0) {
		puts("skipped: no process can be stepped here");
		exit(SKIPPED);
	}
	fprintf(stderr, "modes: %s: the program ends before it stops, with %s %d\n", *settings ? settings : "the default",
		WIFEXITED(status) ? "status" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	exit(1);
}

/* Runs on until the program stops itself. */
static void run_to_stop(const char *settings, pid_t child)
{
	do {
		if (ptrace(PTRACE_CONT, child, NULL, NULL) != 0) {
			perror("modes: PTRACE_CONT");
			exit(1);
		}
	} while (await_stop(settings, child) != SIGSTOP);
}

static long steps_with(const char *settings)
{
	int status;
	long steps = 0;
	pid_t child = start(settings);

	await_stop(settings, child); /* as it begins the program */
	ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_EXITKILL);
	run_to_stop(settings, child);
	do {
		if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0 || waitpid(child, &status, 0) != child ||
				!WIFSTOPPED(status) || ++steps > STEPS_MOST) {
			fprintf(stderr, "modes: %s: the program does not stop again\n", settings);
			exit(1);
		}
	} while (WSTOPSIG(status) != SIGSTOP);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return steps;
}

int main(int argc, char **argv)
{
	static const char *const modes[] = {"defaults", "profile=lean", "profile=throughput", "profile=larson_guard",
		"profile=mixed_tinyv3_c7_safe", "stats=1 crash_report=1", "background=1 purge_delay=1", "limit=1g",
		"tiny_use_superslab=0", "tiny_ready=0 tiny_ss_adopt=0 ss_empty_reuse=0 warm_tls_bind_c7=0",
		"tiny_policy_log=1 tiny_warm_log=1 tiny_pagebox_log=1"};
	long expected, steps;

	if (argc != 3) {
		fprintf(stderr, "usage: modes PROGRAM LIBRARY\n");
		return 2;
	}
	if (getenv("HAKMEM_TEST_WRAPPER") != NULL)
		return SKIPPED; /* no ptrace in emulators */
	program = argv[1];
	library = argv[2];
	expected = steps_with("");
	if (steps_with("disable=1") == expected) {
		printf("FAILED: libc's allocator cannot be told from ours\n");
		failed++;
	}
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		steps = steps_with(modes[i]);
		printf("%s: %s: %ld steps, %ld in the default\n", steps == expected ? "ok" : "FAILED", modes[i],
			steps, expected);
		failed += steps != expected;
	}
	return failed != 0;
}
