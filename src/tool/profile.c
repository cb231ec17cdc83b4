/* SPDX-License-Identifier: MIT */
/* `hakmem profile`: has a running process sample its allocations for a while, by the signal that its user
   chose for that, and says where it wrote the profile. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tool/commands.h"
#include "tool/process.h"

enum { SECONDS = 10, SECONDS_MOST = 1000000, LOOK_MS = 100, LOOKS = 50, SOON = 9 };

static volatile sig_atomic_t is_interrupted;

static void interrupt(int number) {
	(void)number;
	is_interrupted = true;
}

/* The process must not go on sampling because somebody is impatient: then it is over sooner. */
static void catch_interrupts(void) {
	static const int numbers[] = { SIGHUP, SIGINT, SIGTERM };
	struct sigaction action = { .sa_handler = interrupt }, old;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* as by nohup */
			sigaction(numbers[i], &action, NULL);
}

static void pause_for(long ms) {
	struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
	while (!is_interrupted && nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

/* ---- the file ---- */

static void close_file(FILE *file) {
	if (file != NULL)
		fclose(file);
}

/* The number by which the process knows itself. */
static int own_number(const struct process *p) {
	char line[256];
	const char *last;
	int number = (int)p->pid;
	FILE *status = process_file(p, "status");
	while (status != NULL && fgets(line, sizeof line, status) != NULL)
		if (strncmp(line, "NStgid:", 7) == 0 && (last = strrchr(line, '\t')) != NULL)
			number = atoi(last);
	close_file(status);
	return number;
}

/* What stands in its auxiliary vector; 0: nothing. */
static unsigned long auxiliary(const struct process *p, unsigned long type) {
	unsigned long entry[2], value = 0;
	FILE *vector = process_file(p, "auxv");
	while (vector != NULL && fread(entry, sizeof entry, 1, vector) == 1)
		if (entry[0] == type)
			value = entry[1];
	close_file(vector);
	return value;
}

/* The path that was executed, as the process was told. It lies at the stack's end: there may be no more than that to be
   read. Not what says nothing, as in the library. */
static ssize_t read_executed(const struct process *p, char *path, size_t size) {
	FILE *memory = process_file(p, "mem");
	ssize_t len = memory != NULL ? pread(fileno(memory), path, size, (off_t)auxiliary(p, AT_EXECFN)) : 0;
	close_file(memory);
	path[len > 0 ? len : 0] = '\0';
	const char *name = basename(path);
	return name[0] <= '9' || strcmp(name, "exe") == 0 ? 0 : len;
}

static ssize_t read_file_name(const struct process *p, char *path, size_t size) {
	char link[64];
	snprintf(link, sizeof link, "/proc/%d/exe", (int)p->thread);
	return readlink(link, path, size);
}

/* By which the library goes, too; else what the system calls the program. */
static void own_name(const struct process *p, char *name, size_t size) {
	char path[PATH_MAX];
	ssize_t len = auxiliary(p, AT_SECURE) != 0 ? 0 : read_executed(p, path, sizeof path - 1);
	if (len <= 0)
		len = read_file_name(p, path, sizeof path - 1);
	path[len > 0 ? len : 0] = '\0';
	const char *own = path[0] != '\0' ? basename(path) : p->name;
	size_t taken = strnlen(own, size - 1);
	memcpy(name, own, taken);
	name[taken] = '\0';
}

/* %p, %e and %% as the library expands them. The process may have another root: what is before its own path. */
static size_t path_of(const struct process *p, const char *pattern, char *path, size_t size) {
	char name[NAME_MAX + 1];
	int number = own_number(p);
	own_name(p, name, sizeof name);
	bool is_whole = pattern[0] == '/';
	size_t n = (size_t)snprintf(path, size, is_whole ? "/proc/%d/root" : "/proc/%d/cwd/", (int)p->thread), before = n;
	for (; *pattern != '\0' && n + 1 < size; pattern++) {
		if (pattern[0] == '%' && (pattern[1] == 'p' || pattern[1] == 'e'))
			n += (size_t)(*++pattern == 'p' ? snprintf(path + n, size - n, "%d", number) :
				snprintf(path + n, size - n, "%s", name));
		else
			path[n++] = pattern[0] == '%' && pattern[1] == '%' ? *++pattern : *pattern;
	}
	path[n < size ? n : size - 1] = '\0';
	return is_whole ? before : 0;
}

/* All zero: it is not there, or no file. */
static struct stat look_at(const char *path) {
	struct stat st;
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
		memset(&st, 0, sizeof st);
	return st;
}

static bool is_same(const struct stat *a, const struct stat *b) {
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
		a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* It is written in pieces, and its end may be missing for good: the disk was full. The last part is the mappings, none
   where the process sees no /proc; every line ends. What a process has made of it may have no end: then the user ends
   it. */
static bool is_whole(const char *path) {
	static const char last_part[] = "MAPPED_LIBRARIES:";
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* it may be a FIFO by now */
	FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
	char piece[1024];
	bool is_line = true, is_last = false; /* is a line begun by the next piece, in the last part? */
	while (!is_interrupted && file != NULL && fgets(piece, sizeof piece, file) != NULL) {
		is_last = is_last || (is_line && strncmp(piece, last_part, sizeof last_part - 1) == 0);
		is_line = strchr(piece, '\n') != NULL;
	}
	close_file(file);
	return is_last && is_line && !is_interrupted;
}

/* By the path that we have for it, if that leads there. */
static void print_path(char *path) {
	char real[PATH_MAX];
	struct stat there = look_at(path), here;
	char *shown = realpath(path, real) != NULL && stat(real, &here) == 0 && is_same(&here, &there) ? real : path;
	make_printable(shown);
	puts(shown);
}

/* ---- the signals ---- */

/* Who is sent signals: a process that ends gives its number to another, so it is held by a descriptor. */
struct target {
	const struct process *p;
	int fd;     /* -1: before Linux 5.3 */
	int number; /* of the signal */
	bool is_for_good; /* it samples from its start on: each signal writes the profile */
};

static bool reach(const struct target *t, int number) {
	return (t->fd >= 0 ? syscall(SYS_pidfd_send_signal, t->fd, number, NULL, 0) : kill(t->p->pid, number)) == 0;
}

static int send(const struct target *t) {
	/* Programs that the process has become since may not catch it: it would end them. */
	if (reach(t, 0) && (process_status(t->p->pid, "SigCgt:", 16) >> (t->number - 1) & 1) == 0) {
		complain("process %d (%s) does not catch signal %d: it is not sent", (int)t->p->pid, t->p->name, t->number);
		return TOOL_FAILED;
	}
	if (reach(t, t->number))
		return TOOL_OK;
	return (int)process_complain(t->p, errno == EPERM ? TOOL_NO_PERMISSION : TOOL_NO_PROCESS);
}

static bool is_pending(const struct target *t) {
	uint64_t pending = process_status(t->p->pid, "SigPnd:", 16) | process_status(t->p->pid, "ShdPnd:", 16);
	return (pending >> (t->number - 1) & 1) != 0;
}

/* A process that is stopped, or gets no processor, takes no signal, and of two that are pending only one: that would
   switch sampling on, and nothing would switch it off. */
static int send_again(const struct target *t) {
	const struct timespec look = { .tv_nsec = LOOK_MS * 1000000L };
	for (int i = 0; i < LOOKS && is_pending(t); i++)
		nanosleep(&look, NULL); /* an interruption ends one look sooner, not all */
	if (!is_pending(t))
		return send(t);
	complain("process %d (%s) has not taken signal %d: no other is sent; once it takes it, it samples until the next",
	         (int)t->p->pid, t->p->name, t->number);
	return TOOL_FAILED;
}

/* The signal switches sampling on, or off if it was on, which can be seen: the file is written soon after it is
   taken. */
static int sample_for(const struct target *t, const char *path, long seconds) {
	struct stat old = look_at(path), now = old;
	int code = send(t), looks = 0, soon = 0;
	bool may_end = code == TOOL_OK && !t->is_for_good;
	while (may_end && soon < SOON && looks < LOOKS && is_same(&now, &old) && !is_interrupted) {
		pause_for(LOOK_MS);
		looks++;
		soon += !is_pending(t);
		now = look_at(path);
	}
	bool was_on = may_end && !is_same(&now, &old);
	if (was_on)
		code = send_again(t);
	long left = 1000 * seconds - (was_on ? 0 : looks * LOOK_MS);
	if (code == TOOL_OK && left > 0)
		pause_for(left);
	is_interrupted = false;
	return code;
}

static int profile(const struct target *t, const char *pattern, long seconds) {
	char path[PATH_MAX];
	size_t root = path_of(t->p, pattern, path, sizeof path);
	catch_interrupts();
	int code = sample_for(t, path, seconds);
	struct stat before = look_at(path), old = before;
	if (code == TOOL_OK)
		code = send_again(t);
	/* A thread of the process has to run for it, and may be slow to write. */
	for (int i = 0; code == TOOL_OK && i < LOOKS && !is_interrupted;) {
		pause_for(LOOK_MS);
		struct stat now = look_at(path);
		if (is_same(&now, &before) && !is_same(&now, &old) && is_whole(path)) {
			print_path(path);
			return TOOL_OK;
		}
		i += now.st_size <= before.st_size;
		before = now;
	}
	make_printable(path);
	if (code == TOOL_OK)
		complain("process %d has written %s profile to %s", (int)t->p->pid,
		         before.st_size == 0 || is_same(&before, &old) ? "no" : "an incomplete", path + root);
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
	enum { DISABLE, SECURE, SAMPLE, SAMPLE_SIGNAL, SAMPLE_FILE, ALL };
	static const char *const names[ALL] = { "disable", "secure", "sample", "sample_signal", "sample_file" };
	struct reading_setting s[ALL];
	struct process p;
	pid_t pid;
	if (text == NULL)
		return misused("profile: which process?");
	if (!process_parse("profile", text, &pid))
		return TOOL_USAGE;
	struct target target = { .p = &p, .fd = (int)syscall(SYS_pidfd_open, pid, 0) };
	enum tool_exit why = process_open(&p, pid);
	for (int i = 0; i < ALL && why == TOOL_OK; i++)
		why = process_setting(&p, names[i], &s[i]);
	if (why != TOOL_OK)
		return (int)process_complain(&p, why);
	for (int i = DISABLE; i <= SECURE; i++) {
		if (atoi(s[i].value) != 0) {
			complain("process %d (%s) has %s = %d: nothing can be sampled there", (int)pid, p.name, names[i],
			         atoi(s[i].value));
			return TOOL_FAILED;
		}
	}
	target.number = atoi(s[SAMPLE_SIGNAL].value);
	target.is_for_good = atoi(s[SAMPLE].value) != 0;
	if (target.number == 0 || s[SAMPLE_FILE].name[0] == '\0') {
		complain("process %d was not started with a signal for this: HAKMEM_SAMPLE_SIGNAL=12 for example", (int)pid);
		return TOOL_FAILED;
	}
	return profile(&target, s[SAMPLE_FILE].value, seconds);
}

const struct command command_profile = {
	.name = "profile",
	.summary = "where a process's memory comes from, in a file for pprof",
	.usage = "usage: hakmem profile PID [--seconds N]\n"
	         "\n"
	         "Samples the allocations of a process for N seconds (10), and prints the path of the profile it\n"
	         "writes; Ctrl-C ends it sooner. The process must have been started with a signal for this that it\n"
	         "has no other use for, such as HAKMEM_SAMPLE_SIGNAL=12. Look into the profile with 'pprof PROGRAM FILE'.\n",
	.run = run,
};
