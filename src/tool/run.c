/* SPDX-License-Identifier: MIT */
/* `hakmem run`: a program with HAKMEM preloaded and settings of one's choice. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/commands.h"
#include "tool/library.h"
#include "tool/settings.h"

/* Sets HAKMEM_NAME for the program. False, after a complaint. */
static bool set(const char *name, const char *value) {
	char variable[64] = "HAKMEM_";
	size_t length = strlen(variable);
	if (!settings_are_valid("run", name, value))
		return false;
	for (; *name != '\0' && length < sizeof variable - 1; name++)
		variable[length++] = (char)toupper((unsigned char)*name);
	return setenv(variable, value, 1) == 0;
}

static bool set_pair(char *pair) {
	char *eq = strchr(pair, '=');
	if (eq == NULL) {
		misused("run: --set wants NAME=VALUE, not '%s'", pair);
		return false;
	}
	*eq = '\0';
	return set(pair, eq + 1);
}

/* Handles argv[*ip] if it is an option; moves on to its last word. `*donep`: what follows is the program. */
static bool take_option(int argc, char **argv, int *ip, bool *donep) {
	static const struct {
		const char *option, *setting;
	} with_value[] = { { "--profile", "profile" }, { "--secure", "secure" }, { "--set", NULL } };
	char *word = argv[*ip];
	*donep = word[0] != '-';
	if (*donep)
		return true;
	if (strcmp(word, "--") == 0) {
		*donep = true;
		++*ip;
		return true;
	}
	if (strcmp(word, "--stats") == 0)
		return set("stats", "1");
	if (strncmp(word, "--stats=", 8) == 0)
		return set("stats", word + 8);
	for (size_t i = 0; i < sizeof with_value / sizeof *with_value; i++) {
		if (strcmp(word, with_value[i].option) != 0)
			continue;
		if (++*ip == argc)
			return misused("run: %s wants a value", word) == TOOL_OK;
		return with_value[i].setting != NULL ? set(with_value[i].setting, argv[*ip]) : set_pair(argv[*ip]);
	}
	return misused("run: what is '%s'?", word) == TOOL_OK;
}

/* Before what is preloaded already: the first to define malloc serves it. */
static bool preload(const char *path) {
	const char *old = getenv("LD_PRELOAD");
	char *all = NULL;
	if (strpbrk(path, " :") != NULL) {
		complain("run: the loader cannot preload '%s': its path has a space or a colon", path);
		return false;
	}
	if (asprintf(&all, "%s%s%s", path, old != NULL && old[0] != '\0' ? ":" : "", old != NULL ? old : "") < 0)
		return false;
	bool ok = setenv("LD_PRELOAD", all, 1) == 0;
	free(all);
	return ok;
}

static int run(int argc, char **argv) {
	bool done = false;
	int i = 1;
	for (; i < argc; i++) {
		if (!take_option(argc, argv, &i, &done))
			return TOOL_USAGE;
		if (done)
			break;
	}
	if (i >= argc)
		return misused("run: which program?");
	const char *path = library_path();
	if (path == NULL || !preload(path))
		return TOOL_FAILED;
	execvp(argv[i], &argv[i]);
	int error = errno;
	complain("%s: %m", argv[i]);
	return error == ENOENT ? TOOL_NOT_FOUND : TOOL_NOT_RUN;
}

const struct command command_run = {
	.name = "run",
	.summary = "runs a program with HAKMEM",
	.usage = "usage: hakmem run [--profile NAME] [--set NAME=VALUE]... [--stats[=json|ops]] [--secure LEVEL]\n"
	         "                  [--] PROGRAM [ARGUMENTS]\n"
	         "\n"
	         "Runs PROGRAM, and what it starts, with HAKMEM preloaded. Ends as PROGRAM does.\n"
	         "\n"
	         "  --profile NAME    a named row of settings: see 'hakmem conf profiles'\n"
	         "  --set NAME=VALUE  a setting: see 'hakmem conf list'\n"
	         "  --stats[=json]    a report when a process ends\n"
	         "  --secure LEVEL    the setting secure\n",
	.run = run,
};
