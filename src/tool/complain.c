/* SPDX-License-Identifier: MIT */
/* What goes to standard error. */
#include <stdarg.h>

#include "tool/tool.h"

const char *tool_command = "";

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list arguments) {
	fflush(stdout);
	fputs("hakmem: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
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
