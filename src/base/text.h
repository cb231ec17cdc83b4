/* SPDX-License-Identifier: MIT */
/* Instead of functions of libc's that are little used here: each would be a symbol more for the loader to look up as
   every process starts. */
#ifndef HAK_BASE_TEXT_H
#define HAK_BASE_TEXT_H

#include <string.h>

#include "base/compiler.h"

static inline bool begins_with(const char *text, const char *start) {
	while (*start != '\0')
		if (*text++ != *start++)
			return false;
	return true;
}

static inline bool is_same_text(const char *a, const char *b) {
	while (*a != '\0' && *a == *b)
		a++, b++;
	return *a == *b;
}

size_t text_length(const char *text);

/* Where the first is in [at, end); `end`: there is none. */
const char *find_byte(const char *at, const char *end, char byte);

/* Copies it with its NUL. Where that lies now. */
static inline char *append_text(char *to, const char *text) {
	size_t length = text_length(text);
	return (char *)memcpy(to, text, length + 1) + length;
}

#endif
