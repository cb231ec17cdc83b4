/* SPDX-License-Identifier: MIT */
/*
 * Real programs, each served by the allocator that serves this workload: a C++ compiler on a file
 * full of templates, python3 (with its own pools, and without), perl, sqlite3, git repack, and xz.
 * Only the programs count: CPU time and peak memory are theirs, as the kernel says when they end.
 *
 * They stand for themselves. An allocator is good at it if it is quick without being asked often
 * (these programs spend 5 to 20 % of their time in malloc and free), puts what is made together
 * together, starts fast, and does not spend memory on threads that never come. Programs that are
 * not installed are named and left out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps_inputs.h"
#include "folder.h"
#include "program.h"
#include "workload.h"

static struct parameter parameters[] = {
	{"PROGRAM", "0: all; 1 cc1plus, 2 python3, 3 python3 without its pools, 4 perl, 5 sqlite3,\n"
		"\t6 git repack, 7 xz", 0, 7, 0},
	{.name = NULL},
};

static struct parameter options[] = {
	{"scale", "percent of the usual amount of work", 1, 10000, 100},
	{.name = NULL},
};

static const struct workload workload = {
	.name = "bench_apps",
	.summary = "real programs, preloaded; an operation is one program; the peak memory is the sum of\n"
		"the programs' peaks",
	.parameters = parameters,
	.options = options,
};

enum { ARGS_MAX = 12 };

struct app {
	const char *name;                 /* in its figures */
	const char *command;              /* looked for in PATH */
	void (*prepare)(uint64_t scale);  /* writes what it works on into the folder */
	const char *trial[ARGS_MAX];      /* arguments that make it end at once */
	const char *args[ARGS_MAX];       /* arguments of its work, in the folder */
	const char *input;                /* file in the folder that it reads, or NULL */
	const char *setting;              /* variable of its environment to be set to `malloc`, or NULL */
};

static void prepare_git(uint64_t scale) {
	char git[PATH_MAX], folder[FOLDER_PATH_MAX], stream[FOLDER_PATH_MAX];
	if (!program_find("git", git))
		return;
	input_repository(scale);
	const char *const init[] = {git, "init", "-q", "--bare", "repository", NULL};
	const char *const import[] = {git, "-C", "repository", "fast-import", "--quiet", NULL};
	struct program program = {.argv = init, .folder = folder_path(folder, "")};
	program_run(&program);
	program.argv = import;
	program.input = folder_path(stream, "stream");
	program_run(&program);
}

/* The driver g++ only starts cc1plus and waits for it. */
static const struct app apps[] = {
	{"cc1plus", "g++", input_cpp, {"-fsyntax-only", "-xc++", "/dev/null"},
		{"-std=gnu++17", "-S", "large.cc"}, NULL, NULL},
	{"python3", "python3", input_python, {"-c", "pass"}, {"job.py"}, NULL, NULL},
	{"python3_malloc", "python3", input_python, {"-c", "pass"}, {"job.py"}, NULL, "PYTHONMALLOC"},
	{"perl", "perl", input_perl, {"-e", "1"}, {"job.pl"}, NULL, NULL},
	{"sqlite3", "sqlite3", input_sql, {"--version"}, {"-batch", "-init", "/dev/null"},
		"job.sql", NULL},
	{"git_repack", "git", prepare_git, {"--version"},
		{"-c", "pack.threads=2", "-C", "repository", "repack", "-adfq"}, NULL, NULL},
	{"xz", "xz", input_text, {"--version"}, {"-9", "-T0", "-c", "text"}, NULL, NULL},
};

enum { APPS = sizeof(apps) / sizeof(apps[0]) };

static bool find(const struct app *app, char path[PATH_MAX]) {
	return strcmp(app->command, "python3") == 0 ? program_find_python(path) : program_find(app->command, path);
}

/* Fills argv with the program and its arguments. */
static const char *const *build_argv(const char *argv[ARGS_MAX + 1], const char *path,
		const char *const args[ARGS_MAX]) {
	argv[0] = path;
	memcpy(argv + 1, args, ARGS_MAX * sizeof(args[0]));
	return argv;
}

/* Proves, prepares and runs one program; its peak goes to `peakp`. False if it is not installed. */
static bool run(const struct app *app, size_t *peakp) {
	char path[PATH_MAX], folder[FOLDER_PATH_MAX], input[FOLDER_PATH_MAX], name[64];
	const char *argv[ARGS_MAX + 1];
	if (!find(app, path))
		return false;
	if (app->setting != NULL)
		setenv(app->setting, "malloc", 1);
	program_prove(build_argv(argv, path, app->trial));
	app->prepare(options[0].value);
	struct program program = {
		.argv = build_argv(argv, path, app->args),
		.folder = folder_path(folder, ""),
		.input = app->input == NULL ? NULL : folder_path(input, app->input),
		.server = SERVER_SAME,
	};
	struct usage usage = program_run(&program);
	if (app->setting != NULL)
		unsetenv(app->setting);
	workload_add(usage.wall, usage.cpu, 1);
	snprintf(name, sizeof(name), "%s_cpu", app->name);
	workload_figure(name, usage.cpu, "s");
	snprintf(name, sizeof(name), "%s_peak", app->name);
	workload_figure(name, (double)usage.peak / (1 << 20), "MiB");
	*peakp = usage.peak;
	return true;
}

/* The user's own settings must not count; git must not work on the user's own repository. */
static void set_environment(void) {
	static const char *const forgotten[] = {"GIT_", "PERL", "PYTHON", "SQLITE_", "XZ_", "XDG_CONFIG_"};
	char folder[FOLDER_PATH_MAX];
	for (size_t i = 0; i < sizeof(forgotten) / sizeof(forgotten[0]); i++)
		program_forget(forgotten[i]);
	setenv("HOME", folder_path(folder, ""), 1);
	setenv("LC_ALL", "C", 1);
	setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
	setenv("PYTHONHASHSEED", "0", 1);
	setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
	setenv("PERL_HASH_SEED", "0", 1);
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	void *block = block_new(64);
	workload_served(block);
	folder_make();
	set_environment();
	size_t sum = 0, peak, ran = 0;
	for (size_t i = 0; i < APPS; i++) {
		if (parameters[0].value != 0 && parameters[0].value != i + 1)
			continue;
		if (!run(&apps[i], &peak)) {
			if (parameters[0].value != 0)
				workload_exit(77, "%s is not installed", apps[i].command);
			fprintf(stderr, "bench_apps: %s is not installed; left out\n", apps[i].command);
			continue;
		}
		sum += peak;
		ran++;
	}
	if (ran == 0)
		workload_exit(77, "no program to run is installed");
	workload_memory(sum, sum);
	block_free(block, 64);
	return workload_end();
}
