/* SPDX-License-Identifier: MIT */
/*
 * Lines on standard error, the last words of a process among them, and what else is written when asked for.
 *
 * A line is composed in a buffer on the stack and written with one write(2): nothing here
 * allocates, locks or uses stdio, so it works in signal handlers and with a ruined heap.
 */
#ifndef HAK_BASE_REPORT_H
#define HAK_BASE_REPORT_H

#include "base/compiler.h"

/* Writes all of it. 0, or why the file does not take it; no signal comes of that, be it that nobody reads the pipe or
   that the file may not grow: the program has written nothing. */
int report_write(int fd, const char *text, size_t size);

/* A line being composed; what does not fit is cut. */
struct line {
	char text[256];
	size_t len;
};

/* As printf, of which it knows %s, %p and %zu. */
void line_add(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
void line_str(struct line *l, const char *s);
/* `len` bytes; control characters and what is no ASCII become '?'. */
void line_text(struct line *l, const char *s, size_t len);
void line_dec(struct line *l, uint64_t value);
void line_ptr(struct line *l, const void *p);

/* `pattern` with %p replaced by the id of the process, %e by the name of the program, %% by one of them. False: does
   not fit, or is a relative path, in a program that has more rights than its caller. */
bool report_path(char *path, size_t size, const char *pattern);
/* What follows the last '/'. */
const char *report_file_name(const char *path);
/* The program's name; never NULL. */
const char *report_program(void);

/* "NAME[PID]": the process. */
void line_process(struct line *l);

/* Starts "hakmem: ". */
void line_begin(struct line *l);

/* Ends with " in NAME[PID]" and a newline, and writes the line to standard error. Touches neither errno nor what else is
   a thread's own. */
void line_write(struct line *l);

/* Likewise without that ending. */
void line_write_plain(struct line *l);

/* line_write, then abort(). */
_Noreturn HAK_COLD void line_die(struct line *l);

#endif
