/* SPDX-License-Identifier: MIT */
/* The settings, from the library's own table. */
#ifndef HAK_TOOL_SETTINGS_H
#define HAK_TOOL_SETTINGS_H

#include <stdbool.h>

struct setting_info {
	const char *name, *kind, *words, *initial, *meaning;
};
struct profile_info {
	const char *name, *lines;
};

/* Both end with a row without name. */
extern const struct setting_info settings[];
extern const struct profile_info profiles[];

/* Would hakmem.conf be understood with this line? Complains if not, and if that cannot be known, which is no reason
   against it. */
bool settings_are_valid(const char *command, const char *name, const char *value);

#endif
