/* SPDX-License-Identifier: MIT */
#include "base/report.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "base/syscall.h"
#include "base/text.h"

static void line_char(struct line *l, char c) {
	if (l->len < sizeof l->text - 1) /* one byte stays for the newline */
		l->text[l->len++] = c;
}

void line_str(struct line *l, const char *s) {
	while (*s != '\0')
		line_char(l, *s++);
}

void line_text(struct line *l, const char *s, size_t len) {
	for (size_t i = 0; i < len; i++)
		line_char(l, s[i] >= ' ' && s[i] <= '~' ? s[i] : '?');
}

void line_dec(struct line *l, uint64_t value) {
	char digits[20];
	int n = 0;
	do
		digits[n++] = (char)('0' + value % 10);
	while ((value /= 10) != 0);
	while (n > 0)
		line_char(l, digits[--n]);
}

void line_ptr(struct line *l, const void *p) {
	uintptr_t v = (uintptr_t)p;
	int shift = 60;
	line_str(l, "0x");
	while (shift > 0 && (v >> shift) == 0)
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		line_char(l, "0123456789abcdef"[v >> shift & 15]);
}

void line_add(struct line *l, const char *format, ...) {
	va_list args;
	va_start(args, format);
	for (; *format != '\0'; format++) {
		if (*format != '%') {
			line_char(l, *format);
			continue;
		}
		switch (*++format) {
		case 's': line_str(l, va_arg(args, const char *)); break;
		case 'p': line_ptr(l, va_arg(args, const void *)); break;
		default:
			line_dec(l, va_arg(args, size_t));
			format++; /* of "zu" */
		}
	}
	va_end(args);
}

void line_begin(struct line *l) {
	l->len = 0;
	line_str(l, "hakmem: ");
}

const char *report_file_name(const char *path) {
	const char *name = path;
	while (*path != '\0')
		if (*path++ == '/')
			name = path;
	return name;
}

HAK_COLD static const char *program_file(void) {
	static char path[256]; /* always the same is written */
	long n = raw4(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path, sizeof path - 1);
	return n > 0 ? report_file_name(path) : "?";
}

/* By the path that was executed: over the first argument many a server writes a title. But /dev/fd/3 and /proc/self/exe
   say nothing, and with more rights than the caller it is not up to the caller. */
const char *report_program(void) {
	const char *path = (const char *)getauxval(AT_EXECFN), *name = path != NULL ? report_file_name(path) : "";
	return getauxval(AT_SECURE) != 0 || name[0] <= '9' || is_same_text(name, "exe") ? program_file() : name;
}

static uint64_t process_id(void) {
	return (uint64_t)raw3(SYS_getpid, 0, 0, 0);
}

bool report_path(char *path, size_t size, const char *pattern) {
	if (pattern[0] != '/' && getauxval(AT_SECURE) != 0) /* the caller's folder */
		return false;
	struct line number = { .len = 0 };
	line_dec(&number, process_id());
	for (; *pattern != '\0'; pattern++) {
		char c = pattern[0] == '%' ? pattern[1] : '\0';
		const char *add = c == 'p' ? number.text : c == 'e' ? report_program() : pattern;
		size_t len = c == 'p' ? number.len : c == 'e' ? text_length(add) : 1;
		if (len >= size)
			return false;
		memcpy(path, add, len);
		path += len;
		size -= len;
		pattern += c == 'p' || c == 'e' || c == '%';
	}
	*path = '\0';
	return true;
}

void line_process(struct line *l) {
	const char *name = report_program();
	line_text(l, name, text_length(name)); /* what would look like a line of its own, or steer a terminal, does not come through */
	line_char(l, '[');
	line_dec(l, process_id());
	line_char(l, ']');
}

HAK_NOINLINE int report_write(int fd, const char *text, size_t size) {
	uint64_t signals = 1u << (SIGPIPE - 1) | 1u << (SIGXFSZ - 1), before = signals, waiting;
	const struct timespec no_time = { 0 };
	long n = 0;
	raw4(SYS_rt_sigprocmask, SIG_BLOCK, (long)&signals, (long)&before, sizeof signals);
	waiting = before & signals; /* only what is blocked can wait */
	if (waiting != 0)
		raw3(SYS_rt_sigpending, (long)&waiting, sizeof waiting, 0);
	for (; size > 0; text += n, size -= (size_t)n) {
		while ((n = raw3(SYS_write, fd, (long)text, (long)size)) == -EINTR)
			continue;
		if (n <= 0)
			break;
	}
	signals &= ~waiting; /* what waited before is the program's */
	if (n < 0)
		raw4(SYS_rt_sigtimedwait, (long)&signals, 0, (long)&no_time, sizeof signals);
	raw4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before);
	if (size > 0)
		return n < 0 ? (int)-n : EIO;
	return 0;
}

void line_write(struct line *l) {
	line_str(l, " in ");
	line_process(l);
	line_write_plain(l);
}

HAK_NOINLINE void line_write_plain(struct line *l) {
	l->text[l->len++] = '\n';
	report_write(STDERR_FILENO, l->text, l->len); /* if it fails nobody is listening; nothing better can be done */
}

void line_die(struct line *l) {
	line_write(l);
	abort();
}
