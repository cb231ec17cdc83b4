/* SPDX-License-Identifier: MIT */
/* What the parts of the command `hakmem` share: how a command looks, and how it complains. */
#ifndef HAK_TOOL_TOOL_H
#define HAK_TOOL_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Exit codes, as `hakmem --help` lists them. `hakmem run` ends as its program does, or with
   TOOL_NOT_RUN or TOOL_NOT_FOUND. */
enum tool_exit {
	TOOL_OK = 0,
	TOOL_FAILED = 1,        /* it did not work: the line on standard error says why */
	TOOL_USAGE = 2,         /* not understood */
	TOOL_NO_PROCESS = 3,    /* no such process, or it ended meanwhile */
	TOOL_NO_PERMISSION = 4,
	TOOL_NO_HAKMEM = 5,     /* the process does not use HAKMEM */
	TOOL_OTHER_VERSION = 6, /* it uses one that this command cannot read */
	TOOL_NOT_RUN = 126,
	TOOL_NOT_FOUND = 127,
};

/* A word behind `hakmem`. `run` gets the arguments from that word on, as main would, and its result is
   the exit code. `--help` behind the word is answered with `usage` before `run` is asked. */
struct command {
	const char *name;
	const char *summary; /* a few words, lower case, no full stop */
	const char *usage;   /* whole lines; the first is "usage: hakmem NAME ..." */
	int (*run)(int argc, char **argv);
};

/* The name of the one that runs; "" before it does. */
extern const char *tool_command;

/* One line "hakmem: ..." on standard error. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/* One line on standard output, in which there may be what is not known to be plain text. */
__attribute__((format(printf, 1, 2))) void tell(const char *format, ...);

/* complain, then how to get help; TOOL_USAGE. */
__attribute__((format(printf, 1, 2))) int misused(const char *format, ...);

/* Puts '?' for what is not plain ASCII: text from another process may be made for our terminal. */
void make_printable(char *text);

#endif
