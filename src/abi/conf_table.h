/* SPDX-License-Identifier: MIT */
/* The table of settings: from text to a field of struct settings, and back. */
#ifndef HAK_ABI_CONF_TABLE_H
#define HAK_ABI_CONF_TABLE_H

#include "abi/conf_text.h"
#include "base/report.h"
#include "base/settings.h"

#define SETTING(name, ...) CONF_##name,
enum conf_row {
#include "abi/conf_table.def"
	CONF_ROWS
};
#undef SETTING

/* What became of an assignment or a line. */
enum conf_verdict {
	CONF_TAKEN,
	CONF_NO_EQUALS,
	CONF_UNKNOWN_NAME,
	CONF_BAD_VALUE,
	CONF_OUT_OF_BOUNDS,
	CONF_BAD_SECTION,
	CONF_LINE_TOO_LONG,
};

/* "NAME = VALUE", spaces wherever one likes, into `to`; `rowp` is set if it was taken. */
enum conf_verdict conf_assign(struct settings *to, struct text assignment, enum conf_row *rowp);

/* The lines of a profile; `profile` as in struct settings. */
struct text conf_profile_lines(uint32_t profile);

/* The value is written as conf_assign understands it. */
void conf_print_name(struct line *l, enum conf_row row);
void conf_print_value(struct line *l, enum conf_row row, const struct settings *from);

#endif
