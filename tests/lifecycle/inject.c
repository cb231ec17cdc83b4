/* SPDX-License-Identifier: MIT */
/*
 * Makes the allocator's system calls fail one by one: runs a program again and again under ptrace,
 * and in run n makes its n-th mmap, munmap, mremap, madvise or mprotect, counted from its first
 * stop, fail with ENOMEM without being carried out. (Not brk, whose failure looks different: it
 * gives the old break.) The runs end when the program does so without having made n calls.
 *
 * The program stops itself (SIGSTOP) twice: when counting shall begin, and when nothing is to fail
 * any more. It must exit with 0 every time. Exit status 77 if it makes no such call.
 *
 * Usage: inject [-k CALL] [-e ERROR] [-f N] [-c COUNT] [-s STEP] [-l LIBRARY] PROGRAM [ARGUMENT]...
 *   -k CALL   only this of the five is counted and fails
 *   -e ERROR  with which it fails: ENOMEM, EAGAIN or EPERM (ENOMEM)
 *   -f N      the first run fails the N-th call (1)
 *   -c COUNT  so many calls in a row fail, 0: all from the n-th on (1)
 *   -s STEP   every STEP-th n only (1)
 *   -l        LIBRARY is preloaded into the program
 */
#include "regs.h"
#include "../death/child.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUN_SECONDS = 30, MAX_THREADS = 16 };

enum phase { BEFORE, COUNTING, AFTER };

static struct {
	long first, count, step;
	long call; /* -1: any of the five */
	int error;
	const char *library;
	char **program;
} options = {.first = 1, .count = 1, .step = 1, .call = -1, .error = ENOMEM};

struct name {
	const char *name;
	long value;
};
static const struct name calls[] = {{"mmap", SYS_mmap}, {"munmap", SYS_munmap},
	{"mremap", SYS_mremap}, {"madvise", SYS_madvise}, {"mprotect", SYS_mprotect}, {NULL, 0}};
static const struct name errors[] = {{"ENOMEM", ENOMEM}, {"EAGAIN", EAGAIN}, {"EPERM", EPERM},
	{NULL, 0}};

/* One run. */
static struct {
	pid_t pid;
	enum phase phase;
	long n;     /* which call is to fail */
	long calls; /* made so far */
} run;

/* Threads amid a call that is to fail: its result is set at its end. */
static pid_t failing[MAX_THREADS];

static void give_up(int signal)
{
	kill(run.pid, SIGKILL);
}

static void start_program(void)
{
	run.pid = fork();
	if (run.pid < 0) {
		perror("fork");
		exit(1);
	}
	if (run.pid)
		return;
	if (options.library)
		setenv("LD_PRELOAD", options.library, 1);
	setenv("HAKMEM_EXPECT", options.library ? "1" : "0", 1);
	setenv("HAKMEM_WRAP_TINY", "1", 1);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(CHILD_SKIPPED);
	execv(options.program[0], options.program);
	_exit(127);
}

static bool is_counted(long number)
{
	if (options.call >= 0)
		return number == options.call;
	for (const struct name *call = calls; call->name; call++)
		if (number == call->value)
			return true;
	return false;
}

static bool is_to_fail(void)
{
	return run.calls >= run.n && (options.count == 0 || run.calls < run.n + options.count);
}

static pid_t *find_failing(pid_t thread)
{
	for (size_t i = 0; i < MAX_THREADS; i++)
		if (failing[i] == thread)
			return &failing[i];
	return NULL;
}

static void at_entry(pid_t thread)
{
	pid_t *room = find_failing(0);

	if (run.phase != COUNTING || !is_counted(regs_get_call(thread)))
		return;
	run.calls++;
	if (!is_to_fail() || !room)
		return;
	*room = thread;
	regs_skip_call(thread);
}

static void at_exit(pid_t thread)
{
	pid_t *found = find_failing(thread);

	if (!found)
		return;
	*found = 0;
	regs_set_result(thread, -options.error);
}

static void at_call(pid_t thread)
{
	struct __ptrace_syscall_info info = {0};

	ptrace(PTRACE_GET_SYSCALL_INFO, thread, (void *)sizeof info, &info);
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
		at_entry(thread);
	else if (info.op == PTRACE_SYSCALL_INFO_EXIT)
		at_exit(thread);
}

/* What stopped the thread; returns the signal to pass on. */
static int at_stop(pid_t thread, int status)
{
	int signal = WSTOPSIG(status);

	if (signal == (SIGTRAP | 0x80)) {
		at_call(thread);
		return 0;
	}
	if (status >> 16 || signal == SIGTRAP)
		return 0; /* a new thread, or exec */
	if (signal != SIGSTOP)
		return signal;
	if (thread == run.pid && run.phase != AFTER)
		run.phase++;
	return 0; /* threads too begin with one */
}

/* Runs the program once; returns its wait status. */
static int run_once(long n)
{
	int status;
	pid_t thread;

	memset(&run, 0, sizeof run);
	memset(failing, 0, sizeof failing);
	run.n = n;
	start_program();
	alarm(RUN_SECONDS);
	if (waitpid(run.pid, &status, 0) != run.pid || !WIFSTOPPED(status))
		return status;
	ptrace(PTRACE_SETOPTIONS, run.pid, NULL,
		PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE);
	ptrace(PTRACE_CONT, run.pid, NULL, NULL);
	while ((thread = waitpid(-1, &status, __WALL)) > 0) {
		if (!WIFSTOPPED(status)) {
			if (thread == run.pid)
				break;
			continue;
		}
		long signal = at_stop(thread, status);

		ptrace(run.phase == COUNTING ? PTRACE_SYSCALL : PTRACE_CONT, thread, NULL, signal);
	}
	alarm(0);
	return status;
}

/* A run in which nothing fails; returns what main is to return if it must end after that. */
static int check_possible(void)
{
	int status = run_once(LONG_MAX);

	if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SKIPPED)
		return CHILD_SKIPPED; /* no ptrace here */
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || run.phase != AFTER) {
		fprintf(stderr, "inject: the program fails by itself, wait status %#x\n", status);
		return 1;
	}
	if (run.calls > 0)
		return 0;
	puts("inject: no such call is made, or the kernel has no PTRACE_GET_SYSCALL_INFO");
	return CHILD_SKIPPED;
}

static bool find_name(const struct name *names, const char *name, long *valuep)
{
	for (; names->name; names++)
		if (strcmp(names->name, name) == 0) {
			*valuep = names->value;
			return true;
		}
	return false;
}

static bool parse(int argc, char **argv)
{
	int option;
	long error = ENOMEM;

	while ((option = getopt(argc, argv, "+k:e:f:c:s:l:")) >= 0)
		switch (option) {
		case 'k':
			if (!find_name(calls, optarg, &options.call))
				return false;
			break;
		case 'e':
			if (!find_name(errors, optarg, &error))
				return false;
			options.error = (int)error;
			break;
		case 'f':
			options.first = atol(optarg);
			break;
		case 'c':
			options.count = atol(optarg);
			break;
		case 's':
			options.step = atol(optarg);
			break;
		case 'l':
			options.library = strcmp(optarg, "-") == 0 ? NULL : optarg;
			break;
		default:
			return false;
		}
	options.program = argv + optind;
	return *options.program && options.first > 0 && options.step > 0 && options.count >= 0;
}

static bool is_passed(int status, long n)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	fprintf(stderr, "inject: with call %ld failing (%ld in a row): %s %d\n", n, options.count,
		WIFSIGNALED(status) ? "signal" : "exit status",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return false;
}

int main(int argc, char **argv)
{
	long n, failed = 0;
	int status;

	if (!parse(argc, argv)) {
		fprintf(stderr,
			"usage: inject [-k CALL] [-e ERROR] [-f N] [-c COUNT] [-s STEP] [-l LIBRARY] "
			"PROGRAM [ARGUMENT]...\n");
		return 2;
	}
	signal(SIGALRM, give_up);
	status = check_possible();
	if (status)
		return status;
	for (n = options.first;; n += options.step) {
		status = run_once(n);
		failed += !is_passed(status, n);
		if (run.calls < n)
			break;
	}
	printf("inject: %ld runs, %ld failed\n", (n - options.first) / options.step + 1, failed);
	return failed > 0;
}
