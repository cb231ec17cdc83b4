/* SPDX-License-Identifier: MIT */
#include "abi/conf_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"
#include "os/os.h"

enum { LINES = 32, KEPT = 48 };

static struct {
	size_t count;
	struct {
		unsigned number;
		enum conf_verdict verdict;
		size_t length;
		char text[KEPT];
	} line[LINES];
} seen;

static void note_line(void *arg, unsigned number, enum conf_verdict verdict, struct text line)
{
	if (seen.count < LINES) {
		size_t n = line.len < KEPT - 1 ? line.len : KEPT - 1;
		seen.line[seen.count].number = number;
		seen.line[seen.count].verdict = verdict;
		seen.line[seen.count].length = line.len;
		memcpy(seen.line[seen.count].text, line.at, n);
		seen.line[seen.count].text[n] = '\0';
	}
	seen.count++;
}

/* A file with these contents, read. */
static void read_bytes(const char *contents, size_t length)
{
	int fd = memfd_create("conf", 0);

	assert_true(fd >= 0);
	assert_true(write(fd, contents, length) == (ssize_t)length);
	memset(&seen, 0, sizeof seen);
	conf_file_read(fd, note_line, NULL);
	close(fd);
}

static void read_text(const char *contents)
{
	read_bytes(contents, strlen(contents));
}

static void assert_line(size_t i, unsigned number, enum conf_verdict verdict, const char *text)
{
	assert_true(i < seen.count);
	assert_int_equal(seen.line[i].number, number);
	assert_int_equal(seen.line[i].verdict, verdict);
	assert_string_equal(seen.line[i].text, text);
}

static void lines_any_ending_trimmed(void **state)
{
	read_text("a = 1\r\n\n  \t\r\n# comment\n\t b=2 # more\r\n#\n c\n\x0b\n=\nlast");
	assert_int_equal(seen.count, 6);
	assert_line(0, 1, CONF_TAKEN, "a = 1");
	assert_line(1, 5, CONF_TAKEN, "b=2");
	assert_line(2, 7, CONF_TAKEN, "c");
	assert_line(3, 8, CONF_TAKEN, "\x0b");
	assert_line(4, 9, CONF_TAKEN, "=");
	assert_line(5, 10, CONF_TAKEN, "last");
}

static void file_empty_gives_nothing(void **state)
{
	read_text("");
	assert_int_equal(seen.count, 0);
	read_text("\n");
	assert_int_equal(seen.count, 0);
}

static void line_with_nul_stays_one_line(void **state)
{
	read_bytes("a=1\0b=2\nc=3\n", 12);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.line[0].length, 7);
	assert_line(1, 2, CONF_TAKEN, "c=3");
}

/* A line of `length` bytes between two short ones. */
static void read_with_line_of(size_t length)
{
	static char text[CONF_FILE_MAX];

	memset(text, 'x', sizeof text);
	memcpy(text, "a=1\n", 4);
	memcpy(text + 4 + length, "\nb=2\n", 5);
	read_bytes(text, 4 + length + 5);
}

static void line_longest_kept_longer_refused(void **state)
{
	static const size_t lengths[] = {CONF_LINE_MAX - 5, CONF_LINE_MAX, CONF_LINE_MAX + 1, CONF_LINE_MAX + 2,
		2 * CONF_LINE_MAX, 2 * CONF_LINE_MAX + 2, 2 * CONF_LINE_MAX + 3, 40000};

	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		bool fits = lengths[i] <= CONF_LINE_MAX;
		read_with_line_of(lengths[i]);
		assert_int_equal(seen.count, 3);
		assert_line(0, 1, CONF_TAKEN, "a=1");
		assert_int_equal(seen.line[1].verdict, fits ? CONF_TAKEN : CONF_LINE_TOO_LONG);
		assert_true(!fits || seen.line[1].length == lengths[i]);
		assert_line(2, 3, CONF_TAKEN, "b=2");
	}
}

static void line_too_long_of_blanks_alone_is_no_header(void **state)
{
	static char text[CONF_LINE_MAX + 100];
	int length = snprintf(text, sizeof text, "a=1\n%*s\nb=2\n", CONF_LINE_MAX + 50, "");

	read_bytes(text, (size_t)length);
	assert_int_equal(seen.count, 3);
	assert_int_equal(seen.line[1].verdict, CONF_LINE_TOO_LONG);
	assert_line(2, 3, CONF_TAKEN, "b=2");
}

/* Whose lines follow cannot be told, so they are nobody's, as below a header that is wrong. */
static void lines_below_a_header_too_long_are_nobodys(void **state)
{
	static char text[CONF_LINE_MAX + 100];
	int length = snprintf(text, sizeof text, "a=1\n \t[exe:/%0*d]\nb=2\n", CONF_LINE_MAX, 0);

	read_bytes(text, (size_t)length);
	assert_int_equal(seen.count, 1);
	assert_line(0, 1, CONF_TAKEN, "a=1");
}

/* Lines of 8 bytes: 8192 fit; the last one that does not is not taken by half either. */
static void file_huge_read_up_to_its_limit(void **state)
{
	enum { COUNT = 10000 };
	static char text[COUNT * 8 + 1];

	for (unsigned i = 0; i < COUNT; i++)
		snprintf(text + (size_t)i * 8, 9, "a=%05u\n", i);
	read_bytes(text, COUNT * 8);
	assert_int_equal(seen.count, CONF_FILE_MAX / 8);
	read_bytes(text + 3, COUNT * 8 - 3);
	assert_int_equal(seen.count, CONF_FILE_MAX / 8);
}

/* And its last line need not end in a newline either. */
static void largest_file_read_to_its_end(void **state)
{
	static char text[CONF_FILE_MAX + 1];

	memset(text, '\n', sizeof text);
	memcpy(text + CONF_FILE_MAX - 3, "a=1", 3);
	read_bytes(text, CONF_FILE_MAX);
	assert_int_equal(seen.count, 1);
	text[CONF_FILE_MAX] = '0'; /* cut off, a line says something else */
	read_bytes(text, CONF_FILE_MAX + 1);
	assert_int_equal(seen.count, 0);
}

static void file_of_noise_ends(void **state)
{
	static char text[2 * CONF_FILE_MAX];
	uint64_t seed = 42;

	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < sizeof text; i++)
			text[i] = (char)next_random(&seed);
		read_bytes(text, sizeof text);
		assert_true(seen.count > 0 && seen.count <= CONF_FILE_MAX);
	}
}

/* ---- sections ---- */

static void pattern_compared_with_path_or_name(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool matches;
	} cases[] = {
		{"/usr/bin/foo", "/usr/bin/foo", true}, {"/usr/bin/foo", "/usr/bin/foobar", false},
		{"/usr/bin/foo", "/opt/usr/bin/foo", false}, {"foo", "/usr/bin/foo", true},
		{"foo", "/usr/bin/foobar", false}, {"foo*", "/usr/bin/foobar", true}, {"foo*", "/usr/bin/foo", true},
		{"foo*", "/foo/bar", false}, {"*", "/usr/bin/foo", true}, {"/usr/*", "/usr/bin/foo", true},
		{"/*/foo", "/usr/bin/foo", true}, {"?oo", "/bin/foo", true}, {"?oo", "/bin/oo", false},
		{"f?o?", "/bin/foo", false}, {"*a*b", "/bin/xaybzb", true}, {"*a*b", "/bin/xaybz", false},
		{"**", "/bin/foo", true}, {"FOO", "/bin/foo", false}, {"foo", "foo", true}, {"", "/bin/foo", false},
		{"*", "", true}, {"?", "", false}, {"/bin/", "/bin/foo", false}, {"./foo", "./foo", true},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(conf_exe_matches(text_of(cases[i].pattern), text_of(cases[i].path)),
			cases[i].matches);
}

/* Backtracking over many stars must not take exponential time. */
static void pattern_hostile_ends(void **state)
{
	char pattern[2001], path[1001];

	for (size_t i = 0; i < sizeof pattern - 1; i++)
		pattern[i] = i % 2 == 0 ? '*' : 'a';
	pattern[sizeof pattern - 1] = 'b';
	memset(path, 'a', sizeof path);
	assert_false(conf_exe_matches((struct text){pattern, sizeof pattern},
		(struct text){path, sizeof path}));
}

static void section_of_this_program_holds(void **state)
{
	char path[1024], text[2048];
	size_t length = os_executable(path, sizeof path);

	assert_true(length > 0);
	path[length] = '\0';
	snprintf(text, sizeof text,
		"a=1\n[exe:/no/such]\nb=2\n[exe:%s]\nc=3\n  [ExE: %s ] # us\nd=4\n[exe:*]\ne=5\n[exe:%s?]\nf=6\n", path,
		strrchr(path, '/') + 1, path);
	read_text(text);
	assert_int_equal(seen.count, 4);
	assert_line(0, 1, CONF_TAKEN, "a=1");
	assert_line(1, 5, CONF_TAKEN, "c=3");
	assert_line(2, 7, CONF_TAKEN, "d=4");
	assert_line(3, 9, CONF_TAKEN, "e=5");
}

/* The name that a program is started with is its caller's choice. */
static void section_by_started_name_not_when_privileged(void **state)
{
	const char *started_as = os_facts.started_as;
	bool secure = os_facts.secure;

	os_facts.started_as = "/some/link";
	os_facts.secure = false;
	read_text("[exe:link]\na=1\n");
	assert_int_equal(seen.count, 1);
	os_facts.secure = true;
	read_text("[exe:link]\na=1\n");
	assert_int_equal(seen.count, 0);
	os_facts.started_as = NULL;
	os_facts.secure = false;
	read_text("[exe:link]\na=1\n");
	assert_int_equal(seen.count, 0);
	os_facts.started_as = started_as;
	os_facts.secure = secure;
}

static void section_malformed_hides_its_lines(void **state)
{
	static const char *const headers[] = {"[", "[]", "[exe:]", "[exe: ]", "[exe:*", "[exe *]", "[exe:*] x", "[*]",
		"[program:*]"};
	char text[64];

	for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
		snprintf(text, sizeof text, "a=1\n%s\nb=2\n[exe:*]\nc=3", headers[i]);
		read_text(text);
		assert_int_equal(seen.count, 3);
		assert_line(1, 2, CONF_BAD_SECTION, headers[i]);
		assert_line(2, 5, CONF_TAKEN, "c=3");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_any_ending_trimmed),
		cmocka_unit_test(file_empty_gives_nothing),
		cmocka_unit_test(line_with_nul_stays_one_line),
		cmocka_unit_test(line_longest_kept_longer_refused),
		cmocka_unit_test(line_too_long_of_blanks_alone_is_no_header),
		cmocka_unit_test(lines_below_a_header_too_long_are_nobodys),
		cmocka_unit_test(file_huge_read_up_to_its_limit),
		cmocka_unit_test(largest_file_read_to_its_end),
		cmocka_unit_test(file_of_noise_ends),
		cmocka_unit_test(pattern_compared_with_path_or_name),
		cmocka_unit_test(pattern_hostile_ends),
		cmocka_unit_test(section_of_this_program_holds),
		cmocka_unit_test(section_by_started_name_not_when_privileged),
		cmocka_unit_test(section_malformed_hides_its_lines),
	};

	return UNIT_RUN(tests);
}
