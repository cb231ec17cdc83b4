/* SPDX-License-Identifier: MIT */
#include "cases.h"

#include "child.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int cases_main(int argc, char **argv, const struct test_case *cases)
{
	if (argc < 2)
		return 2;
	if (strcmp(argv[1], "--list") == 0) {
		for (; cases->name; cases++)
			puts(cases->name);
		return 0;
	}
	for (; cases->name; cases++)
		if (strcmp(argv[1], cases->name) == 0) {
			cases->run();
			return 0;
		}
	return 2;
}

static size_t append(char *text, size_t at, size_t room, const char *what)
{
	while (*what && at < room)
		text[at++] = *what++;
	return at;
}

void case_fail(const char *file, int line, const char *what)
{
	char text[512], digits[12];
	size_t at = append(text, 0, sizeof text, file), digit = sizeof digits - 1;

	digits[digit] = '\0';
	do {
		digits[--digit] = (char)('0' + line % 10);
	} while (line /= 10);
	at = append(text, at, sizeof text, ":");
	at = append(text, at, sizeof text, digits + digit);
	at = append(text, at, sizeof text, ": failed: ");
	at = append(text, at, sizeof text - 1, what);
	text[at++] = '\n';
	if (write(STDERR_FILENO, text, at) < 0)
		_exit(3);
	_exit(1);
}

void case_skip(void)
{
	_exit(CHILD_SKIPPED);
}
