/* SPDX-License-Identifier: MIT */
/* `hakmem conf`: what settings there are, what a file of them says, which hold in a process. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/commands.h"
#include "tool/process.h"
#include "tool/screen.h"
#include "tool/settings.h"

static const char standard_file[] = "/etc/hakmem.conf";

/* Words below each other from column `indent` on, on a terminal. */
static void print_wrapped(const char *text, int indent) {
	unsigned rows, columns;
	screen_size(&rows, &columns);
	size_t room = columns > 2U * (unsigned)indent && screen_is_terminal() ? columns - (unsigned)indent : SIZE_MAX;
	while (strlen(text) > room) {
		size_t end = room;
		while (end > 0 && text[end] != ' ')
			end--;
		if (end == 0)
			break;
		printf("%.*s\n%*s", (int)end, text, indent, "");
		text += end + 1;
	}
	puts(text);
}

static int list(void) {
	enum { INDENT = 20 + 1 + 14 + 1 };
	printf("%-20s %-14s %s\n", "SETTING", "DEFAULT", "MEANING");
	for (const struct setting_info *s = settings; s->name != NULL; s++) {
		char text[512];
		snprintf(text, sizeof text, s->words[0] != '\0' ? "%s [%s]" : "%s", s->meaning, s->words);
		printf("%-20s %-14s ", s->name, s->initial);
		print_wrapped(text, INDENT);
	}
	puts("\nIn /etc/hakmem.conf: name = value.\nIn the environment: HAKMEM_ and the name in capitals.");
	return TOOL_OK;
}

static int list_profiles(void) {
	for (const struct profile_info *p = profiles; p->name != NULL; p++) {
		puts(p->name);
		for (const char *at = p->lines; *at != '\0';) {
			size_t length = strcspn(at, "\n");
			printf("  %.*s\n", (int)length, at);
			at += length + (at[length] == '\n');
		}
	}
	return TOOL_OK;
}

static void say(void *arg, unsigned line, const char *text, const char *why) {
	printf("%s:%u: '%s' %s\n", (const char *)arg, line, text, why);
}

/* What of the file itself keeps it, or a part of it, from being read. */
static int check_file(const char *path) {
	enum { READ_MOST = 64 * 1024 };
	struct stat st;
	int bad = 0;
	if (stat(path, &st) != 0)
		return 0;
	if ((st.st_mode & S_IWOTH) != 0)
		bad += printf("%s: is ignored: everybody may write to it\n", path) > 0;
	/* Every process reads the standard one; any other is only to be put there. */
	bool is_standard = strcmp(path, standard_file) == 0;
	const mode_t reading = S_IRUSR | S_IRGRP | S_IROTH;
	if (is_standard && (st.st_mode & reading) != reading)
		bad += printf("%s: is ignored by some processes: not everybody may read it\n", path) > 0;
	if (is_standard && (st.st_mode & (S_IWGRP | S_IWOTH)) == S_IWGRP)
		bad += printf("%s: is ignored by privileged processes: its group may write to it\n", path) > 0;
	if (is_standard && st.st_uid != 0)
		bad += printf("%s: is ignored by privileged processes: it is not root's\n", path) > 0;
	if (st.st_size > READ_MOST)
		bad += printf("%s: is read up to 64 KiB only\n", path) > 0;
	return bad;
}

static int check(const char *path) {
	if (path == NULL && access(standard_file, F_OK) != 0 && errno == ENOENT) {
		printf("%s: is not there: the defaults hold\n", standard_file);
		return TOOL_OK;
	}
	path = path != NULL ? path : standard_file;
	char *name = (char *)(uintptr_t)path; /* only printed */
	int bad = hak_conf_check(path, say, name);
	if (bad < 0)
		complain("%s cannot be read", path);
	else
		bad += check_file(path);
	return bad == 0 ? TOOL_OK : TOOL_FAILED;
}

static int show(const char *text) {
	struct process p;
	pid_t pid;
	if (!process_parse("conf", text, &pid))
		return TOOL_USAGE;
	enum tool_exit why = process_open(&p, pid);
	if (why != TOOL_OK)
		return (int)process_complain(&p, why);
	struct reading_setting s;
	unsigned row = 0;
	for (; reading_setting(&p.reading, row, &s); row++) {
		make_printable(s.name);
		make_printable(s.value);
		printf("%s = %s\n", s.name, s.value);
	}
	return (int)process_complain(&p, process_settings_why(&p, row));
}

static int run(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "", *argument = argc > 2 ? argv[2] : NULL;
	if (argc > 3)
		return misused("conf: what is '%s'?", argv[3]);
	if (strcmp(what, "check") == 0)
		return check(argument);
	if (strcmp(what, "show") == 0)
		return argument != NULL ? show(argument) : misused("conf show: which process?");
	if (argument != NULL && (strcmp(what, "list") == 0 || strcmp(what, "profiles") == 0))
		return misused("conf %s: what is '%s'?", what, argument);
	if (strcmp(what, "list") == 0)
		return list();
	if (strcmp(what, "profiles") == 0)
		return list_profiles();
	return what[0] == '\0' ? misused("conf: list, profiles, check or show?") :
		misused("conf: what is '%s'?", what);
}

const struct command command_conf = {
	.name = "conf",
	.summary = "settings: which there are, what a file says, which hold",
	.usage = "usage: hakmem conf list | profiles | check [FILE] | show PID\n"
	         "\n"
	         "  list          every setting, its default and meaning\n"
	         "  profiles      the named rows of settings\n"
	         "  check [FILE]  says which lines of FILE, or of /etc/hakmem.conf, are not understood, and whether the\n"
	         "                file is ignored; exit code 1 if there is anything to say of it\n"
	         "  show PID      the settings that hold in a running process\n",
	.run = run,
};
