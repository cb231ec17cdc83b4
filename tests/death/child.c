/* SPDX-License-Identifier: MIT */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 64 };

static void die(const char *what)
{
	perror(what);
	abort();
}

static long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The emulator takes the variable as an option: set in its own environment it would make the
   emulator itself load the library of the other architecture. */
static void exec_wrapped(char *wrapper, const char *preload, char *const argv[])
{
	static char option[] = "-E", variable[4096];
	char *words[MAX_ARGUMENTS];
	size_t count = 0;

	for (char *word = strtok(wrapper, " "); word && count < 16; word = strtok(NULL, " "))
		words[count++] = word;
	if (preload) {
		snprintf(variable, sizeof variable, "LD_PRELOAD=%s", preload);
		words[count++] = option;
		words[count++] = variable;
	}
	while (*argv && count < MAX_ARGUMENTS - 1)
		words[count++] = *argv++;
	words[count] = NULL;
	execvp(words[0], words);
}

/* What this process inherited is not the program's business, which may count its files. */
static void close_files_on_exec(void)
{
	for (int fd = 3; fd < 256; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static void exec_child(const char *preload, char *const argv[], int out, int err)
{
	char *wrapper = getenv("HAKMEM_TEST_WRAPPER");

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* what hangs ends with a test that is ended for it */
	close_files_on_exec();
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	unsetenv("LD_PRELOAD");
	/* What is tested is our allocator, also in a build whose default leaves tiny blocks to libc. */
	setenv("HAKMEM_WRAP_TINY", "1", 0);
	if (wrapper)
		exec_wrapped(wrapper, preload, argv);
	if (preload)
		setenv("LD_PRELOAD", preload, 1);
	execv(argv[0], argv);
	perror(argv[0]);
	_exit(127);
}

/* Reads what is there; false at the end of the text. */
static bool gather(struct child_text *to, int fd)
{
	char chunk[4096];
	ssize_t got = read(fd, chunk, sizeof chunk);

	if (got <= 0)
		return got < 0 && errno == EINTR;
	for (ssize_t i = 0; i < got; i++, to->length++)
		if (to->length < sizeof to->text - 1)
			to->text[to->length] = chunk[i];
	return true;
}

/* Gathers both texts until their ends; false if the time was up first. */
static bool gather_all(struct child_result *result, int out, int err, long long deadline)
{
	struct pollfd fds[] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};

	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		long long left = deadline - now_ms();

		if (left <= 0)
			return false;
		if (poll(fds, 2, (int)left) <= 0)
			continue;
		if (fds[0].revents && !gather(&result->out, out))
			fds[0].fd = -1;
		if (fds[1].revents && !gather(&result->err, err))
			fds[1].fd = -1;
	}
	return true;
}

static bool await_end(struct child_result *result, long long deadline)
{
	while (now_ms() < deadline) {
		if (waitpid(result->pid, &result->status, WNOHANG) == result->pid)
			return true;
		nanosleep(&(struct timespec){0, 500000}, NULL);
	}
	return false;
}

void child_run(struct child_result *result, const char *preload, char *const argv[],
	unsigned seconds)
{
	long long deadline = now_ms() + seconds * 1000LL;
	int out[2], err[2];

	memset(result, 0, sizeof *result);
	fflush(NULL);
	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		die("pipe2");
	result->pid = fork();
	if (result->pid < 0)
		die("fork");
	if (result->pid == 0)
		exec_child(preload, argv, out[1], err[1]);
	close(out[1]);
	close(err[1]);
	result->timed_out = !gather_all(result, out[0], err[0], deadline) ||
		!await_end(result, deadline);
	kill(-result->pid, SIGKILL);
	if (result->timed_out)
		waitpid(result->pid, &result->status, 0);
	close(out[0]);
	close(err[0]);
}

bool child_exited(const struct child_result *result, int code)
{
	return !result->timed_out && WIFEXITED(result->status) && WEXITSTATUS(result->status) == code;
}

bool child_killed(const struct child_result *result, int signal)
{
	return !result->timed_out && WIFSIGNALED(result->status) &&
		WTERMSIG(result->status) == signal;
}

void child_print(const struct child_result *result)
{
	if (result->timed_out)
		fprintf(stderr, "still running when its time was up\n");
	else if (WIFSIGNALED(result->status))
		fprintf(stderr, "ended by signal %d\n", WTERMSIG(result->status));
	else
		fprintf(stderr, "exit status %d\n", WEXITSTATUS(result->status));
	fprintf(stderr, "---- stdout, %zu bytes\n%s", result->out.length, result->out.text);
	fprintf(stderr, "---- stderr, %zu bytes\n%s----\n", result->err.length, result->err.text);
}
