/* SPDX-License-Identifier: MIT */
/* The temporary folder of a workload, and the process that removes it; see folder.h. */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

static char folder[FOLDER_PATH_MAX / 2];
static pid_t remover;
static int remover_pipe; /* it waits for the end of this one's last copy */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where) {
	remove(path);
	return 0;
}

/* Lives until no process has the other end of the pipe any more; only the workload has it. */
static _Noreturn void wait_and_remove(int pipe_end) {
	setsid(); /* whoever ends the workload's whole group does not mean this one */
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	char byte;
	while (read(pipe_end, &byte, 1) < 0 && errno == EINTR)
		;
	nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	_exit(0);
}

/* At an orderly end the folder is gone before the workload is. */
static void wait_for_remover(void) {
	close(remover_pipe);
	waitpid(remover, NULL, 0);
}

void folder_make(void) {
	const char *parent = getenv("TMPDIR");
	if (parent == NULL || parent[0] != '/')
		parent = "/tmp";
	int length = snprintf(folder, sizeof(folder), "%s/hakmem-bench-XXXXXX", parent);
	if (length >= (int)sizeof(folder))
		workload_fail("TMPDIR is too long: %s", parent);
	if (mkdtemp(folder) == NULL)
		workload_fail("cannot make a folder in %s: %s", parent, strerror(errno));
	int ends[2];
	remover = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
	if (remover < 0)
		workload_fail("cannot start a process: %s", strerror(errno));
	if (remover == 0) {
		close(ends[1]);
		wait_and_remove(ends[0]);
	}
	close(ends[0]);
	remover_pipe = ends[1];
	atexit(wait_for_remover);
}

char *folder_path(char path[FOLDER_PATH_MAX], const char *name) {
	int length = snprintf(path, FOLDER_PATH_MAX, "%s/%s", folder, name);
	if (length >= FOLDER_PATH_MAX)
		workload_fail("the path of %s in %s is too long", name, folder);
	return path;
}

FILE *folder_create(const char *name) {
	char path[FOLDER_PATH_MAX];
	FILE *file = fopen(folder_path(path, name), "we");
	if (file == NULL)
		workload_fail("cannot create %s: %s", path, strerror(errno));
	return file;
}

void folder_close(FILE *file) {
	int failed = ferror(file);
	if (fclose(file) != 0 || failed)
		workload_fail("cannot write a file in %s: %s", folder, strerror(errno));
}
