/* SPDX-License-Identifier: MIT */
/* malloc_info: a well-formed XML document, onto any kind of stream. */
#include "common.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DEPTH = 16, MAX_NAME = 32 };

static const char *skip_space(const char *at)
{
	while (isspace((unsigned char)*at))
		at++;
	return at;
}

/* Past the name at `at`, which is copied to `name`; NULL if there is none. */
static const char *read_name(const char *at, char *name)
{
	size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:");

	if (length == 0 || length >= MAX_NAME || !(isalpha((unsigned char)*at) || *at == '_'))
		return NULL;
	memcpy(name, at, length);
	name[length] = 0;
	return at + length;
}

/* Past the attributes `name="value"` at `at`; NULL if one is malformed. */
static const char *skip_attributes(const char *at)
{
	char name[MAX_NAME];

	for (at = skip_space(at); *at && *at != '>' && *at != '/'; at = skip_space(at)) {
		at = read_name(at, name);
		if (!at || at[0] != '=' || at[1] != '"')
			return NULL;
		at += 2 + strcspn(at + 2, "\"<&");
		if (*at++ != '"')
			return NULL;
	}
	return at;
}

/* True if `text` is one element named `root` with nothing but space around it. A subset of XML
   without comments, entities and processing instructions suffices here. */
static bool is_well_formed(const char *text, const char *root)
{
	char open[MAX_DEPTH][MAX_NAME], name[MAX_NAME];
	int depth = 0;
	const char *at = skip_space(text);

	do {
		bool closing = at[0] == '<' && at[1] == '/';
		if (*at != '<' || depth == MAX_DEPTH)
			return false;
		at = read_name(at + 1 + closing, name);
		if (!at || (depth == 0 && (closing || strcmp(name, root) != 0)))
			return false;
		if (closing) {
			if (strcmp(name, open[--depth]) != 0)
				return false;
			at = skip_space(at);
		} else {
			strcpy(open[depth++], name);
			at = skip_attributes(at);
			if (!at)
				return false;
			if (*at == '/') {
				depth--;
				at++;
			}
		}
		if (*at++ != '>')
			return false;
		at += strcspn(at, "<&>");
	} while (depth > 0);
	return *skip_space(at) == 0;
}

static void checker_malformed_text_refused(void **state)
{
	assert_true(is_well_formed("<malloc version=\"1\">\n<a/><b c=\"d\" >text</b>\n</malloc>\n", "malloc"));
	assert_true(is_well_formed("<malloc/>", "malloc"));
	assert_false(is_well_formed("", "malloc"));
	assert_false(is_well_formed("<other/>", "malloc"));
	assert_false(is_well_formed("<malloc><a></malloc></a>", "malloc"));
	assert_false(is_well_formed("<malloc><a></malloc>", "malloc"));
	assert_false(is_well_formed("<malloc a=1></malloc>", "malloc"));
	assert_false(is_well_formed("<malloc a=\"1></malloc>", "malloc"));
	assert_false(is_well_formed("<malloc/><malloc/>", "malloc"));
	assert_false(is_well_formed("<malloc>a & b</malloc>", "malloc"));
	assert_false(is_well_formed("</malloc>", "malloc"));
}

static void malloc_info_memory_stream_well_formed(void **state)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size); /* it allocates while malloc_info writes */
	void *small = malloc(100), *large = malloc(16 * MIB);

	assert_true(stream && small && large);
	assert_int_equal(malloc_info(0, stream), 0);
	assert_int_equal(fclose(stream), 0);
	assert_true(is_well_formed(text, "malloc"));
	assert_non_null(strstr(text, "version=\""));
	free(text);
	free(small);
	free(large);
}

static void malloc_info_file_well_formed(void **state)
{
	static char text[1 << 20];
	FILE *stream = tmpfile();

	assert_non_null(stream);
	assert_int_equal(malloc_info(0, stream), 0);
	rewind(stream);
	text[fread(text, 1, sizeof(text) - 1, stream)] = 0;
	fclose(stream);
	assert_true(is_well_formed(text, "malloc"));
}

/* The manual says -1 and errno, glibc gives the code itself. */
static int info_error(int result)
{
	return result == -1 ? errno : result;
}

static void malloc_info_unknown_option_einval(void **state)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	assert_int_equal(info_error(malloc_info(1, stream)), EINVAL);
	assert_int_equal(info_error(malloc_info(-1, stream)), EINVAL);
	assert_int_equal(fclose(stream), 0);
	assert_int_equal(size, 0);
	free(text);
}

static void malloc_info_full_stream_fails(void **state)
{
	FILE *stream = on_hakmem() ? fopen("/dev/full", "w") : NULL; /* glibc does not tell */

	if (stream == NULL)
		skip();
	setbuf(stream, NULL);
	assert_int_equal(malloc_info(0, stream), -1);
	fclose(stream);
}

static void malloc_info_older_error_not_told(void **state)
{
	FILE *stream = tmpfile();
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	if (stream == NULL || full < 0)
		skip();
	int file = dup(fileno(stream));
	setbuf(stream, NULL);
	assert_true(dup2(full, fileno(stream)) >= 0);
	assert_int_equal(fputc('x', stream), EOF);
	assert_true(dup2(file, fileno(stream)) >= 0);
	assert_int_equal(malloc_info(0, stream), 0);
	close(file);
	close(full);
	fclose(stream);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checker_malformed_text_refused),
		cmocka_unit_test(malloc_info_memory_stream_well_formed),
		cmocka_unit_test(malloc_info_file_well_formed),
		cmocka_unit_test(malloc_info_unknown_option_einval),
		cmocka_unit_test(malloc_info_full_stream_fails),
		cmocka_unit_test(malloc_info_older_error_not_told),
	};

	return RUN_TESTS(tests);
}
