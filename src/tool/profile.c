/* SPDX-License-Identifier: MIT */
/* `hakmem profile`: has a running process sample its allocations for a while, by the signal that its user
   chose for that, and says where it wrote the profile. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tool/commands.h"
#include "tool/process.h"

enum { SECONDS = 10, SECONDS_MOST = 1000000, LOOK_MS = 100, LOOKS = 50 };

static void pause_for(long ms) {
	struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

/* Seen from the process's folder; %p and %e as the library expands them. */
static void path_of(const struct process *p, const char *pattern, char *path, size_t size) {
	size_t n = 0;
	if (pattern[0] != '/')
		n = (size_t)snprintf(path, size, "/proc/%d/cwd/", (int)p->pid);
	for (; *pattern != '\0' && n + 1 < size; pattern++) {
		if (pattern[0] == '%' && (pattern[1] == 'p' || pattern[1] == 'e'))
			n += (size_t)(*++pattern == 'p' ? snprintf(path + n, size - n, "%d", (int)p->pid) :
				snprintf(path + n, size - n, "%s", p->name));
		else
			path[n++] = *pattern;
	}
	path[n < size ? n : size - 1] = '\0';
}

static int send(const struct process *p, int number) {
	if (kill(p->pid, number) == 0)
		return TOOL_OK;
	return (int)process_complain(p, errno == EPERM ? TOOL_NO_PERMISSION : TOOL_NO_PROCESS);
}

static int profile(const struct process *p, int number, const char *pattern, long seconds) {
	char path[PATH_MAX], real[PATH_MAX];
	struct stat st;
	path_of(p, pattern, path, sizeof path);
	time_t begun = time(NULL);
	int code = send(p, number);
	if (code != TOOL_OK)
		return code;
	pause_for(1000 * seconds);
	code = send(p, number);
	/* A thread of the process has to run for it. It is written once it has stopped growing. */
	off_t before = 0;
	for (int i = 0; code == TOOL_OK && i < LOOKS; i++) {
		pause_for(LOOK_MS);
		if (stat(path, &st) != 0 || st.st_mtime < begun)
			continue;
		if (st.st_size == 0 || st.st_size != before) {
			before = st.st_size;
			continue;
		}
		char *shown = realpath(path, real) != NULL ? real : path;
		make_printable(shown);
		puts(shown);
		return TOOL_OK;
	}
	make_printable(path);
	if (code == TOOL_OK)
		complain("process %d has written no profile to %s", (int)p->pid, path);
	return code != TOOL_OK ? code : TOOL_FAILED;
}

static bool parse_seconds(const char *text, long *secondsp) {
	char *end;
	*secondsp = strtol(text, &end, 10);
	return end != text && *end == '\0' && *secondsp >= 1 && *secondsp <= SECONDS_MOST;
}

static int run(int argc, char **argv) {
	long seconds = SECONDS;
	const char *text = NULL;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
			if (!parse_seconds(argv[++i], &seconds))
				return misused("profile: '%s' is no number of seconds", argv[i]);
		} else if (argv[i][0] == '-' || text != NULL) {
			return misused("profile: what is '%s'?", argv[i]);
		} else {
			text = argv[i];
		}
	}
	struct process p;
	struct reading_setting number, file;
	pid_t pid;
	if (text == NULL)
		return misused("profile: which process?");
	if (!process_parse("profile", text, &pid))
		return TOOL_USAGE;
	enum tool_exit why = process_open(&p, pid);
	if (why != TOOL_OK)
		return (int)process_complain(&p, why);
	for (int i = 0; i < 2; i++) {
		static const char *const names[] = { "disable", "secure" };
		if (process_setting(&p, names[i], &number) && atoi(number.value) != 0) {
			complain("process %d (%s) has %s = %s: nothing can be sampled there", (int)pid, p.name, names[i],
			         number.value);
			return TOOL_FAILED;
		}
	}
	if (!process_setting(&p, "sample_signal", &number) || !process_setting(&p, "sample_file", &file) ||
	    atoi(number.value) == 0) {
		complain("process %d was not started with a signal for this: HAKMEM_SAMPLE_SIGNAL=12 for example", (int)pid);
		return TOOL_FAILED;
	}
	return profile(&p, atoi(number.value), file.value, seconds);
}

const struct command command_profile = {
	.name = "profile",
	.summary = "where a process's memory comes from, in a file for pprof",
	.usage = "usage: hakmem profile PID [--seconds N]\n"
	         "\n"
	         "Samples the allocations of a process for N seconds (10), and prints the path of the profile it\n"
	         "writes. The process must have been started with a signal for this that it has no other use for,\n"
	         "such as HAKMEM_SAMPLE_SIGNAL=12. Look into the profile with 'pprof PROGRAM FILE'.\n",
	.run = run,
};
