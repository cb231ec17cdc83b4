/* SPDX-License-Identifier: MIT */
/* Lines for people, on standard error or output. */
#include <limits.h>
#include <stdarg.h>

#include "tool/tool.h"

const char *tool_command = "";

/* Of ASCII, and those that Unicode has beside: what a terminal obeys, and what ends a line. */
static void hide_controls(char *text) {
	for (unsigned char *c = (unsigned char *)text; *c != '\0'; c++) {
		if (c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
			c[1] = '?';
		if (*c < ' ' || *c == 0x7f || (c[0] == 0xc2 && c[1] == '?'))
			*c = '?';
	}
}

/* In what is said may be text from another system's files, or names of files. */
__attribute__((format(printf, 3, 0)))
static void put_line(FILE *to, const char *before, const char *format, va_list arguments) {
	char line[3 * PATH_MAX];
	vsnprintf(line, sizeof line, format, arguments);
	hide_controls(line);
	fprintf(to, "%s%s\n", before, line);
}

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list arguments) {
	fflush(stdout);
	put_line(stderr, "hakmem: ", format, arguments);
}

void tell(const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	put_line(stdout, "", format, arguments);
	va_end(arguments);
}

void complain(const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
}

int misused(const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
	fprintf(stderr, "Try 'hakmem%s%s --help'.\n", tool_command[0] != '\0' ? " " : "", tool_command);
	return TOOL_USAGE;
}

void make_printable(char *text) {
	for (; *text != '\0'; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}
