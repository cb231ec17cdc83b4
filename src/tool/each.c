/* SPDX-License-Identifier: MIT */
#include "tool/each.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/process.h"

/* For a sign of life, in ms; and when some have given none, for those that follow. */
enum { PATIENCE = 2000, LITTLE_PATIENCE = 100, SOME = 3 };

/* Of the child. */
struct progress {
	volatile uint64_t beats; /* readings of memory begun, see process.h */
	volatile size_t at;      /* the process that it looks at, or `count` */
};

static bool note(struct each *e, size_t *roomp, pid_t pid) {
	if (e->count == *roomp) {
		size_t room = *roomp != 0 ? 2 * *roomp : 1024;
		pid_t *more = realloc(e->pid, room * sizeof *more);
		if (more == NULL)
			return false;
		e->pid = more;
		*roomp = room;
	}
	e->pid[e->count++] = pid;
	return true;
}

bool each_begin(struct each *e) {
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	size_t room = 0;
	*e = (struct each){ .pid = NULL };
	while (proc != NULL && (entry = readdir(proc)) != NULL) {
		long pid = strtol(entry->d_name, NULL, 10);
		if (pid > 0 && pid != getpid() && !note(e, &room, (pid_t)pid))
			break;
	}
	bool is_there = access("/proc/self", F_OK) == 0;
	if (proc != NULL)
		closedir(proc);
	if (!is_there)
		complain("no process can be seen: is /proc mounted?");
	return is_there;
}

void each_end(struct each *e) {
	free(e->pid);
	e->pid = NULL;
}

void *each_shared(size_t size) {
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return at != MAP_FAILED ? at : NULL;
}

/* `p`: where the child begins. */
static void visit_from(const struct each *e, struct progress *p, void (*visit)(void *arg, pid_t pid), void *arg) {
	process_beats = &p->beats;
	for (; p->at < e->count; p->at++) {
		visit(arg, e->pid[p->at]);
		fflush(stdout); /* all about one process, or nothing */
	}
}

/* Copies what the child says until it has ended. False: it stands still. */
static bool relay(int fd, const struct progress *p, int patience) {
	struct pollfd in = { .fd = fd, .events = POLLIN };
	char piece[4096];
	for (;;) {
		uint64_t beats = p->beats;
		size_t at = p->at;
		int ready = poll(&in, 1, patience);
		if (ready == 0 && p->beats == beats && p->at == at)
			return false;
		ssize_t got = ready > 0 ? read(fd, piece, sizeof piece) : -1;
		if (ready > 0 && got <= 0)
			return true;
		if (got > 0)
			fwrite(piece, 1, (size_t)got, stdout);
	}
}

/* A child that goes on from `p`, and what it says. -1: none. */
static pid_t begin(const struct each *e, struct progress *p, void (*visit)(void *arg, pid_t pid), void *arg, int *fdp) {
	enum { ROOM = 1 << 20 };
	static char said[ROOM];
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		dup2(ends[1], STDOUT_FILENO);
		setvbuf(stdout, said, _IOFBF, sizeof said);
		visit_from(e, p, visit, arg);
		_exit(0);
	}
	close(ends[1]);
	if (child < 0)
		close(ends[0]);
	*fdp = ends[0];
	return child;
}

void each_visit(struct each *e, void (*visit)(void *arg, pid_t pid), void *arg) {
	struct progress *p = each_shared(sizeof *p), alone = { 0 };
	while (p != NULL && p->at < e->count) {
		int fd;
		pid_t child = begin(e, p, visit, arg, &fd);
		if (child < 0)
			break;
		bool has_ended = relay(fd, p, e->stuck < SOME ? PATIENCE : LITTLE_PATIENCE);
		close(fd);
		if (!has_ended)
			kill(child, SIGKILL); /* in time */
		waitpid(child, NULL, has_ended ? 0 : WNOHANG);
		e->stuck += p->at < e->count;
		p->at += p->at < e->count;
	}
	if (p != NULL) {
		alone.at = p->at;
		munmap(p, sizeof *p);
	}
	visit_from(e, &alone, visit, arg); /* what is left where there can be no child */
	process_beats = NULL;
	while (waitpid(-1, NULL, WNOHANG) > 0) /* some that were left behind at an earlier time */
		continue;
}
