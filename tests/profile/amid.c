// SPDX-License-Identifier: MIT
/* What comes while a report is being written that a signal asked for. The report goes to a pipe that is full, or soon will
 * be: it is not out before the pipe is read.
 *
 *   amid exit     a signal whose handler calls exit: the process ends once the report is out
 *   amid profile  another thread's signal, and exit: each profile is whole
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPORT = SIGUSR1, PATIENCE_MS = 20000, READY = 3 /* a descriptor: a byte for each step */ };

#define REQUIRE(x) \
	do { \
		if (!(x)) { \
			dprintf(STDOUT_FILENO, "%s: %s\n", #x, strerror(errno)); \
			_exit(1); \
		} \
	} while (0)

/* ---- the process that reports ---- */

/* All but a page, which a report takes more than. */
static void narrow(int pipe_end)
{
	static char page[1 << 16];
	long size = sysconf(_SC_PAGESIZE);

	REQUIRE((size_t)size <= sizeof page && fcntl(pipe_end, F_SETPIPE_SZ, 2 * size) == 2 * size);
	REQUIRE(write(pipe_end, page, (size_t)size) == size);
}

static void await_more_than_a_page(int pipe_end)
{
	int bytes;

	do
		REQUIRE(usleep(1000) == 0 && ioctl(pipe_end, FIONREAD, &bytes) == 0);
	while (bytes <= sysconf(_SC_PAGESIZE));
}

static void fill(int pipe_end)
{
	static const char block[4096];

	REQUIRE(fcntl(pipe_end, F_SETFL, O_NONBLOCK) == 0);
	while (write(pipe_end, block, sizeof block) > 0)
		continue;
	REQUIRE(fcntl(pipe_end, F_SETFL, 0) == 0);
}

static void say(void)
{
	REQUIRE(write(READY, "", 1) == 1);
}

static void end(int number)
{
	exit(0);
}

static int wait_to_be_ended(void)
{
	signal(SIGTERM, end);
	fill(STDERR_FILENO);
	say();
	while (pause() != 0)
		continue;
	return 1;
}

static void *report(void *unused)
{
	pthread_kill(pthread_self(), REPORT);
	return NULL;
}

/* Blocks from many stacks. */
static __attribute__((noinline)) int take_deeply(int depth)
{
	void *volatile block = malloc(1 << 20);
	int taken = block != NULL && depth > 0 ? 1 + take_deeply(depth - 1) : 0;

	__asm__ volatile("" : "+r"(taken)); /* no loop */
	return taken;
}

static int write_profiles(void)
{
	enum { DEPTH = 100 };
	pthread_t first, second;

	REQUIRE(take_deeply(DEPTH) == DEPTH);
	narrow(STDOUT_FILENO);
	REQUIRE(pthread_create(&first, NULL, report, NULL) == 0);
	await_more_than_a_page(STDOUT_FILENO);
	REQUIRE(pthread_create(&second, NULL, report, NULL) == 0);
	REQUIRE(pthread_join(second, NULL) == 0);
	say(); /* it did not wait for the first */
	return 0;
}

/* ---- who started it ---- */

static bool comes(int fd)
{
	return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, PATIENCE_MS) == 1;
}

static void await_step(int ready)
{
	char byte;

	REQUIRE(comes(ready) && read(ready, &byte, 1) == 1);
}

/* What is there after the zeros, as text. */
static char *read_all(int fd)
{
	static char text[1 << 22];
	size_t len = 0;
	ssize_t n;

	do {
		REQUIRE(comes(fd));
		n = read(fd, text + len, sizeof text - 1 - len);
		REQUIRE(n >= 0);
		len += (size_t)n;
	} while (n > 0);
	text[len] = '\0';
	for (n = 0; text[n] == '\0' && (size_t)n < len; n++)
		continue;
	return text + n;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)) != NULL; text++)
		n++;
	return n;
}

int main(int argc, char **argv)
{
	bool is_exit = argc > 1 && strcmp(argv[1], "exit") == 0;
	int report_pipe[2], ready[2], status;
	char *text;
	pid_t child;

	if (argc == 3)
		return is_exit ? wait_to_be_ended() : write_profiles();
	REQUIRE(pipe(report_pipe) == 0 && pipe(ready) == 0 && (child = fork()) >= 0);
	if (child == 0) {
		setenv(is_exit ? "HAKMEM_STATS_SIGNAL" : "HAKMEM_SAMPLE_SIGNAL", "10", 1);
		setenv(is_exit ? "HAKMEM_STATS" : "HAKMEM_SAMPLE", is_exit ? "1" : "4K", 1);
		setenv("HAKMEM_SAMPLE_FILE", "/dev/stdout", 1);
		dup2(ready[1], 100);
		dup2(report_pipe[1], is_exit ? STDERR_FILENO : STDOUT_FILENO);
		dup2(100, READY);
		for (int fd = READY + 1; fd <= 100; fd++)
			close(fd);
		execl("/proc/self/exe", argv[0], argv[1], "child", NULL);
		_exit(127);
	}
	close(report_pipe[1]);
	close(ready[1]);
	await_step(ready[0]);
	if (is_exit) {
		kill(child, REPORT);
		usleep(300000);
		kill(child, SIGTERM);
		usleep(300000);
	}
	text = read_all(report_pipe[0]);
	REQUIRE(waitpid(child, &status, 0) == child && status == 0);
	if (is_exit) /* which knows its name, though it was executed as "exe" */
		REQUIRE(count(text, "hakmem: statistics of amid[") == 2);
	else
		REQUIRE(count(text, "heap profile: ") == 2 && count(text, "\nMAPPED_LIBRARIES:\n") == 2 &&
			strstr(text, "\nMAPPED_LIBRARIES:\n") < strstr(text + 1, "heap profile: "));
	return 0;
}
