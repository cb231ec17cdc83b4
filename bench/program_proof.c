/* SPDX-License-Identifier: MIT */
/*
 * The proof of who serves a program: the C library's loader, asked by LD_DEBUG=bindings, writes a
 * line per symbol that it binds, such as
 *
 *	  4711:	binding file xz [0] to /usr/lib/libsome.so [0]: normal symbol `malloc' [GLIBC_2.2.5]
 *
 * into a file per process. Each such line for malloc must name our object, and there must be one.
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

/* The object that `line` says malloc is bound to, cut out of it; NULL: it says nothing of malloc. */
static const char *bound_to(char *line) {
	char *to = strstr(line, " [0] to ");
	if (to == NULL || strstr(line, ": normal symbol `malloc'") == NULL)
		return NULL;
	to += strlen(" [0] to ");
	char *end = strstr(to, " [");
	if (end != NULL)
		*end = 0;
	return to;
}

static bool is_same_file(const char *a, const char *b) {
	char real[PATH_MAX];
	return realpath(a, real) != NULL && strcmp(real, b) == 0;
}

/* Counts the bindings of malloc in one file of the loader's; ends the workload at a wrong one. */
static size_t count_bindings(const char *path, const char *program) {
	FILE *file = fopen(path, "re");
	if (file == NULL)
		workload_fail("cannot read %s", path);
	char line[2 * PATH_MAX];
	size_t bound = 0;
	while (fgets(line, sizeof(line), file) != NULL) {
		const char *object = bound_to(line);
		if (object == NULL)
			continue;
		if (!is_same_file(object, program_object()))
			workload_exit(3, "%s: malloc is served by %s, not by %s", program, object,
				program_object());
		bound++;
	}
	fclose(file);
	return bound;
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
	program_run(&(struct program){.argv = argv, .server = SERVER_SAME});
	unsetenv("LD_DEBUG");
	unsetenv("LD_DEBUG_OUTPUT");
	if (count_all(argv[0]) == 0)
		workload_exit(3, "%s: nothing shows that %s serves it", argv[0], program_object());
}
