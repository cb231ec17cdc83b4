/* SPDX-License-Identifier: MIT */
/* A piece of text from outside: not terminated, may hold any byte. */
#ifndef HAK_ABI_CONF_TEXT_H
#define HAK_ABI_CONF_TEXT_H

#include <string.h>

#include "base/text.h"

struct text {
	const char *at;
	size_t len;
};

static inline struct text text_of(const char *s) {
	return (struct text){ s, text_length(s) };
}

static inline char text_lower(char c) {
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Whatever the case of `t`; that of `word` is lower. */
static inline bool text_is(struct text t, struct text word) {
	if (t.len != word.len)
		return false;
	for (size_t i = 0; i < t.len; i++)
		if (text_lower(t.at[i]) != word.at[i])
			return false;
	return true;
}

/* The same for a terminated word, which is mostly another one. */
static inline bool text_is_word(struct text t, const char *word) {
	for (size_t i = 0; i < t.len; i++)
		if (text_lower(t.at[i]) != word[i] || word[i] == '\0')
			return false;
	return word[t.len] == '\0';
}

static inline bool text_is_space(char c) {
	return c == ' ' || c == '\t' || c == '\r';
}

static inline struct text text_trim(struct text t) {
	while (t.len > 0 && text_is_space(t.at[0]))
		t.at++, t.len--;
	while (t.len > 0 && text_is_space(t.at[t.len - 1]))
		t.len--;
	return t;
}

/* The place of the first `c`; the length: there is none. */
static inline size_t text_find(struct text t, char c) {
	return (size_t)(find_byte(t.at, t.at + t.len, c) - t.at);
}

/* Cuts off and returns what stands before the first `c`, which goes, too; all of it if there is none.
   False: nothing was left. */
static inline bool text_next(struct text *rest, char c, struct text *part) {
	if (rest->len == 0)
		return false;
	part->at = rest->at;
	part->len = text_find(*rest, c);
	size_t gone = part->len + (part->len < rest->len);
	rest->at += gone;
	rest->len -= gone;
	return true;
}

#endif
