/* SPDX-License-Identifier: MIT */
#include "abi/conf_table.h"

#include <signal.h>

#include "build_options.h"

#define SETTING(name, kind, field, low, high, words, text, meaning) \
	{ words, KIND_##kind, sizeof(((struct settings *)0)->field), \
	  offsetof(struct settings, field), low, (int32_t)((high) == INT64_MAX ? INT32_MAX : (high)) },
const struct setting conf_table[] = {
#include "abi/conf_table.def"
};
#undef SETTING
static_assert(sizeof conf_table / sizeof *conf_table <= 64, "sets of rows are 64-bit masks");

/* By themselves: every process that has a file of settings searches them, with cold caches. */
#define SETTING(name, ...) #name,
const char conf_names[][CONF_NAME] = {
#include "abi/conf_table.def"
};
#undef SETTING

#define PROFILE(name, lines) lines,
static const char profile_lines[][144] = {
#include "abi/conf_table.def"
};
#undef PROFILE

#define PROFILE(name, lines) #name " "
const char conf_profile_names[] =
#include "abi/conf_table.def"
	;
#undef PROFILE

static const char bool_words[] = "0 1 no yes off on false true";

struct text conf_profile_lines(uint32_t profile) {
	return text_of(profile_lines[profile]);
}

/* ---- numbers and words ---- */

static bool is_number(const struct setting *s) {
	return s->kind >= KIND_COUNT && s->kind <= KIND_SIGNAL;
}

static struct text words_of(const struct setting *s) {
	switch (s->kind) {
	case KIND_BOOL: return text_of(bool_words);
	case KIND_PROFILE: return text_of(conf_profile_names);
	default: return text_of(s->words);
	}
}

/* What the first word means: 0, unless that is a number of its own. */
static int64_t first_word(const struct setting *s) {
	return is_number(s) && s->low <= 0 ? s->low - 1 : 0;
}

/* What `t` means if it is one of the words. */
static bool find_word(const struct setting *s, struct text t, int64_t *valuep) {
	struct text rest = words_of(s), word;
	for (int64_t i = first_word(s); text_next(&rest, ' ', &word); i++)
		if (text_is(t, word)) {
			*valuep = s->kind == KIND_BOOL ? i & 1 : i;
			return true;
		}
	return false;
}

/* What the letter behind a number multiplies it with; 0: no such unit. */
static int64_t factor_of(const struct setting *s, char unit) {
	if (s->kind == KIND_MS)
		return unit == 's' ? 1000 : 0;
	if (s->kind == KIND_SIZE)
		return unit == 'k' ? (int64_t)HAK_KIB : unit == 'm' ? (int64_t)HAK_MIB :
			unit == 'g' ? (int64_t)HAK_GIB : 0;
	return 0;
}

/* All but SIGKILL, SIGSTOP, the two that libc keeps to itself, and those of faults: the instruction would be tried
   again and again. */
static bool can_be_asked_by(int64_t signal) {
	const uint64_t not_by = (uint64_t)1 << SIGKILL | (uint64_t)1 << SIGSTOP | (uint64_t)3 << 32 |
		(uint64_t)1 << SIGSEGV | (uint64_t)1 << SIGBUS | (uint64_t)1 << SIGFPE | (uint64_t)1 << SIGILL |
		(uint64_t)1 << SIGTRAP;
	return (not_by >> (signal & 63) & 1) == 0;
}

/* A number that is no number for its size alone is out of bounds. */
static enum conf_verdict parse_number(const struct setting *s, struct text t, int64_t *valuep) {
	bool negative = t.len > 0 && t.at[0] == '-', overflow = false;
	size_t first = negative, i = first;
	int64_t v = 0, factor = 1;
	for (; i < t.len && t.at[i] >= '0' && t.at[i] <= '9'; i++)
		overflow |= __builtin_mul_overflow(v, 10, &v) ||
			__builtin_add_overflow(v, t.at[i] - '0', &v);
	if (i == first || t.len - i > 1)
		return CONF_BAD_VALUE;
	if (i < t.len)
		factor = factor_of(s, text_lower(t.at[i]));
	if (factor == 0)
		return CONF_BAD_VALUE;
	overflow |= __builtin_mul_overflow(v, negative ? -factor : factor, &v);
	if (overflow || v < s->low || (v > s->high && s->high != INT32_MAX) || (negative && v == 0))
		return CONF_OUT_OF_BOUNDS;
	if (s->kind == KIND_SIGNAL && !can_be_asked_by(v))
		return CONF_OUT_OF_BOUNDS;
	*valuep = v;
	return CONF_TAKEN;
}

/* Text is taken as it is, if it is any. */
static enum conf_verdict take_text(const struct setting *s, struct text t, struct settings *to) {
	char *field = (char *)to + s->offset;
	for (size_t i = 0; i < t.len; i++)
		if ((unsigned char)t.at[i] < ' ')
			return CONF_BAD_VALUE;
	if (t.len == 0 || t.len >= s->size)
		return t.len == 0 ? CONF_BAD_VALUE : CONF_OUT_OF_BOUNDS;
	memset(field, 0, s->size);
	memcpy(field, t.at, t.len);
	return CONF_TAKEN;
}

static enum conf_verdict parse(const struct setting *s, struct text t, int64_t *valuep) {
	if (find_word(s, t, valuep))
		return CONF_TAKEN;
	return is_number(s) ? parse_number(s, t, valuep) : CONF_BAD_VALUE;
}

/* ---- fields ---- */

static void put(const struct setting *s, struct settings *to, int64_t value) {
	char *field = (char *)to + s->offset;
	if (s->size == sizeof(bool))
		*(bool *)field = value != 0;
	else if (s->size == sizeof(uint32_t))
		memcpy(field, &(uint32_t){ (uint32_t)value }, sizeof(uint32_t));
	else
		memcpy(field, &value, sizeof value);
}

static int64_t get(const struct setting *s, const struct settings *from) {
	const char *field = (const char *)from + s->offset;
	uint32_t narrow;
	int64_t value;
	if (s->size == sizeof(bool))
		return *(const bool *)field;
	if (s->size == sizeof narrow) {
		memcpy(&narrow, field, sizeof narrow);
		return narrow;
	}
	memcpy(&value, field, sizeof value);
	return value;
}

/* ---- rows ---- */

enum conf_verdict conf_assign(struct settings *to, struct text assignment, enum conf_row *rowp) {
	struct text name, value = assignment;
	if (!text_next(&value, '=', &name) || name.len == assignment.len)
		return CONF_NO_EQUALS;
	name = text_trim(name);
	value = text_trim(value);
	for (unsigned row = 0; row < CONF_ROWS; row++) {
		if (!text_is_word(name, conf_names[row]))
			continue;
		const struct setting *s = &conf_table[row];
		int64_t v;
		enum conf_verdict verdict = s->kind == KIND_TEXT ? take_text(s, value, to) : parse(s, value, &v);
		if (verdict == CONF_TAKEN) {
			if (s->kind != KIND_TEXT)
				put(s, to, v);
			*rowp = (enum conf_row)row;
		}
		return verdict;
	}
	return CONF_UNKNOWN_NAME;
}

void conf_print_name(struct line *l, enum conf_row row) {
	line_str(l, conf_names[row]);
}

void conf_print_value(struct line *l, enum conf_row row, const struct settings *from) {
	const struct setting *s = &conf_table[row];
	if (s->kind == KIND_TEXT) {
		line_str(l, (const char *)from + s->offset);
		return;
	}
	int64_t v = get(s, from);
	struct text rest = words_of(s), word;
	for (int64_t i = first_word(s); text_next(&rest, ' ', &word); i++)
		if (i == v) {
			line_text(l, word.at, word.len);
			return;
		}
	if (v < 0)
		line_str(l, "-");
	line_dec(l, v < 0 ? -(uint64_t)v : (uint64_t)v);
}
