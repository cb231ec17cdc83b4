/* SPDX-License-Identifier: MIT */
/* `hakmem`: looks the command up and hands over. */
#include "tool/commands.h"

#include <string.h>

#include "hakmem.h"

static const struct command *const commands[] = {
	&command_run,
	&command_stat,
	&command_top,
	&command_map,
	&command_profile,
	&command_conf,
	&command_info,
	&command_preload,
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_help(void) {
	puts("usage: hakmem COMMAND [ARGUMENTS]\n"
	     "       hakmem COMMAND --help | hakmem --help | hakmem --version\n"
	     "\n"
	     "Runs programs with HAKMEM, the memory allocator, and looks into them while they run.\n");
	for (int i = 0; i < COMMANDS; i++)
		printf("  %-9s %s\n", commands[i]->name, commands[i]->summary);
	puts("\n"
	     "Exit codes: 0 done, 1 it did not work, 2 not understood, 3 no such process or it ended,\n"
	     "4 no permission, 5 the process does not use HAKMEM, 6 it uses another version of it.\n"
	     "'hakmem run' ends as the program does; 126: it cannot be run, 127: it is not there.");
}

static const struct command *find(const char *name) {
	for (int i = 0; i < COMMANDS; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

static bool is_help(const char *word) {
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* What was printed may be lost on the way: a full disk, a closed pipe. */
static int finish(int code) {
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	complain("standard output: %m");
	return code != TOOL_OK ? code : TOOL_FAILED;
}

static int help_about(int argc, char **argv) {
	const struct command *command = argc > 2 ? find(argv[2]) : NULL;
	if (argc > 2 && command == NULL)
		return misused("there is no command '%s'", argv[2]);
	if (command != NULL)
		fputs(command->usage, stdout);
	else
		print_help();
	return TOOL_OK;
}

static int dispatch(int argc, char **argv) {
	if (argc < 2)
		return misused("which command?");
	if (is_help(argv[1]) || strcmp(argv[1], "help") == 0)
		return help_about(argc, argv);
	if (strcmp(argv[1], "--version") == 0) {
		printf("hakmem %s\n", HAKMEM_VERSION);
		return TOOL_OK;
	}
	const struct command *command = find(argv[1]);
	if (command == NULL)
		return misused("there is no command '%s'", argv[1]);
	if (argc > 2 && is_help(argv[2])) {
		fputs(command->usage, stdout);
		return TOOL_OK;
	}
	tool_command = command->name;
	return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv) {
	return finish(dispatch(argc, argv));
}
