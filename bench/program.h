/* SPDX-License-Identifier: MIT */
/*
 * Programs that a workload runs, served by the allocator that serves the workload itself: the
 * object file that malloc resolves to here is preloaded there.
 */
#ifndef HAK_BENCH_PROGRAM_H
#define HAK_BENCH_PROGRAM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Who serves a program's malloc. */
enum server {
	SERVER_DEFAULT, /* what the program has without a preload */
	SERVER_SAME,    /* the workload's allocator; the C library's wins over one that is linked in */
};

struct program {
	const char *const *argv; /* argv[0] is a path; ended by NULL */
	const char *folder;      /* to run in; NULL: where the workload runs */
	const char *input;       /* file to read, and file to write; NULL: none */
	const char *output;
	enum server server;
};

/* Seconds, bytes, and page faults that needed no input or output, of a program that ended and of the
   processes that it waited for; `peak` is that of the largest one. */
struct usage {
	double wall, cpu;
	size_t peak;
	long faults;
};

/* Writes the path of the program `name` to `path`: the system's, else the first in PATH; false if there is none. What a
   user has in front of the system's would be another program on each machine. */
bool program_find(const char *name, char path[PATH_MAX]);

/* The same for python3, by its real path: the one found may be a script that starts it. Needs the folder. */
bool program_find_python(char path[PATH_MAX]);

/* The path of the object that serves malloc in this process, and whether that is the C library. */
const char *program_object(void);
bool program_object_is_libc(void);

/* The path of the C library. */
const char *program_libc(void);

/* Removes the variables whose names begin with `prefix` from the environment: the user's own settings of a
   program must not count, nor lead it to the user's own files. */
void program_forget(const char *prefix);

/* In a new process, before it runs a program: it is killed when `parent` ends, which started it; ends it now if that
   has ended already. Leaves memory alone, so it may be called after vfork. */
void program_end_with(pid_t parent);

/* Starts a program. It is killed if the workload ends before it. */
pid_t program_start(const struct program *program);

/* Waits for the end of `pid`; returns its wait status. `wall` is left alone. */
int program_wait(pid_t pid, struct usage *usage);

/* Runs a program to its end; ends the workload if it fails. */
struct usage program_run(const struct program *program);

/* Ends the workload with status 3 unless the loader says that the calls of malloc in this program
   are bound to the workload's allocator. `argv` should make the program end soon. Needs the
   folder. */
void program_prove(const char *const *argv);

/* Runs a program as it is and writes the first line it prints, without the newline, to `line`;
   false if it fails or prints nothing. Needs the folder. */
bool program_ask(const char *const *argv, char *line, size_t size);

#endif
