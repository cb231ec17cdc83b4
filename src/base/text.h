/* SPDX-License-Identifier: MIT */
/* What libc's string functions would do where it is seldom needed: each of theirs is a symbol more that the loader
   looks up as every process starts. */
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
	size_t length = strlen(b);
	return strlen(a) == length && memcmp(a, b, length) == 0;
}

/* The end of what was copied, where its NUL is. */
static inline char *append_text(char *to, const char *text) {
	size_t length = strlen(text);
	return (char *)memcpy(to, text, length + 1) + length;
}

#endif
