/* SPDX-License-Identifier: MIT */
#include "base/report.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

static bool line_is(const struct line *l, const char *text)
{
	return l->len == strlen(text) && memcmp(l->text, text, l->len) == 0;
}

static void line_begun_names_library(void **state)
{
	struct line l;

	line_begin(&l);
	assert_true(line_is(&l, "hakmem: "));
	line_str(&l, "");
	line_str(&l, "x y");
	assert_true(line_is(&l, "hakmem: x y"));
}

static void line_dec_any_value_as_printf(void **state)
{
	const uint64_t values[] = {0, 9, 10, 1234567890, 10000000000000000000u, UINT64_MAX};

	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		struct line l = {.len = 0};
		char text[32];
		snprintf(text, sizeof text, "%llu", (unsigned long long)values[i]);
		line_dec(&l, values[i]);
		assert_true(line_is(&l, text));
	}
}

static void line_ptr_any_address_as_printf(void **state)
{
	struct line l = {.len = 0};

	line_ptr(&l, NULL);
	assert_true(line_is(&l, "0x0"));
	for (int shift = 0; shift < 64; shift++) {
		char text[32];
		void *p = (void *)((uintptr_t)0x9abcdef012345678 >> shift);
		snprintf(text, sizeof text, "%p", p);
		l.len = 0;
		line_ptr(&l, p);
		assert_true(line_is(&l, text));
	}
}

/* What `write_it` says on standard error in a child, and how that ends. */
static int in_child(void (*write_it)(struct line *l), struct line *l, char *said, size_t room)
{
	int ends[2], status;
	size_t length = 0;
	ssize_t n;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		signal(SIGABRT, SIG_DFL);
		dup2(ends[1], STDERR_FILENO);
		write_it(l);
		_exit(0);
	}
	close(ends[1]);
	while ((n = read(ends[0], said + length, room - 1 - length)) > 0)
		length += (size_t)n;
	said[length] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

/* "[PID]" becomes "[]": the child's number is not ours. */
static void cut_pid(char *text)
{
	char *open = strrchr(text, '['), *close = strrchr(text, ']');

	if (open != NULL && close > open)
		memmove(open + 1, close, strlen(close) + 1);
}

static void line_written_ends_with_program(void **state)
{
	struct line l;
	char said[512], expected[512];

	line_begin(&l);
	line_str(&l, "trouble");
	assert_int_equal(in_child(line_write, &l, said, sizeof said), 0);
	cut_pid(said);
	snprintf(expected, sizeof expected, "hakmem: trouble in %s[]\n", program_invocation_short_name);
	assert_string_equal(said, expected);
}

static void line_too_long_is_cut_to_one_line(void **state)
{
	struct line l;
	char said[1024];

	line_begin(&l);
	for (int i = 0; i < 100; i++)
		line_str(&l, "0123456789");
	line_dec(&l, UINT64_MAX);
	line_ptr(&l, &l);
	assert_int_equal(l.len, sizeof l.text - 1);
	assert_int_equal(in_child(line_write, &l, said, sizeof said), 0);
	assert_int_equal(strlen(said), sizeof l.text);
	assert_ptr_equal(strchr(said, '\n'), said + sizeof l.text - 1);
	assert_memory_equal(said, "hakmem: 0123456789", 18);
}

static void line_die_writes_and_aborts(void **state)
{
	struct line l;
	char said[512];
	int status;

	line_begin(&l);
	line_str(&l, "the end");
	status = in_child(line_die, &l, said, sizeof said);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_memory_equal(said, "hakmem: the end in ", 19);
}

/* Not a point of cancellation, and errno is the program's. */
static void write_unheard(struct line *l)
{
	int old;

	close(STDERR_FILENO);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	pthread_cancel(pthread_self());
	errno = 77;
	line_write(l);
	_exit(errno);
}

static void line_unheard_changes_nothing(void **state)
{
	struct line l;
	char said[512];

	line_begin(&l);
	int status = in_child(write_unheard, &l, said, sizeof said);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(line_begun_names_library),
		cmocka_unit_test(line_dec_any_value_as_printf),
		cmocka_unit_test(line_ptr_any_address_as_printf),
		cmocka_unit_test(line_written_ends_with_program),
		cmocka_unit_test(line_too_long_is_cut_to_one_line),
		cmocka_unit_test(line_die_writes_and_aborts),
		cmocka_unit_test(line_unheard_changes_nothing),
	};

	return UNIT_RUN(tests);
}
