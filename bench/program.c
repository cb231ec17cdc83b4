/* SPDX-License-Identifier: MIT */
/* Finding, starting and waiting for programs; see program.h. */
#include "program.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "workload.h"

/* The status of what could not be run and has said why, as of a shell and of the loader. */
enum { NOT_RUN = 127 };

static bool find_in(const char *folders, const char *name, char path[PATH_MAX]) {
	while (*folders != 0) {
		size_t length = strcspn(folders, ":");
		int written = snprintf(path, PATH_MAX, "%.*s/%s", (int)length, folders, name);
		if (length > 0 && written < PATH_MAX && access(path, X_OK) == 0)
			return true;
		folders += length + (folders[length] == ':');
	}
	return false;
}

bool program_find(const char *name, char path[PATH_MAX]) {
	const char *own = getenv("PATH");
	return find_in("/usr/bin:/bin", name, path) || (own != NULL && find_in(own, name, path));
}

bool program_find_python(char path[PATH_MAX]) {
	char found[PATH_MAX];
	const char *const ask[] = {found, "-c", "import sys; print(sys.executable)", NULL};
	return program_find("python3", found) && program_ask(ask, path, PATH_MAX);
}

static Dl_info object_of(const char *symbol) {
	Dl_info info;
	void *address = dlsym(RTLD_DEFAULT, symbol);
	if (address == NULL || dladdr(address, &info) == 0 || info.dli_fname == NULL)
		workload_fail("cannot tell which object file serves %s", symbol);
	return info;
}

/* Into `path`, once. */
static const char *path_of(const char *symbol, char path[PATH_MAX]) {
	if (path[0] == 0 && realpath(object_of(symbol).dli_fname, path) == NULL)
		workload_fail("cannot find the object file that serves %s: %s", symbol, strerror(errno));
	return path;
}

const char *program_object(void) {
	static char path[PATH_MAX];
	return path_of("malloc", path);
}

const char *program_libc(void) {
	static char path[PATH_MAX];
	return path_of("puts", path);
}

bool program_object_is_libc(void) {
	return object_of("malloc").dli_fbase == object_of("puts").dli_fbase;
}

void program_forget(const char *prefix) {
	char name[256];
	for (char **at = environ; *at != NULL;) {
		size_t length = strcspn(*at, "=");
		bool goes = strncmp(*at, prefix, strlen(prefix)) == 0 && length < sizeof(name);
		if (goes) {
			memcpy(name, *at, length);
			name[length] = 0;
			goes = unsetenv(name) == 0; /* what follows has moved up */
		}
		at += !goes;
	}
}

static void redirect(const char *path, int flags, int fd) {
	int file = open(path == NULL ? "/dev/null" : path, flags | O_CLOEXEC, 0600);
	if (file < 0 || dup2(file, fd) < 0)
		workload_exit(NOT_RUN, "cannot open %s: %s", path, strerror(errno));
}

void program_end_with(pid_t parent) {
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(NOT_RUN); /* it died before the line above */
}

/* In the new process. */
static _Noreturn void become(const struct program *program, pid_t parent) {
	program_end_with(parent);
	redirect(program->input, O_RDONLY, STDIN_FILENO);
	redirect(program->output, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
	if (program->folder != NULL && chdir(program->folder) != 0)
		workload_exit(NOT_RUN, "cannot go to %s: %s", program->folder, strerror(errno));
	if (program->server == SERVER_SAME)
		setenv("LD_PRELOAD", program_object(), 1);
	else
		unsetenv("LD_PRELOAD");
	execv(program->argv[0], (char *const *)(uintptr_t)program->argv);
	workload_exit(NOT_RUN, "cannot run %s: %s", program->argv[0], strerror(errno));
}

pid_t program_start(const struct program *program) {
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		workload_fail("cannot start a process: %s", strerror(errno));
	if (pid == 0)
		become(program, parent);
	return pid;
}

static double seconds(struct timeval time) {
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

int program_wait(pid_t pid, struct usage *usage) {
	struct rusage used;
	int status;
	while (wait4(pid, &status, 0, &used) < 0)
		if (errno != EINTR)
			workload_fail("cannot wait for process %d: %s", (int)pid, strerror(errno));
	usage->cpu = seconds(used.ru_utime) + seconds(used.ru_stime);
	usage->peak = (size_t)used.ru_maxrss * 1024;
	usage->faults = used.ru_minflt;
	return status;
}

struct usage program_run(const struct program *program) {
	struct usage usage;
	double begin = wall_seconds();
	int status = program_wait(program_start(program), &usage);
	usage.wall = wall_seconds() - begin;
	if (WIFSIGNALED(status))
		workload_fail("%s was killed by signal %d", program->argv[0], WTERMSIG(status));
	if (WEXITSTATUS(status) == NOT_RUN)
		_exit(1);
	if (WEXITSTATUS(status) != 0)
		workload_fail("%s ended with status %d", program->argv[0], WEXITSTATUS(status));
	return usage;
}

bool program_ask(const char *const *argv, char *line, size_t size) {
	char answer[FOLDER_PATH_MAX];
	struct program program = {.argv = argv, .output = folder_path(answer, "answer")};
	struct usage usage;
	if (program_wait(program_start(&program), &usage) != 0)
		return false;
	FILE *file = fopen(answer, "re");
	if (file == NULL)
		return false;
	bool is_there = fgets(line, (int)size, file) != NULL;
	fclose(file);
	if (is_there)
		line[strcspn(line, "\n")] = 0;
	return is_there && line[0] != 0;
}
