/* SPDX-License-Identifier: MIT */
/*
 * What reading the settings costs a process at its start: 15 microseconds at most with a file of
 * fifty lines, 3 without one. The least of many readings counts, since others use the machine, and
 * the bounds are four times that, since it may be a slow one.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "abi/conf.h"
#include "base/settings.h"

enum { READINGS = 5000, SLOW_MACHINE = 4 };

extern char **environ;

static char path[32];

static FILE *new_file(void)
{
	strcpy(path, "/tmp/hakmem-cost-XXXXXX");
	int fd = mkstemp(path);
	FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;

	assert_non_null(file);
	return file;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Microseconds. */
static double cost_of(const char *file)
{
	struct settings defaults = hak_settings;
	double least = 1e9;

	for (int i = 0; i < READINGS; i++) {
		double begun = now(), took;

		conf_load_from(file, environ);
		took = now() - begun;
		least = took < least ? took : least;
		hak_settings = defaults;
	}
	print_message("%s: %.1f microseconds\n", file, least);
	return least;
}

static void without_a_file(void **state)
{
	(void)state;
	assert_true(cost_of("/nowhere/hakmem.conf") < 3 * SLOW_MACHINE);
}

/* Ten lines of comment, two sections of other programs, and every kind of value. */
static void with_fifty_lines(void **state)
{
	static const char *const lines[] = {"secure = 0", "thp = auto", "purge_delay = 1000",
		"tiny_profile = full", "bigcache_max = 512m", "limit = none", "on_error = report"};
	FILE *file = new_file();

	(void)state;
	for (int i = 0; i < 10; i++)
		fprintf(file, "# What an administrator wants to remember, line %d\n", i);
	for (int i = 0; i < 26; i++)
		fprintf(file, "%s\n", lines[i % (int)(sizeof lines / sizeof *lines)]);
	for (int i = 0; i < 14; i++)
		fprintf(file, i % 7 ? "purge_delay = 500\n" : "[exe:/usr/bin/other*%d]\n", i);
	assert_int_equal(fclose(file), 0);

	double cost = cost_of(path);

	unlink(path);
	assert_true(cost < 15 * SLOW_MACHINE);
}

/* What was measured was read; what is said to other programs was not taken. */
static void lines_were_read(void **state)
{
	FILE *file = new_file();

	(void)state;
	fputs("[exe:other]\npurge_delay = 500\n[exe:*]\non_error = report\n", file);
	assert_int_equal(fclose(file), 0);
	conf_load_from(path, environ);
	unlink(path);
	assert_int_equal(hak_settings.purge_delay_ms, 1000);
	assert_int_equal(hak_settings.on_error, ERROR_REPORT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_file),
		cmocka_unit_test(with_fifty_lines),
		cmocka_unit_test(lines_were_read),
	};

	settings_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
