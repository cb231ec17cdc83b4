/* SPDX-License-Identifier: MIT */
#include "base/text.h"

const char *find_byte(const char *at, const char *end, char byte) {
	while (at < end && *at != byte)
		at++;
	return at;
}
