/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target: the input is hakmem.conf. Whatever it holds, it is read to its end, values stay within
 * their bounds, and what is printed of a value is understood as the same value. Up to the first NUL
 * it is the file; the strings behind are the environment. A name of a section is held to a matcher
 * so simple that it must be right.
 */
#include "target.h"

#include "abi/conf.h"
#include "abi/conf_file.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define REQUIRE(condition) \
	((condition) ? (void)0 : target_fail(__FILE__, __LINE__, #condition))

enum { ENTRIES = 32 };

static const struct settings *initial(void)
{
	static struct settings settings;
	static bool known;

	if (!known) {
		settings_init();
		settings = hak_settings;
	}
	known = true;
	return &settings;
}

/* Each value, printed and read again, is the same. */
static void check_round_trip(const struct settings *settings)
{
	for (unsigned row = 0; row < CONF_ROWS; row++) {
		struct settings again = *settings;
		struct line line;
		enum conf_row assigned;

		line_begin(&line);
		size_t prefix = line.len;
		conf_print_name(&line, (enum conf_row)row);
		line_str(&line, " = ");
		conf_print_value(&line, (enum conf_row)row, settings);
		struct text text = {line.text + prefix, line.len - prefix};

		REQUIRE(conf_assign(&again, text, &assigned) == CONF_TAKEN && assigned == row);
		REQUIRE(memcmp(&again, settings, sizeof again) == 0);
	}
}

struct reading {
	struct settings settings;
	unsigned last;
};

static void take_line(void *arg, unsigned number, enum conf_verdict verdict, struct text line)
{
	struct reading *reading = arg;
	enum conf_row row;

	REQUIRE(number > reading->last && line.len <= CONF_LINE_MAX + 1);
	reading->last = number;
	if (verdict == CONF_TAKEN) {
		REQUIRE(memchr(line.at, '#', line.len) == NULL && line.len > 0);
		if (conf_assign(&reading->settings, line, &row) == CONF_TAKEN)
			check_round_trip(&reading->settings);
	}
}

/* The environment is at most ENTRIES strings. */
static void split(char *text, size_t length, char **env)
{
	size_t count = 0;

	for (size_t at = 0; at < length && count < ENTRIES - 1; at += strlen(text + at) + 1)
		env[count++] = text + at;
	env[count] = NULL;
}

/* Messages about what was not understood are not of interest. `lines`: what the file's give one by one. */
static void load(const char *path, char **env, const struct settings *lines)
{
	static int null = -1, saved = -1;

	if (null < 0) {
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	}
	hak_settings = *initial();
	dup2(null, STDERR_FILENO);
	conf_load_from(path, env);
	dup2(saved, STDERR_FILENO);
	check_round_trip(&hak_settings);
	if (env[0] == NULL && lines->profile == 0 && lines->limit != LIMIT_CGROUP) /* nothing else has a say */
		REQUIRE(memcmp(&hak_settings, lines, sizeof hak_settings) == 0);
	hak_settings = *initial();
}

static bool matches(const char *p, const char *pend, const char *t, const char *tend)
{
	if (p == pend)
		return t == tend;
	if (*p == '*')
		return matches(p + 1, pend, t, tend) || (t < tend && matches(p, pend, t + 1, tend));
	return t < tend && (*p == '?' || *p == *t) && matches(p + 1, pend, t + 1, tend);
}

/* With a slash, so that the pattern is for the whole path. */
static void check_matcher(const char *text, size_t length)
{
	size_t half = length / 2 < 10 ? length / 2 : 10;
	char pattern[16] = "/";

	memcpy(pattern + 1, text, half);
	struct text p = {pattern, half + 1}, t = {text + half, half};

	REQUIRE(conf_exe_matches(p, t) ==
		matches(pattern, pattern + half + 1, text + half, text + 2 * half));
	pattern[0] = '*';
	pattern[half + 1] = '/';
	p.len = half + 2;
	REQUIRE(conf_exe_matches(p, t) ==
		matches(pattern, pattern + half + 2, text + half, text + 2 * half));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	char *text = malloc(length + 1), *env[ENTRIES], path[64];
	struct reading reading = {.settings = *initial()};
	int fd = memfd_create("conf", MFD_CLOEXEC);

	REQUIRE(text && fd >= 0);
	REQUIRE(fchmod(fd, 0600) == 0); /* a file that others may write is not read */
	memcpy(text, data, length);
	text[length] = '\0';
	check_matcher(text, length);
	size_t end = strlen(text);

	REQUIRE(write(fd, text, end) == (ssize_t)end);
	conf_file_read(fd, take_line, &reading);
	split(text + end, length - end, env);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	load(path, env, &reading.settings);
	close(fd);
	free(text);
	return 0;
}
