/* SPDX-License-Identifier: MIT */
#include "listen.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/settings.h"
#include "common.h"

static int saved = -1, file = -1;
static enum on_error before;

void listen_begin(void)
{
	CHECK(saved < 0);
	file = memfd_create("said", MFD_CLOEXEC);
	saved = dup(STDERR_FILENO);
	CHECK(file >= 0 && saved >= 0 && dup2(file, STDERR_FILENO) >= 0);
	before = hak_settings.on_error;
	hak_settings.on_error = ERROR_REPORT;
}

static void cut_frame(char *text)
{
	static const char start[] = "hakmem: ";
	char *end = strstr(text, " in ");

	if (end != NULL)
		*end = '\0';
	if (strncmp(text, start, strlen(start)) == 0)
		memmove(text, text + strlen(start), strlen(text + strlen(start)) + 1);
}

const char *listen_end(void)
{
	static char text[512];
	ssize_t n = pread(file, text, sizeof text - 1, 0);

	hak_settings.on_error = before;
	CHECK(n >= 0 && saved >= 0 && dup2(saved, STDERR_FILENO) >= 0);
	close(saved);
	close(file);
	saved = file = -1;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	cut_frame(text);
	return text;
}

void assert_said_at(const char *in_file, int line, const char *format, ...)
{
	char expected[512];
	va_list args;

	va_start(args, format);
	vsnprintf(expected, sizeof expected, format, args);
	va_end(args);
	_assert_string_equal(listen_end(), expected, in_file, line);
}
