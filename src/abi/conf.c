/* SPDX-License-Identifier: MIT */
#include "abi/conf.h"

#include <string.h>

#include "base/settings.h"
#include "os/os.h"

enum kind { KIND_BOOL, KIND_SIZE, KIND_MS, KIND_CACHE, KIND_THP };

/* One row per setting: the variable's name without HAKMEM_, in lower case. */
static const struct setting {
	const char *name;
	enum kind kind;
	void *value;
} settings_table[] = {
	{ "disable", KIND_BOOL, &hak_settings.disable },
	{ "wrap_tiny", KIND_BOOL, &hak_settings.wrap_tiny },
	{ "tiny_use_superslab", KIND_BOOL, &hak_settings.use_superslab },
	{ "tiny_ss_adopt", KIND_BOOL, &hak_settings.adopt },
	{ "tiny_cache", KIND_CACHE, &hak_settings.cache_blocks },
	{ "bigcache_l25", KIND_BOOL, &hak_settings.bigcache_l25 },
	{ "bigcache_max", KIND_SIZE, &hak_settings.bigcache_max },
	{ "purge_delay", KIND_MS, &hak_settings.purge_delay_ms },
	{ "thp", KIND_THP, &hak_settings.thp },
};

/* A piece of text, not terminated. */
struct text {
	const char *at;
	size_t len;
};

static char lower(char c) {
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool text_is(struct text t, const char *word) {
	size_t i = 0;
	for (; i < t.len && word[i] != '\0'; i++)
		if (lower(t.at[i]) != word[i])
			return false;
	return i == t.len && word[i] == '\0';
}

static struct text trim(struct text t) {
	while (t.len > 0 && (t.at[0] == ' ' || t.at[0] == '\t'))
		t.at++, t.len--;
	while (t.len > 0 && strchr(" \t\r", t.at[t.len - 1]) != NULL && t.at[t.len - 1] != '\0')
		t.len--;
	return t;
}

static bool parse_bool(struct text t, bool *out) {
	bool yes = text_is(t, "1") || text_is(t, "yes") || text_is(t, "on") || text_is(t, "true");
	bool no = text_is(t, "0") || text_is(t, "no") || text_is(t, "off") || text_is(t, "false");
	if (yes || no)
		*out = yes;
	return yes || no;
}

/* Digits and, of the letters in `suffixes`, at most one, worth the factor at its place. */
static bool parse_scaled(struct text t, const char *suffixes, const uint64_t *factors,
                         uint64_t *out) {
	uint64_t v = 0;
	size_t i = 0;
	for (; i < t.len && t.at[i] >= '0' && t.at[i] <= '9'; i++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(t.at[i] - '0'), &v))
			return false;
	if (i == 0 || t.len - i > 1)
		return false;
	if (t.len - i == 1) {
		const char *s = strchr(suffixes, lower(t.at[i]));
		if (s == NULL || *s == '\0' || __builtin_mul_overflow(v, factors[s - suffixes], &v))
			return false;
	}
	if (v > INT64_MAX)
		return false;
	*out = v;
	return true;
}

static bool parse_size(struct text t, size_t *out) {
	static const uint64_t factors[] = { 1024, 1024 * 1024, 1024 * 1024 * 1024 };
	uint64_t v;
	if (!parse_scaled(t, "kmg", factors, &v))
		return false;
	*out = (size_t)v;
	return true;
}

static bool parse_ms(struct text t, int64_t *out) {
	static const uint64_t factors[] = { 1000 };
	uint64_t v;
	if (text_is(t, "-1")) {
		*out = -1;
		return true;
	}
	if (!parse_scaled(t, "s", factors, &v))
		return false;
	*out = (int64_t)v;
	return true;
}

static bool parse_cache(struct text t, uint32_t *out) {
	size_t v;
	if (text_is(t, "auto")) {
		*out = 0;
		return true;
	}
	if (!parse_size(t, &v) || v < 8 || v > 4096)
		return false;
	*out = (uint32_t)v;
	return true;
}

static bool parse_thp(struct text t, enum thp_mode *out) {
	static const char *const names[] = { "auto", "always", "never" };
	for (int i = 0; i < 3; i++)
		if (text_is(t, names[i])) {
			*out = (enum thp_mode)i;
			return true;
		}
	return false;
}

static bool apply(const struct setting *s, struct text value) {
	switch (s->kind) {
	case KIND_BOOL: return parse_bool(value, s->value);
	case KIND_SIZE: return parse_size(value, s->value);
	case KIND_MS: return parse_ms(value, s->value);
	case KIND_CACHE: return parse_cache(value, s->value);
	case KIND_THP: return parse_thp(value, s->value);
	}
	return false;
}

static void set(struct text name, struct text value) {
	for (size_t i = 0; i < sizeof settings_table / sizeof *settings_table; i++)
		if (text_is(name, settings_table[i].name)) {
			apply(&settings_table[i], value);
			return;
		}
}

/* NAME = VALUE, where `line` has neither comment nor newline. */
static void set_line(struct text line) {
	const char *eq = memchr(line.at, '=', line.len);
	if (eq == NULL)
		return;
	struct text name = { line.at, (size_t)(eq - line.at) };
	struct text value = { eq + 1, line.len - name.len - 1 };
	set(trim(name), trim(value));
}

static void load_file(void) {
	char buf[4096];
	ptrdiff_t len = os_read_file("/etc/hakmem.conf", buf, sizeof buf);
	for (const char *at = buf, *end = buf + (len > 0 ? len : 0); at < end;) {
		const char *nl = memchr(at, '\n', (size_t)(end - at));
		struct text line = { at, (size_t)((nl != NULL ? nl : end) - at) };
		const char *hash = memchr(line.at, '#', line.len);
		if (hash != NULL)
			line.len = (size_t)(hash - line.at);
		if (nl != NULL || len < (ptrdiff_t)sizeof buf) /* else the line was cut */
			set_line(line);
		at += (size_t)((nl != NULL ? nl : end) - at) + 1;
	}
}

static void load_environment(char *const *env) {
	static const char prefix[] = "HAKMEM_";
	for (; *env != NULL; env++)
		if (strncmp(*env, prefix, sizeof prefix - 1) == 0) {
			const char *rest = *env + sizeof prefix - 1;
			set_line((struct text){ rest, strlen(rest) });
		}
}

void conf_load(char *const *env) {
	load_file();
	if (env != NULL && !os_facts.secure)
		load_environment(env);
}
