/* SPDX-License-Identifier: MIT */
/*
 * Runs a program and meddles with it from outside, at random moments, until it ends: stops it, lets
 * it go on, and takes and gives back the right to more memory (RLIMIT_AS, RLIMIT_DATA). Beside it runs
 * a second one, which is killed anywhere and started anew. The first must print a line when it can bear
 * that, and exit with 0.
 *
 * Usage: meddle LIBRARY PROGRAM [ARGUMENT]...
 */
#include "../death/child.h"
#include "../random.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t seed;
static const char *library;
static char **program;
static int null;

static void sleep_us(uint64_t us)
{
	nanosleep(&(struct timespec){(time_t)(us / 1000000), (long)(us % 1000000 * 1000)}, NULL);
}

/* What it prints goes to `out`. */
static pid_t start(int out)
{
	pid_t pid = fork();

	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (pid)
		return pid;
	dup2(out, STDOUT_FILENO);
	setenv("LD_PRELOAD", library, 1);
	setenv("HAKMEM_WRAP_TINY", "1", 1);
	setenv("HAKMEM_EXPECT", "1", 1); /* PROGRAM sees to it, see ../serves.h */
	execv(program[0], program);
	_exit(127);
}

/* Waits for its first line, or its end: until then the dynamic loader and the program take no NULL for an answer. */
static bool has_begun(int out)
{
	struct pollfd piece = {.fd = out, .events = POLLIN};
	char text[64];
	ssize_t length;

	do {
		if (poll(&piece, 1, 60000) != 1)
			return false;
		length = read(out, text, sizeof text);
	} while (length > 0 && !memchr(text, '\n', (size_t)length));
	return length >= 0;
}

/* The n-th number in /proc/PID/statm: pages. */
static size_t pages_of(pid_t pid, int n)
{
	char path[64], text[128] = "", *at = text;
	size_t value = 0;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
		n = 0;
	close(fd);
	while (n-- > 0)
		value = strtoul(at, &at, 10);
	return value;
}

static size_t starved; /* how often that was possible */

/* From here on the program gets hardly more of `resource` than it has, for some milliseconds. */
static void starve(pid_t pid, int resource, int which)
{
	struct rlimit before, limit;
	size_t have = pages_of(pid, which) * (size_t)sysconf(_SC_PAGESIZE);

	if (prlimit(pid, resource, NULL, &before) != 0)
		return;
	limit = before;
	limit.rlim_cur = have + next_random(&seed) % (4 << 20);
	starved += prlimit(pid, resource, &limit, NULL) == 0;
	sleep_us(next_random(&seed) % 20000);
	prlimit(pid, resource, &before, NULL);
}

static void meddle(pid_t pid)
{
	switch (next_random(&seed) % 3) {
	case 0:
		kill(pid, SIGSTOP);
		sleep_us(next_random(&seed) % 5000);
		kill(pid, SIGCONT);
		break;
	case 1:
		starve(pid, RLIMIT_AS, 1);
		break;
	default:
		starve(pid, RLIMIT_DATA, 6);
	}
	sleep_us(next_random(&seed) % 10000);
}

static void replace(pid_t *neighbour)
{
	kill(*neighbour, SIGKILL);
	waitpid(*neighbour, NULL, 0);
	*neighbour = start(null);
}

int main(int argc, char **argv)
{
	pid_t pid, neighbour;
	int status, line[2]; /* a pipe */
	long times = 0;

	if (argc < 3) {
		fprintf(stderr, "usage: meddle LIBRARY PROGRAM [ARGUMENT]...\n");
		return 2;
	}
	library = argv[1];
	program = argv + 2;
	seed = (uint64_t)time(NULL) * 2654435761 + (uint64_t)getpid();
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || pipe2(line, O_CLOEXEC) != 0) {
		perror("meddle");
		return 1;
	}
	pid = start(line[1]);
	neighbour = start(null);
	close(line[1]);
	if (!has_begun(line[0])) {
		fprintf(stderr, "meddle: no sign of life\n");
		kill(pid, SIGKILL);
		kill(neighbour, SIGKILL);
		return 1;
	}
	for (; waitpid(pid, &status, WNOHANG) == 0; times++) {
		meddle(pid);
		if (times % 16 == 0)
			replace(&neighbour);
	}
	kill(neighbour, SIGKILL);
	waitpid(neighbour, NULL, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && times > 10)
		return starved > 0 ? 0 : 77; /* limits may be low for good, or not be ours to set */
	fprintf(stderr, "meddle: after %ld times: wait status %#x\n", times, status);
	return 1;
}
