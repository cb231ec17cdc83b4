/* SPDX-License-Identifier: MIT */
/* What depends on whether somebody looks: colours, size, refreshing. */
#ifndef HAK_TOOL_SCREEN_H
#define HAK_TOOL_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is standard output a terminal? */
bool screen_is_terminal(void);

/* Are colours wanted: on a terminal, unless NO_COLOR is set or TERM is "dumb"? */
bool screen_has_colour(void);

/* Of the terminal; 24 and 80 if it is none or does not say. */
void screen_size(unsigned *rowsp, unsigned *columnsp);

/* Sleeps; false: the output has gone, stop. */
bool screen_wait(double seconds);

/* On a terminal: the next lines begin at the top of an empty screen. */
void screen_begin(void);

/* "1.5M": at most 6 characters. */
struct amount {
	char text[8];
};
struct amount amount_of(uint64_t bytes);

/* A positive number of seconds. False, after a complaint: it is none. */
bool parse_seconds(const char *command, const char *text, double *secondsp);

#endif
