/* SPDX-License-Identifier: MIT */
/*
 * `hakmem` as it is started. The commands that look into processes need the library and are in a second
 * program, hakmem-tool, which this one becomes. `hakmem preload` is here, in a program that needs libc
 * alone: it must be able to take a library that is missing out of /etc/ld.so.preload.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "tool/commands.h"

/* Beside this program, as in a build folder, or where it is installed. */
static void become_tool(char **argv) {
	char path[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", path, sizeof path - sizeof "hakmem-tool");
	if (len > 0) {
		path[len] = '\0';
		strcpy(strrchr(path, '/') + 1, "hakmem-tool");
		execv(path, argv);
	}
	execv(HAK_TOOL_PATH, argv);
}

static int preload(int argc, char **argv) {
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		fputs(command_preload.usage, stdout);
		return TOOL_OK;
	}
	tool_command = command_preload.name;
	return command_preload.run(argc, argv);
}

int main(int argc, char **argv) {
	if (argc > 1 && strcmp(argv[1], "preload") == 0) {
		int code = preload(argc - 1, argv + 1);
		if (fflush(stdout) == 0 && !ferror(stdout))
			return code;
		complain("standard output: %m");
		return code != TOOL_OK ? code : TOOL_FAILED;
	}
	become_tool(argv);
	complain("%s: %m", HAK_TOOL_PATH);
	return TOOL_FAILED;
}
