/* SPDX-License-Identifier: MIT */
/* Every row of the table of settings, by the table itself. */
#include "abi/conf_table.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "build_options.h"
#include "common.h"

#define STRING(x) #x
#define SETTING_BUILD(option) STRING(option)

enum kind { BOOL, CHOICE, PROFILE, TEXT, COUNT, SIZE, MS, SIGNAL };

static const struct row {
	const char *name;
	enum kind kind;
	size_t offset, size;
	int64_t low, high;
	const char *words, *initial, *meaning;
} rows[] = {
#define SETTING(name, kind, field, low, high, words, initial, meaning) \
	{#name, kind, offsetof(struct settings, field), sizeof((struct settings){0}.field), low, high, \
		words, initial, meaning},
#include "abi/conf_table.def"
#undef SETTING
};

static const char *const profiles[] = {
#define PROFILE(name, lines) #name,
#include "abi/conf_table.def"
#undef PROFILE
};
enum { PROFILES = sizeof profiles / sizeof *profiles };

static struct settings fresh;

static enum conf_verdict assign(struct settings *to, const char *name, const char *value)
{
	char text[128];
	enum conf_row row;

	snprintf(text, sizeof text, "%s=%s", name, value);
	return conf_assign(to, text_of(text), &row);
}

/* What `row` holds in `from`. */
static int64_t value_in(const struct settings *from, const struct row *row)
{
	const char *at = (const char *)from + row->offset;

	return row->size == 1 ? *(const uint8_t *)at : row->size == 4 ? *(const uint32_t *)(const void *)at :
		*(const int64_t *)(const void *)at;
}

static bool is_number(const struct row *row)
{
	return row->kind >= COUNT;
}

static void default_each_row_is_fresh_value(void **state)
{
	for (unsigned i = 0; i < CONF_ROWS; i++) {
		struct settings s;
		memset(&s, 0xaa, sizeof s);
		assert_int_equal(assign(&s, rows[i].name, rows[i].initial), CONF_TAKEN);
		assert_true(value_in(&s, &rows[i]) == value_in(&fresh, &rows[i]));
	}
}

static void row_assigned_changes_only_its_field(void **state)
{
	for (unsigned i = 0; i < CONF_ROWS; i++) {
		struct settings s;
		memset(&s, 0, sizeof s);
		memset((char *)&s + rows[i].offset, 0x01, rows[i].size);
		assert_int_equal(assign(&s, rows[i].name, rows[i].initial), CONF_TAKEN);
		for (size_t at = 0; at < sizeof s; at++)
			assert_true(((char *)&s)[at] == 0 || at - rows[i].offset < rows[i].size);
	}
}

static void row_any_has_name_and_meaning(void **state)
{
	for (unsigned i = 0; i < CONF_ROWS; i++) {
		struct line l = {.len = 0};
		conf_print_name(&l, (enum conf_row)i);
		assert_int_equal(l.len, strlen(rows[i].name));
		assert_memory_equal(l.text, rows[i].name, l.len);
		assert_true(strlen(rows[i].meaning) > 10);
		for (unsigned other = 0; other < i; other++)
			assert_string_not_equal(rows[i].name, rows[other].name);
	}
}

static void number_at_bounds_taken_beyond_refused(void **state)
{
	for (unsigned i = 0; i < CONF_ROWS; i++) {
		const struct row *row = &rows[i];
		struct settings s = fresh;
		char value[32];
		if (!is_number(row))
			continue;
		for (int high = 0; high < 2; high++) {
			int64_t bound = high ? row->high : row->low;
			snprintf(value, sizeof value, "%" PRId64, bound);
			assert_int_equal(assign(&s, row->name, value), CONF_TAKEN);
			assert_true(value_in(&s, row) == bound);
			if (bound == INT64_MAX)
				strcpy(value, "9223372036854775808");
			else
				snprintf(value, sizeof value, "%" PRId64, high ? bound + 1 : bound - 1);
			assert_int_equal(assign(&s, row->name, value), CONF_OUT_OF_BOUNDS);
			assert_true(value_in(&s, row) == bound);
		}
	}
}

static void word_each_taken_as_its_place(void **state)
{
	for (unsigned i = 0; i < CONF_ROWS; i++) {
		char words[128], *rest = words, *word;
		strcpy(words, rows[i].words);
		int64_t first = is_number(&rows[i]) && rows[i].low <= 0 ? rows[i].low - 1 : 0;
		for (int64_t place = first; (word = strtok_r(rest, " ", &rest)) != NULL; place++) {
			struct settings s = fresh;
			assert_int_equal(assign(&s, rows[i].name, word), CONF_TAKEN);
			assert_true(value_in(&s, &rows[i]) == place);
		}
	}
}

static void value_not_understood_refused(void **state)
{
	static const char *const bad[] = {"", " ", "#", "-", "+1", "0x10", "1 2", "1e3", "2-", "--1", "-0",
		"yess", "ye", "1kk", "1t", "k", "autoauto", "aut", "default lean", "\x01", "\xff\xfe",
		"18446744073709551617", "99999999999999999999999999999999999999999", "17179869184g",
		"9223372036854775807s", "-9223372036854775809"};

	for (unsigned i = 0; i < CONF_ROWS; i++)
		for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
			struct settings s = fresh;
			if (rows[i].kind == TEXT)
				continue;
			enum conf_verdict verdict = assign(&s, rows[i].name, bad[b]);
			assert_true(verdict == CONF_BAD_VALUE || verdict == CONF_OUT_OF_BOUNDS);
			assert_memory_equal(&s, &fresh, sizeof s);
		}
}

static void unit_of_another_kind_refused(void **state)
{
	struct settings s = fresh;

	assert_int_equal(assign(&s, "tiny_cache", "1k"), CONF_BAD_VALUE);
	assert_int_equal(assign(&s, "bigcache_max", "1s"), CONF_BAD_VALUE);
	assert_int_equal(assign(&s, "purge_delay", "1m"), CONF_BAD_VALUE);
	assert_memory_equal(&s, &fresh, sizeof s);
}

static void signal_taken_if_it_can_be_caught_and_is_no_faults(void **state)
{
	static const char *const names[] = {"stats_signal", "sample_signal"};

	for (int number = 1; number <= 64; number++)
		for (int i = 0; i < 2; i++) {
			struct sigaction action;
			struct settings s = fresh;
			char value[8];
			snprintf(value, sizeof value, "%d", number);
			bool can = sigaction(number, NULL, &action) == 0 && number != SIGKILL && number != SIGSTOP;
			bool of_fault = number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
				number == SIGTRAP;
			assert_int_equal(assign(&s, names[i], value), can && !of_fault ? CONF_TAKEN : CONF_OUT_OF_BOUNDS);
		}
}

static void text_taken_if_it_fits(void **state)
{
	static char longest[SETTING_TEXT + 16] = "sample_file=";
	struct settings s = fresh;
	enum conf_row row;

	memset(longest + 12, 'x', SETTING_TEXT);
	assert_int_equal(conf_assign(&s, (struct text){longest, 12 + SETTING_TEXT}, &row), CONF_OUT_OF_BOUNDS);
	assert_int_equal(assign(&s, "sample_file", ""), CONF_BAD_VALUE);
	assert_int_equal(assign(&s, "sample_file", "a\tb"), CONF_BAD_VALUE);
	assert_memory_equal(&s, &fresh, sizeof s);
	assert_int_equal(conf_assign(&s, (struct text){longest, 11 + SETTING_TEXT}, &row), CONF_TAKEN);
	assert_int_equal(strlen(s.sample_file), SETTING_TEXT - 1);
	assert_int_equal(assign(&s, "sample_file", " a %p/b "), CONF_TAKEN);
	assert_string_equal(s.sample_file, "a %p/b");
}

static void text_with_nul_refused(void **state)
{
	static const char after[] = "thp=never\0", amid[] = "thp=nev\0er", name[] = "th\0p=never";
	struct settings s = fresh;
	enum conf_row row;

	assert_int_equal(conf_assign(&s, (struct text){after, 10}, &row), CONF_BAD_VALUE);
	assert_int_equal(conf_assign(&s, (struct text){amid, 10}, &row), CONF_BAD_VALUE);
	assert_int_equal(conf_assign(&s, (struct text){name, 10}, &row), CONF_UNKNOWN_NAME);
	assert_memory_equal(&s, &fresh, sizeof s);
}

static void value_of_a_megabyte_refused(void **state)
{
	enum { SIZE_BYTES = 1 << 20 };
	static char text[SIZE_BYTES] = "bigcache_max=";
	struct settings s = fresh;
	enum conf_row row;

	memset(text + 13, '9', sizeof text - 13);
	assert_int_equal(conf_assign(&s, (struct text){text, sizeof text}, &row), CONF_OUT_OF_BOUNDS);
	memset(text, 'a', 13);
	assert_int_equal(conf_assign(&s, (struct text){text, sizeof text}, &row), CONF_NO_EQUALS);
	assert_memory_equal(&s, &fresh, sizeof s);
}

/* What is printed is understood again, as the same. */
static void value_printed_reads_back(void **state)
{
	static const char *const values[] = {"0", "1", "-1", "8", "77", "4096", "12345678901", "auto",
		"always", "never", "none", "lean", "throughput", "3g", "7s"};

	for (unsigned i = 0; i < CONF_ROWS; i++)
		for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
			struct settings s = fresh, again = fresh;
			struct line l = {.len = 0};
			if (assign(&s, rows[i].name, values[v]) != CONF_TAKEN)
				continue;
			conf_print_value(&l, (enum conf_row)i, &s);
			l.text[l.len] = '\0';
			assert_int_equal(assign(&again, rows[i].name, l.text), CONF_TAKEN);
			assert_memory_equal(&again, &s, sizeof s);
		}
}

static void profile_each_line_is_understood(void **state)
{
	for (unsigned i = 0; i < PROFILES; i++) {
		struct settings s = fresh;
		assert_int_equal(assign(&s, "profile", profiles[i]), CONF_TAKEN);
		assert_int_equal(s.profile, i);
		struct text rest = conf_profile_lines(i), line;
		while (text_next(&rest, '\n', &line)) {
			enum conf_row row = CONF_profile;
			assert_int_equal(conf_assign(&s, line, &row), CONF_TAKEN);
			assert_int_not_equal(row, CONF_profile);
		}
		assert_int_equal(memcmp(&s, &fresh, sizeof s) == 0, i == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(default_each_row_is_fresh_value),
		cmocka_unit_test(row_assigned_changes_only_its_field),
		cmocka_unit_test(row_any_has_name_and_meaning),
		cmocka_unit_test(number_at_bounds_taken_beyond_refused),
		cmocka_unit_test(word_each_taken_as_its_place),
		cmocka_unit_test(value_not_understood_refused),
		cmocka_unit_test(unit_of_another_kind_refused),
		cmocka_unit_test(signal_taken_if_it_can_be_caught_and_is_no_faults),
		cmocka_unit_test(text_taken_if_it_fits),
		cmocka_unit_test(text_with_nul_refused),
		cmocka_unit_test(value_of_a_megabyte_refused),
		cmocka_unit_test(value_printed_reads_back),
		cmocka_unit_test(profile_each_line_is_understood),
	};

	settings_init();
	fresh = hak_settings;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
