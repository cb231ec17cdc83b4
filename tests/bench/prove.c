/* SPDX-License-Identifier: MIT */
/*
 * Proves of a program who serves it, as the workloads do that run others; and is such a program.
 *
 *	prove PROGRAM [calls]    exit status 0: it is served by what serves this one, 3: it is not
 *	prove calls              is such a program
 *
 * With OWN_ALLOCATOR it is one that has an allocator of its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "program.h"
#include "workload.h"

#ifdef OWN_ALLOCATOR
static char memory[1000];

int main(void) {
	memory[0] = 1;
	return memory[1] == 0 && write(STDOUT_FILENO, memory, 0) == 0 ? 0 : 1;
}
#else
static const struct workload workload = {.name = "prove", .summary = "", .parameters = (struct parameter[]){{.name = NULL}}};

static int calls(void) {
	void *(*volatile call)(size_t) = malloc;
	void *block = call(100);
	free(block);
	return block != NULL ? 0 : 1;
}

int main(int argc, char **argv) {
	if (argc == 2 && strcmp(argv[1], "calls") == 0)
		return calls();
	workload_begin(&workload, 1, argv);
	folder_make();
	program_prove((const char *const[]){argv[1], argc > 2 ? argv[2] : NULL, NULL});
	return 0;
}
#endif
