/* SPDX-License-Identifier: MIT */
/* A workload's arguments and end. */
#include "workload_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

const struct workload *workload_self;
bool workload_json;

static char out[1 << 16];

static _Noreturn void end(int status, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

/* The first thread that comes here ends the program, the others wait for that. */
static _Noreturn void end(int status, const char *format, va_list args) {
	static atomic_flag ending = ATOMIC_FLAG_INIT;
	char line[1024];
	while (atomic_flag_test_and_set(&ending))
		pause();
	int head = snprintf(line, sizeof(line), "%s: ", workload_self->name);
	vsnprintf(line + head, sizeof(line) - (size_t)head - 1, format, args);
	for (char *at = line; (at = strchr(at, '\n')) != NULL;)
		*at = '?'; /* an argument may have any character */
	strcat(line, "\n");
	_exit(write(STDERR_FILENO, line, strlen(line)) < 0 ? 1 : status);
}

void workload_exit(int status, const char *format, ...) {
	va_list args;
	va_start(args, format);
	end(status, format, args);
}

void workload_fail(const char *format, ...) {
	va_list args;
	va_start(args, format);
	end(1, format, args);
}

void workload_refuse(const char *format, ...) {
	va_list args;
	va_start(args, format);
	end(2, format, args);
}

void block_fail(const void *block, size_t size) {
	if (block == NULL)
		workload_fail("malloc(%zu) failed", size);
	workload_fail("the block of %zu bytes at %p is damaged", size, block);
}

static void print_list(const struct parameter *p, const char *before, const char *after) {
	for (; p != NULL && p->name != NULL; p++)
		printf("  %s%s%s\t%s, %" PRIu64 " to %" PRIu64 " (%" PRIu64 ")\n", before, p->name, after,
			p->meaning, p->low, p->high, p->value);
}

static _Noreturn void usage(void) {
	const struct workload *w = workload_self;
	printf("Usage: %s [OPTION]...", w->name);
	for (const struct parameter *p = w->parameters; p != NULL && p->name != NULL; p++)
		printf(" [%s]", p->name);
	printf("\n%s\n\n", w->summary);
	print_list(w->parameters, "", "");
	print_list(w->options, "--", "=N");
	fputs("  --json\tprint one JSON object on one line\n"
		"  --expect=PATH\tfail unless that object file's malloc serves; libc: the C library's\n"
		"  --help\tprint this\n", stdout);
	exit(fflush(stdout) == 0 ? 0 : 1);
}

static void set(struct parameter *p, const char *text) {
	char *end;
	errno = 0;
	uint64_t value = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != 0)
		workload_exit(2, "%s: '%s' is not a number", p->name, text);
	if (errno != 0 || value < p->low || value > p->high)
		workload_exit(2, "%s: %s is not from %" PRIu64 " to %" PRIu64, p->name, text, p->low,
			p->high);
	p->value = value;
}

static void set_option(const char *text) {
	size_t length = strcspn(text, "=");
	for (struct parameter *p = workload_self->options; p != NULL && p->name != NULL; p++) {
		if (strlen(p->name) != length || strncmp(p->name, text, length) != 0)
			continue;
		if (text[length] == 0)
			workload_exit(2, "--%s needs a value: --%s=N", p->name, p->name);
		set(p, text + length + 1);
		return;
	}
	workload_exit(2, "unknown option '--%s'; --help lists them", text);
}

void workload_begin(const struct workload *workload, int argc, char **argv) {
	workload_self = workload;
	setvbuf(stdout, out, _IOFBF, sizeof(out)); /* or stdio would take it from malloc */
	const char *expected = NULL;
	struct parameter *next = workload->parameters;
	for (int i = 1; i < argc; i++) {
		const char *arg = argv[i];
		if (strcmp(arg, "--help") == 0)
			usage();
		if (strcmp(arg, "--json") == 0)
			workload_json = true;
		else if (strncmp(arg, "--expect=", 9) == 0)
			expected = arg + 9;
		else if (strncmp(arg, "--", 2) == 0)
			set_option(arg + 2);
		else if (next == NULL || next->name == NULL)
			workload_exit(2, "surplus argument '%s'; --help lists them", arg);
		else
			set(next++, arg);
	}
	proof_begin(expected);
}

int workload_end(void) {
	const struct measures *measures = measures_end();
	const struct proof *proof = proof_end();
	(workload_json ? report_json : report_text)(measures, proof);
	if (fflush(stdout) != 0)
		workload_exit(1, "cannot write the results: %s", strerror(errno));
	return 0;
}
