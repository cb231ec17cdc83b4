/* SPDX-License-Identifier: MIT */
/* The text of /etc/ld.so.preload. Nothing here looks at the file. */
#include <stdlib.h>
#include <string.h>

#include "tool/preload.h"

static bool is_separator(char c) {
	return c == ' ' || c == '\t' || c == '\n' || c == ':';
}

static size_t end_of_line(struct bytes text, size_t pos) {
	const char *nl = memchr(text.at + pos, '\n', text.len - pos);
	return nl != NULL ? (size_t)(nl - text.at) : text.len;
}

bool preload_next_word(struct bytes text, size_t *posp, struct word *wordp) {
	size_t pos = *posp;
	while (pos < text.len && (is_separator(text.at[pos]) || text.at[pos] == '#'))
		pos = text.at[pos] == '#' ? end_of_line(text, pos) : pos + 1;
	size_t start = pos;
	while (pos < text.len && !is_separator(text.at[pos]) && text.at[pos] != '#')
		pos++;
	*posp = pos;
	*wordp = (struct word){ text.at + start, pos - start };
	return pos > start;
}

bool preload_is_ours(struct word word) {
	static const char name[] = "libhakmem.so";
	const char *slash = memrchr(word.at, '/', word.len);
	size_t skip = slash != NULL ? (size_t)(slash - word.at) + 1 : 0;
	size_t len = sizeof name - 1;
	return word.len - skip >= len && memcmp(word.at + skip, name, len) == 0 &&
		(word.len - skip == len || word.at[skip + len] == '.');
}

bool preload_find_ours(struct bytes text, struct word *wordp) {
	for (size_t pos = 0; preload_next_word(text, &pos, wordp);)
		if (preload_is_ours(*wordp))
			return true;
	return false;
}

static bool is_blank(const char *at, size_t len) {
	for (size_t i = 0; i < len; i++)
		if (!is_separator(at[i]))
			return false;
	return true;
}

bool preload_is_same(struct bytes a, struct bytes b) {
	return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

bool preload_has_content(struct bytes text) {
	return !is_blank(text.at, text.len);
}

static void append(struct bytes *to, const char *from, size_t len) {
	if (len != 0)
		memcpy(to->at + to->len, from, len);
	to->len += len;
}

/* One line, with its newline if it has one. A word goes together with the separators behind it. */
static void append_without_ours(struct bytes *to, struct bytes line) {
	struct word word;
	size_t before = to->len, kept = 0;
	bool found = false;
	for (size_t pos = 0; preload_next_word(line, &pos, &word);) {
		if (!preload_is_ours(word))
			continue;
		found = true;
		append(to, line.at + kept, (size_t)(word.at - line.at) - kept);
		while (pos < line.len && line.at[pos] != '\n' && is_separator(line.at[pos]))
			pos++;
		kept = pos;
	}
	append(to, line.at + kept, line.len - kept);
	if (found && is_blank(to->at + before, to->len - before))
		to->len = before;
}

/* As the loader passes over comments, each takes as much of the file's length as there is up to its end: what lies behind
   the sum is not looked at for comments, so that their words are loaded. How much longer must the text be? */
static size_t missing(struct bytes text) {
	size_t needed = 0;
	for (size_t at = 0; at < text.len; at++)
		if (text.at[at] == '#')
			needed += at = end_of_line(text, at);
	return needed > text.len ? needed - text.len : 0;
}

/* `result`, in which there is room for it, is `text` but for a word of ours, and is to be read as well. */
static bool lengthen(struct bytes *result, struct bytes text) {
	size_t more = missing(text) == 0 ? missing(*result) : 0;
	char *grown = realloc(result->at, result->len + more + 1);
	if (grown == NULL)
		return false;
	memset(grown + result->len, '\n', more);
	*result = (struct bytes){ grown, result->len + more };
	return true;
}

static bool remove_ours(struct bytes text, struct bytes *resultp) {
	struct bytes result = { malloc(text.len + 1), 0 };
	if (result.at == NULL)
		return false;
	for (size_t at = 0, next; at < text.len; at = next) {
		size_t end = end_of_line(text, at);
		next = end < text.len ? end + 1 : end;
		append_without_ours(&result, (struct bytes){ text.at + at, next - at });
	}
	*resultp = result;
	return true;
}

bool preload_remove_ours(struct bytes text, struct bytes *resultp) {
	return remove_ours(text, resultp) && lengthen(resultp, text);
}

bool preload_add(struct bytes text, const char *path, bool is_first, struct bytes *resultp) {
	struct bytes rest;
	if (!remove_ours(text, &rest))
		return false;
	size_t len = strlen(path);
	struct bytes result = { malloc(rest.len + len + 2), 0 };
	if (result.at == NULL)
		return false;
	if (!is_first)
		append(&result, rest.at, rest.len);
	if (result.len > 0 && result.at[result.len - 1] != '\n')
		append(&result, "\n", 1);
	append(&result, path, len);
	append(&result, "\n", 1);
	if (is_first)
		append(&result, rest.at, rest.len);
	*resultp = result;
	return lengthen(resultp, text);
}
