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

bool preload_remove_ours(struct bytes text, struct bytes *resultp) {
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

bool preload_append(struct bytes text, const char *path, struct bytes *resultp) {
	struct bytes rest;
	if (!preload_remove_ours(text, &rest))
		return false;
	size_t len = strlen(path);
	char *grown = realloc(rest.at, rest.len + len + 2);
	if (grown == NULL)
		return false;
	rest.at = grown;
	if (rest.len > 0 && rest.at[rest.len - 1] != '\n')
		append(&rest, "\n", 1);
	append(&rest, path, len);
	append(&rest, "\n", 1);
	*resultp = rest;
	return true;
}
