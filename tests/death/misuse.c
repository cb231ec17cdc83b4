/* SPDX-License-Identifier: MIT */
#include "misuse.h"

#include "cases.h"
#include "child.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *suffix;
	unsigned flag;
	size_t size;
} sizes[] = {
	{"_small", SIZE_SMALL, 48},
	{"_medium", SIZE_MEDIUM, 12 << 10},
	{"_large", SIZE_LARGE, 100 << 10},
	{"_huge", SIZE_HUGE, 3 << 20},
};

static const struct misuse *const groups[] = {twice_cases, entry_cases, pointer_cases,
	mosaic_cases, link_cases, hardened_cases};

void expect(const char *format, ...)
{
	char line[256];
	int at = snprintf(line, sizeof line, "%d ", (int)getpid());
	va_list arguments;

	va_start(arguments, format);
	at += vsnprintf(line + at, sizeof line - (size_t)at, format, arguments);
	va_end(arguments);
	line[at++] = '\n';
	CHECK(write(STDOUT_FILENO, line, (size_t)at) == at);
}

void expect_double_free(const void *ptr, size_t usable)
{
	expect("double free of %p (%zu-byte block)", ptr, usable);
}

static int setting(const char *variable)
{
	const char *value = getenv(variable);

	return value ? atoi(value) : 0;
}

/* Canaries alone say what was asked for, and they go with the slab. */
static bool has_canaries(void)
{
	return setting("HAKMEM_SECURE") >= 2;
}

void expect_late_double_free(const void *ptr, size_t usable)
{
	if (is_large(usable) || has_canaries())
		expect("double free of %p (*-byte block)", ptr);
	else
		expect_double_free(ptr, usable);
	expect("free of invalid pointer %p", ptr);
}

void expect_interior(const char *what, const void *ptr, void *block)
{
	expect("%s of interior pointer %p (%zu-byte block at %p)", what, ptr,
		malloc_usable_size(block), block);
}

void *take(size_t size)
{
	void *ptr = malloc(size);

	CHECK(ptr);
	return ptr;
}

bool is_large(size_t size)
{
	return size > 32 << 10;
}

void in_thread(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, run, argument) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
}

void *lookup(const char *name)
{
	void *function = dlsym(RTLD_DEFAULT, name);

	if (!function)
		case_skip();
	return function;
}

/* With every small block between guard pages the cases of that sort alone are of interest. */
static bool is_caught(const struct misuse *misuse)
{
	if (setting("HAKMEM_GUARD_RATE") == 1)
		return misuse->level == GUARDED;
	return misuse->level <= (unsigned)setting("HAKMEM_SECURE");
}

static void print_case(const struct misuse *misuse, const char *suffix, bool with_level)
{
	printf("%s%s", misuse->name, suffix);
	if (with_level)
		printf(misuse->level == GUARDED ? " sampled" : " %u", misuse->level);
	putchar('\n');
}

/* Those that the settings in the environment must catch; or all of them, with the level that does. */
static void list_cases(const struct misuse *group, bool all)
{
	for (; group->name; group++) {
		if (!all && !is_caught(group))
			continue;
		if (group->sizes == SIZE_NONE)
			print_case(group, "", all);
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
			if (group->sizes & sizes[i].flag)
				print_case(group, sizes[i].suffix, all);
	}
}

static void run_case(const struct misuse *group, const char *name)
{
	for (; group->name; group++) {
		size_t length = strlen(group->name);

		if (strncmp(name, group->name, length) != 0)
			continue;
		if (group->sizes == SIZE_NONE && name[length] == '\0')
			group->run(0);
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
			if (group->sizes & sizes[i].flag && strcmp(name + length, sizes[i].suffix) == 0)
				group->run(sizes[i].size);
	}
}

/* Exit status 0 says that the misuse went unpunished. */
int main(int argc, char **argv)
{
	bool all = argc == 2 && strcmp(argv[1], "--list-all") == 0;
	bool list = all || (argc == 2 && strcmp(argv[1], "--list") == 0);

	if (argc != 2)
		return 2;
	for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
		if (list)
			list_cases(groups[i], all);
		else
			run_case(groups[i], argv[1]);
	return 0;
}
