/* SPDX-License-Identifier: MIT */
/*
 * Programs that are run with the library, each in a process of its own with an empty environment: they
 * must end well, print what they should, and nothing on standard error, where the loader complains.
 *
 * Before the file is written, root gets a private view of /etc with the file in it (a mount namespace
 * of a child, and an overlay of /etc), so that setuid programs are tried as they will be. Where this is
 * not to be had the library comes by LD_PRELOAD, and they are tried only once the file is written.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/preload.h"
#include "tool/root.h"

enum { TRIAL_SECONDS = 60, NOBODY = 65534, CANNOT_BECOME = 126 };

struct trial {
	const char *name;
	const char *argv[4];   /* argv[0] NULL: our own probe, with argv[1] */
	const char *expected;  /* on standard output; NULL: anything */
	bool is_secure;        /* as a setuid program would be run: for nobody, with root's rights */
	bool is_nobodys;
};

static const struct trial always[] = {
	{ .name = "/bin/true", .argv = { "/bin/true" }, .expected = "" },
	{ .name = "/bin/sh", .argv = { "/bin/sh", "-c", "a=$(echo 1); echo $a$(echo 2)" }, .expected = "12\n" },
	{ .name = "a program", .argv = { NULL, "work" }, .expected = "" },
	{ .name = "a program with threads", .argv = { NULL, "threads" }, .expected = "" },
	{ .name = "a program that forks", .argv = { NULL, "forks" }, .expected = "" },
};

/* ---- one program ---- */

struct output {
	char text[PATH_MAX];
	char errors[512];
	int status;
};

static void read_back(int fd, char *to, size_t size) {
	ssize_t got = pread(fd, to, size - 1, 0);
	to[got > 0 ? got : 0] = '\0';
	close(fd);
}

static void become(const struct trial *trial) {
	if (!trial->is_secure && !trial->is_nobodys)
		return;
	uid_t effective = trial->is_secure ? 0 : NOBODY;
	setgroups(0, NULL);
	if (setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, effective, effective) != 0) {
		dprintf(STDERR_FILENO, "cannot run as user %d: %s", NOBODY, strerror(errno));
		_exit(CANNOT_BECOME);
	}
}

/* Not without CAP_SETUID, say, or where the system knows of one user only. What else goes wrong shows in the trials. */
static bool can_become(const struct trial *trial) {
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		close(STDERR_FILENO); /* what it says is for who runs a program */
		become(trial);
		_exit(0);
	}
	return pid < 0 || TEMP_FAILURE_RETRY(waitpid(pid, &status, 0)) != pid || !WIFEXITED(status) ||
		WEXITSTATUS(status) != CANNOT_BECOME;
}

static void execute(const struct trial *trial, int probe, const char *preload, int out, int err) {
	char variable[PATH_MAX + sizeof "LD_PRELOAD="];
	char *env[] = { (char[]){ "PATH=/usr/sbin:/usr/bin:/sbin:/bin" }, (char[]){ "LC_ALL=C" }, NULL, NULL };
	if (preload != NULL) {
		snprintf(variable, sizeof variable, "LD_PRELOAD=%s", preload);
		env[2] = variable;
	}
	int in = open("/dev/null", O_RDONLY);
	if (in >= 0)
		dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	alarm(TRIAL_SECONDS);
	become(trial);
	char *argv[5] = { (char[]){ "probe" } };
	for (int i = 0; i < 4; i++)
		if (trial->argv[i] != NULL)
			memcpy(&argv[i], &trial->argv[i], sizeof argv[i]);
	if (trial->argv[0] == NULL) {
		fcntl(probe, F_SETFD, 0); /* where another program runs it, an emulator, that has to open it */
		fexecve(probe, argv, env);
	}
	else
		execve(argv[0], argv, env);
	dprintf(STDERR_FILENO, "%s: %s", argv[0], strerror(errno));
	_exit(127);
}

static bool run(const struct trial *trial, int probe, const char *preload, struct output *o) {
	int out = memfd_create("output", MFD_CLOEXEC), err = memfd_create("errors", MFD_CLOEXEC);
	*o = (struct output){ .status = -1 };
	if (out < 0 || err < 0)
		return false;
	pid_t pid = fork();
	if (pid == 0)
		execute(trial, probe, preload, out, err);
	if (pid > 0 && TEMP_FAILURE_RETRY(waitpid(pid, &o->status, 0)) != pid)
		o->status = -1;
	read_back(out, o->text, sizeof o->text);
	read_back(err, o->errors, sizeof o->errors);
	return pid > 0 && o->status != -1;
}

static bool passes(const struct trials *t, const struct trial *trial, int probe, const char *preload) {
	struct output o;
	bool ran = run(trial, probe, preload, &o);
	o.errors[strcspn(o.errors, "\n")] = '\0';
	if (!ran)
		complain("preload: %s cannot be tried: %s", trial->name, strerror(errno));
	else if (WIFSIGNALED(o.status))
		complain("preload: %s dies with the library: signal %d %s", trial->name, WTERMSIG(o.status), o.errors);
	else if (o.errors[0] != '\0' || o.status != 0)
		complain("preload: %s fails with the library: status %d: %s", trial->name, WEXITSTATUS(o.status),
			o.errors);
	else if (trial->expected != NULL && strcmp(o.text, trial->expected) != 0)
		complain("preload: %s prints something else with the library", trial->name);
	else {
		if (t->is_talkative)
			printf("works: %s\n", trial->name);
		return true;
	}
	return false;
}

/* ---- where they are run ---- */

static int open_probe(void) {
	char path[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", path, sizeof path - 32);
	if (len > 0) {
		path[len] = '\0';
		strcpy(strrchr(path, '/') + 1, "preload-probe");
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	return open(HAK_PROBE_PATH, O_RDONLY | O_CLOEXEC);
}

static bool write_file(const char *path, struct bytes text) {
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	bool done = fd >= 0 && write(fd, text.at, text.len) == (ssize_t)text.len && fchmod(fd, 0644) == 0;
	if (fd >= 0)
		close(fd);
	return done;
}

/* Some folder is covered, for this process alone, to make the room that the overlay needs. The current
   folder is the system's root. */
static bool make_view_in(const char *room, struct bytes text) {
	char upper[64], work[64], file[96], options[256];
	snprintf(upper, sizeof upper, "%s/upper", room);
	snprintf(work, sizeof work, "%s/work", room);
	snprintf(file, sizeof file, "%s/ld.so.preload", upper);
	snprintf(options, sizeof options, "lowerdir=etc,upperdir=%s,workdir=%s", upper, work);
	return mount("hakmem", room, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755") == 0 &&
		mkdir(upper, 0755) == 0 && mkdir(work, 0755) == 0 && write_file(file, text) &&
		mount("hakmem", "etc", "overlay", 0, options) == 0;
}

/* Is something in that folder named? */
static bool is_needed(const char *folder, struct bytes text) {
	struct word word;
	size_t len = strlen(folder);
	for (size_t pos = 0; preload_next_word(text, &pos, &word);)
		if (word.len > len && memcmp(word.at, folder, len) == 0 && word.at[len] == '/')
			return true;
	return false;
}

static bool make_private_view(struct bytes text) {
	static const char *const rooms[] = { "/mnt", "/media", "/srv", "/tmp" };
	umask(S_IWGRP | S_IWOTH); /* all are to see it */
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return false;
	for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
		if (access(rooms[i], F_OK) == 0 && !is_needed(rooms[i], text))
			return make_view_in(rooms[i], text);
	return false;
}

/* Has the current folder, which is what `root` is, be the root. A folder of a private view is not the one
   behind the descriptor, and a bind mount of / looks just like it: so whoever may calls chroot in any case. */
static bool enter(int root) {
	return chroot(".") == 0 ? chdir("/") == 0 : !is_other_root(root);
}

/* ---- all of them ---- */

/* The first program here that is setuid, for all users, and harmless when asked for its version. */
static const char *find_setuid(void) {
	static const char *const known[] = { "/usr/bin/su", "/bin/su", "/usr/bin/mount", "/bin/mount", "/usr/bin/sudo" };
	struct stat st;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (stat(known[i], &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == 0 &&
			(st.st_mode & (S_ISUID | S_IXOTH)) == (S_ISUID | S_IXOTH))
			return known[i];
	return NULL;
}

static bool pass_over_others(const struct trials *t) {
	if (t->is_talkative)
		puts("not tried: programs of others, and setuid ones; that takes root, and its rights");
	return true;
}

/* Programs of those who have no rights, and of those who have more than their callers. */
static bool try_as_others(const struct trials *t, int probe) {
	static const struct trial ordinary[] = {
		{ .name = "/bin/true of another user", .argv = { "/bin/true" }, .expected = "", .is_nobodys = true },
		{ .name = "a program of another user", .argv = { NULL, "work" }, .expected = "", .is_nobodys = true },
	};
	static const struct trial secure = { .name = "a program with more rights than its caller",
		.argv = { NULL, "secure" }, .expected = "", .is_secure = true };
	if (!can_become(&secure))
		return pass_over_others(t);
	const char *path = find_setuid();
	struct trial real = { .name = path, .argv = { path, "--version" }, .is_nobodys = true };
	for (size_t i = 0; i < sizeof ordinary / sizeof *ordinary; i++)
		if (!passes(t, &ordinary[i], probe, NULL))
			return false;
	return passes(t, &secure, probe, NULL) && (path == NULL || passes(t, &real, probe, NULL));
}

static bool try_all(const struct trials *t) {
	int probe = open_probe();
	if (probe < 0) {
		complain("preload: %s: %s", HAK_PROBE_PATH, strerror(errno));
		return false;
	}
	if (fchdir(t->root) != 0)
		return false;
	bool by_file = t->is_written || make_private_view(t->text);
	if (!enter(t->root)) {
		complain("preload: programs of another system cannot be tried: %s", strerror(errno));
		return false;
	}
	for (size_t i = 0; i < sizeof always / sizeof *always; i++)
		if (!passes(t, &always[i], probe, by_file ? NULL : t->path))
			return false;
	return by_file && geteuid() == 0 ? try_as_others(t, probe) : pass_over_others(t);
}

/* In a process of its own, since the view and the root last as long as the process. */
bool preload_try(const struct trials *t) {
	int status = -1;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		bool passed = try_all(t);
		fflush(stdout);
		_exit(passed ? 0 : 1);
	}
	if (pid < 0 || TEMP_FAILURE_RETRY(waitpid(pid, &status, 0)) != pid) {
		complain("preload: nothing can be tried: %s", strerror(errno));
		return false;
	}
	if (!WIFEXITED(status))
		complain("preload: the trials were interrupted");
	return status == 0;
}

void preload_ask_server(int root, const char *preload, char *server, size_t size) {
	static const struct trial who = { .name = "who", .argv = { NULL, "server" } };
	struct output o = { .status = -1 };
	int probe = open_probe(), answer[2];
	server[0] = '\0';
	if (probe < 0 || pipe2(answer, O_CLOEXEC) != 0)
		return;
	pid_t pid = fork();
	if (pid == 0) {
		if (fchdir(root) == 0 && enter(root) && run(&who, probe, preload, &o) && o.status == 0)
			dprintf(answer[1], "%s", o.text);
		_exit(0);
	}
	close(answer[1]);
	ssize_t got = pid > 0 ? TEMP_FAILURE_RETRY(read(answer[0], server, size - 1)) : 0;
	server[got > 0 ? got : 0] = '\0';
	close(answer[0]);
	close(probe);
	if (pid > 0)
		(void)TEMP_FAILURE_RETRY(waitpid(pid, NULL, 0));
}
