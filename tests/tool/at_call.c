/* SPDX-License-Identifier: MIT */
/*
 * Runs a program and has its N-th system call fail with an error, without being carried out, or kills
 * it there, or another process: then the call is carried out once that one's memory has gone. Calls are
 * counted from the start of the program on.
 *
 *   at_call N ERROR|kill|PID PROGRAM [ARGUMENT]...
 *
 * Exit status: the program's, 137 if it was killed, and 100 if it ended before its N-th call.
 */
#include "../lifecycle/regs.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOO_FEW = 100, CANNOT = 101 };

static const struct {
	const char *name;
	int error;
} errors[] = {
	{ "EINTR", EINTR }, { "EIO", EIO }, { "ENOSPC", ENOSPC }, { "EROFS", EROFS },
	{ "EPERM", EPERM }, { "ENOMEM", ENOMEM }, { "ESRCH", ESRCH }, { "kill", 0 },
};

static int error_of(const char *name)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (!strcmp(name, errors[i].name))
			return errors[i].error;
	fprintf(stderr, "at_call: unknown error %s\n", name);
	exit(CANNOT);
}

static void end_process(pid_t pid)
{
	char byte;
	struct iovec local = { &byte, 1 }, remote = { (void *)8, 1 };

	kill(pid, SIGKILL);
	while (process_vm_readv(pid, &local, 1, &remote, 1, 0) != -1 || errno != ESRCH)
		usleep(1000);
}

static pid_t start(char **argv)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(CANNOT);
		execv(argv[0], argv);
		_exit(CANNOT);
	}
	return pid;
}

static int status_of(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Goes on to the next entry or end of a call. false: the program has ended. */
static bool go_on(pid_t pid, int *statusp)
{
	int signal = 0;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(long)signal) ||
			waitpid(pid, statusp, 0) != pid)
			exit(CANNOT);
		if (!WIFSTOPPED(*statusp))
			return false;
		signal = WSTOPSIG(*statusp);
		if (signal == (SIGTRAP | 0x80))
			return true;
		if (signal == SIGTRAP)
			signal = 0;
	}
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return CANNOT;
	long n = atol(argv[1]);
	pid_t other = (pid_t)atol(argv[2]);
	int error = other > 0 ? 0 : error_of(argv[2]), status;
	pid_t pid = start(argv + 3);

	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return CANNOT;
	ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
	long calls = 1;
	for (; go_on(pid, &status); calls++) {
		if (calls == n && other > 0)
			end_process(other);
		else if (calls == n && error == 0) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return 128 + SIGKILL;
		}
		if (calls == n && error != 0)
			regs_skip_call(pid);
		if (!go_on(pid, &status))
			return calls < n ? TOO_FEW : status_of(status);
		if (calls == n && error != 0)
			regs_set_result(pid, -error);
	}
	return calls <= n ? TOO_FEW : status_of(status);
}
