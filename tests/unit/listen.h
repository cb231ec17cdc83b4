/* SPDX-License-Identifier: MIT */
/* What the library says on standard error meanwhile. */
#ifndef UNIT_LISTEN_H
#define UNIT_LISTEN_H

/* Misuse is reported and the program goes on. At most a hundred reports are said by a process. */
void listen_begin(void);

/* The first line since, without "hakmem: " and " in PROGRAM[PID]"; "": nothing. Valid until the next call. */
const char *listen_end(void);

/* listen_end, which must be the text that the format gives. */
#define assert_said(...) assert_said_at(__FILE__, __LINE__, __VA_ARGS__)
void assert_said_at(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
