/* SPDX-License-Identifier: MIT */
#include "base/text.h"

size_t text_length(const char *text) {
	size_t length = 0;
	while (text[length] != '\0')
		length++;
	return length;
}

const char *find_byte(const char *at, const char *end, char byte) {
	while (at < end && *at != byte)
		at++;
	return at;
}
