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

/* How a row is written: outside processes read it, too (abi/descriptor.c). From KIND_COUNT to KIND_SIGNAL: numbers. */
enum setting_kind { KIND_BOOL, KIND_CHOICE, KIND_PROFILE, KIND_COUNT, KIND_SIZE, KIND_MS, KIND_SIGNAL,
                    KIND_TEXT };

/* Text lies in the rows themselves: pointers to it would have to be relocated in every process. */
struct setting {
	char words[36];
	uint8_t kind;
	uint8_t size;    /* of the field, bytes */
	uint16_t offset;
	int32_t low, high; /* INT32_MAX: any number */
};
extern HAK_HIDDEN const struct setting conf_table[];
enum { CONF_NAME = 20 }; /* bytes of a setting's name, with the NUL */
extern HAK_HIDDEN const char conf_names[][CONF_NAME];
extern HAK_HIDDEN const char conf_profile_names[]; /* separated by spaces */

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
