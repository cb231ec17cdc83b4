/* SPDX-License-Identifier: MIT */
/*
 * The proof of who serves a program: the C library's loader, asked by LD_DEBUG=bindings, writes a
 * line per symbol that it binds, such as
 *
 *	  4711:	binding file xz [0] to /usr/lib/libsome.so [0]: normal symbol `malloc' [GLIBC_2.2.5]
 *
 * into a file per process. Each such line for malloc must lead to our object, and there must be one of the
 * program or of its libraries. The C library's own and the loader's do not count: every program has them, one
 * that has an allocator of its own too.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "program.h"
#include "workload.h"

static const char prefix[] = "bindings";

/* What a line says: who binds malloc to what. */
struct binding {
	char from[PATH_MAX], to[PATH_MAX];
};

/* Copies what stands in `text` before `end`. False: `end` is not there. */
static bool copy_until(char copy[PATH_MAX], const char *text, const char *end) {
	const char *stop = strstr(text, end);
	if (stop == NULL || stop - text >= PATH_MAX)
		return false;
	memcpy(copy, text, (size_t)(stop - text));
	copy[stop - text] = 0;
	return true;
}

/* Reads up to the next line about malloc. False: there is none. */
static bool next_binding(FILE *file, struct binding *b) {
	static const char head[] = "binding file ", between[] = " [0] to ";
	char line[2 * PATH_MAX];
	while (fgets(line, sizeof(line), file) != NULL) {
		const char *from = strstr(line, head), *to = strstr(line, between);
		if (from == NULL || to == NULL || strstr(line, ": normal symbol `malloc'") == NULL)
			continue;
		if (copy_until(b->from, from + strlen(head), between) &&
		    copy_until(b->to, to + strlen(between), " ["))
			return true;
	}
	return false;
}

static bool is_ours(const struct binding *b) {
	char real[PATH_MAX];
	return realpath(b->to, real) != NULL && strcmp(real, program_object()) == 0;
}

static bool is_of_libc(const struct binding *b) {
	char real[PATH_MAX];
	return realpath(b->from, real) != NULL && strcmp(real, program_libc()) == 0;
}

/* A program that is not position-independent and takes malloc's address stands for malloc itself, for
   all others; then it is enough that its own stub leads to our object. */
static bool leads_to_us(const char *path, const char *object) {
	FILE *file = fopen(path, "re");
	struct binding b;
	bool leads = false;
	while (!leads && file != NULL && next_binding(file, &b))
		leads = strcmp(b.from, object) == 0 && is_ours(&b);
	if (file != NULL)
		fclose(file);
	return leads;
}

/* Counts the bindings of malloc in one file of the loader's; ends the workload at a wrong one. */
static size_t count_bindings(const char *path, const char *program) {
	FILE *file = fopen(path, "re");
	if (file == NULL)
		workload_fail("cannot read %s", path);
	size_t bound = 0;
	for (struct binding b; next_binding(file, &b);) {
		if (!is_ours(&b) && !leads_to_us(path, b.to))
			workload_exit(3, "%s: malloc is served by %s, not by %s", program, b.to,
				program_object());
		bound += !is_of_libc(&b);
	}
	fclose(file);
	return bound - (bound > 0); /* the loader's for itself, which it makes in the name of the program */
}

/* The same for all processes of the program; removes the files. */
static size_t count_all(const char *program) {
	char path[FOLDER_PATH_MAX];
	DIR *folder = opendir(folder_path(path, ""));
	if (folder == NULL)
		workload_fail("cannot read %s", path);
	size_t bound = 0;
	struct dirent *entry;
	while ((entry = readdir(folder)) != NULL) {
		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
			continue;
		bound += count_bindings(folder_path(path, entry->d_name), program);
		unlink(path);
	}
	closedir(folder);
	return bound;
}

void program_prove(const char *const *argv) {
	char path[FOLDER_PATH_MAX];
	setenv("LD_DEBUG", "bindings", 1);
	setenv("LD_DEBUG_OUTPUT", folder_path(path, prefix), 1);
	setenv("LD_BIND_NOW", "1", 1); /* a trial may end before it calls */
	program_run(&(struct program){.argv = argv, .server = SERVER_SAME});
	unsetenv("LD_BIND_NOW");
	unsetenv("LD_DEBUG");
	unsetenv("LD_DEBUG_OUTPUT");
	if (count_all(argv[0]) == 0)
		workload_exit(3, "%s: nothing shows that %s serves it", argv[0], program_object());
}
