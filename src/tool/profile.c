/* SPDX-License-Identifier: MIT */
/* `hakmem profile`: has a running process sample its allocations for a while, by the signal that its user
   chose for that, and says where it wrote the profile. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tool/commands.h"
#include "tool/process.h"
#include "tool/root.h"
#include "tool/screen.h"

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

static long now_ms(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* False: the process of that descriptor has ended. */
static bool pause_for(int process, long ms) {
	struct pollfd end = { .fd = process, .events = POLLIN };
	int has_ended = 0;
	for (long until = now_ms() + ms; ms > 0 && has_ended <= 0 && !is_interrupted; ms = until - now_ms())
		has_ended = poll(&end, 1, (int)ms);
	return has_ended <= 0;
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

/* Where the profile will be, as the process sees it: it may have another root than we. */
struct place {
	char folder[32]; /* its root, or the folder it is in */
	int from;        /* that, as it was when it was last seen; -1: never */
	char path[PATH_MAX];
	size_t before; /* of the path, leads to `from` */
	bool is_from_root;
};

/* %p, %e and %% as the library expands them. */
static void find_place(const struct process *p, const char *pattern, struct place *place) {
	char name[NAME_MAX + 1], *path = place->path;
	size_t size = sizeof place->path;
	int number = own_number(p);
	own_name(p, name, sizeof name);
	place->is_from_root = pattern[0] == '/';
	snprintf(place->folder, sizeof place->folder, "/proc/%d/%s", (int)p->thread, place->is_from_root ? "root" : "cwd");
	place->from = -1;
	size_t n = (size_t)snprintf(path, size, "%s%s", place->folder, place->is_from_root ? "" : "/");
	place->before = n;
	for (; *pattern != '\0' && n + 1 < size; pattern++) {
		if (pattern[0] == '%' && (pattern[1] == 'p' || pattern[1] == 'e'))
			n += (size_t)(*++pattern == 'p' ? snprintf(path + n, size - n, "%d", number) :
				snprintf(path + n, size - n, "%s", name));
		else
			path[n++] = pattern[0] == '%' && pattern[1] == '%' ? *++pattern : *pattern;
	}
	path[n < size ? n : size - 1] = '\0';
}

/* What is there is not opened before it is known what it is: to open a device may do something. */
static int look_for(struct place *place) {
	const char *path = place->path + place->before;
	int from = open(place->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (from >= 0 && place->from >= 0)
		close(place->from);
	if (from >= 0)
		place->from = from;
	return place->is_from_root ? open_in_root(place->from, path, O_PATH) :
		openat(place->from, path, O_PATH | O_CLOEXEC);
}

/* All zero: no file. */
static struct stat stat_of(int fd) {
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		memset(&st, 0, sizeof st);
	return st;
}

static struct stat look_at(struct place *place) {
	int fd = look_for(place);
	struct stat st = stat_of(fd);
	if (fd >= 0)
		close(fd);
	return st;
}

static bool is_same(const struct stat *a, const struct stat *b) {
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
		a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* It is written in pieces, and its end may be missing for good: the disk was full. The last part is the mappings, none
   where the process sees no /proc; every line ends. What a process has made of it may have no end: then the user ends
   it. */
static bool is_whole(int fd) {
	static const char last_part[] = "MAPPED_LIBRARIES:";
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
static void print_path(struct place *place, const char *link, const struct stat *there) {
	char real[PATH_MAX];
	struct stat here;
	ssize_t len = readlink(link, real, sizeof real - 1);
	real[len > 0 ? len : 0] = '\0';
	char *shown = stat(real, &here) == 0 && is_same(&here, there) ? real : place->path;
	if (screen_is_terminal())
		make_printable(shown);
	puts(shown);
}

/* False: that is not there, whole. */
static bool show(struct place *place, const struct stat *there) {
	char link[64];
	int fd = look_for(place);
	struct stat now = stat_of(fd);
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	bool is_shown = is_same(&now, there) && is_whole(open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
	if (is_shown)
		print_path(place, link, there);
	if (fd >= 0)
		close(fd);
	return is_shown;
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
static int sample_for(const struct target *t, struct place *place, long seconds) {
	struct stat old = look_at(place), now = old;
	int code = send(t), looks = 0, soon = 0;
	bool may_end = code == TOOL_OK && !t->is_for_good;
	while (may_end && soon < SOON && looks < LOOKS && is_same(&now, &old) && !is_interrupted) {
		pause_for(t->fd, LOOK_MS);
		looks++;
		soon += !is_pending(t);
		now = look_at(place);
	}
	bool was_on = may_end && !is_same(&now, &old);
	if (was_on)
		code = send_again(t);
	long left = 1000 * seconds - (was_on ? 0 : looks * LOOK_MS);
	if (code == TOOL_OK && !pause_for(t->fd, left))
		code = (int)process_complain(t->p, TOOL_NO_PROCESS);
	is_interrupted = false;
	return code;
}

static int profile(const struct target *t, const char *pattern, long seconds) {
	struct place place;
	find_place(t->p, pattern, &place);
	catch_interrupts();
	int code = sample_for(t, &place, seconds);
	struct stat before = look_at(&place), old = before;
	if (code == TOOL_OK)
		code = send_again(t);
	/* A thread of the process has to run for it, and may be slow to write. */
	bool lives = true;
	for (int i = 0; code == TOOL_OK && i < LOOKS && !is_interrupted;) {
		lives = pause_for(t->fd, LOOK_MS);
		struct stat now = look_at(&place);
		if (is_same(&now, &before) && !is_same(&now, &old) && show(&place, &now))
			return TOOL_OK;
		i += lives ? now.st_size <= before.st_size : LOOKS / 2;
		before = now;
	}
	if (code == TOOL_OK && !lives)
		return (int)process_complain(t->p, TOOL_NO_PROCESS);
	make_printable(place.path);
	if (code == TOOL_OK)
		complain("process %d has written %s profile to %s", (int)t->p->pid,
		         before.st_size == 0 || is_same(&before, &old) ? "no" : "an incomplete",
		         place.path + (place.is_from_root ? place.before : 0));
	return code != TOOL_OK ? code : TOOL_FAILED;
}

/* Two at once would each take the other's signals for its own. */
static bool is_ours_alone(const struct process *p) {
	FILE *status = process_file(p, "status"); /* stays open, and locked */
	return status == NULL || flock(fileno(status), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

static bool parse_whole_seconds(const char *text, long *secondsp) {
	char *end;
	*secondsp = strtol(text, &end, 10);
	return end != text && *end == '\0' && *secondsp >= 1 && *secondsp <= SECONDS_MOST;
}

static int run(int argc, char **argv) {
	long seconds = SECONDS;
	const char *text = NULL;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
			if (!parse_whole_seconds(argv[++i], &seconds))
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
	target.number = (int)strtol(s[SAMPLE_SIGNAL].value, NULL, 10);
	target.is_for_good = atoi(s[SAMPLE].value) != 0;
	if (target.number == 0 || s[SAMPLE_FILE].name[0] == '\0') {
		complain("process %d was not started with a signal for this: HAKMEM_SAMPLE_SIGNAL=12 for example", (int)pid);
		return TOOL_FAILED;
	}
	if (target.number < 0 || target.number > 64)
		return (int)process_complain(&p, TOOL_OTHER_VERSION);
	if (!is_ours_alone(&p)) {
		complain("process %d (%s) is being profiled already", (int)pid, p.name);
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
