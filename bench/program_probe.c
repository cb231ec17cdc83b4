/* SPDX-License-Identifier: MIT */
/* Looking at processes from outside; see program_probe.h. */
#include "program_probe.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

enum { NO_TRACING = 126 };

/* Waits for the next stop; false if the program has ended, then with *statusp as its end. */
static bool next_stop(pid_t pid, int *statusp) {
	while (waitpid(pid, statusp, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFSTOPPED(*statusp);
}

/* A call stops the program twice, at its entry and at its exit; the last one, that of its end, only
   once. Other signals are passed on. */
static size_t count_stops(pid_t pid) {
	size_t stops = 0;
	int status, pass_on = 0;
	while (ptrace(PTRACE_SYSCALL, pid, 0, pass_on) == 0 && next_stop(pid, &status)) {
		bool is_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
		stops += is_call;
		pass_on = is_call ? 0 : WSTOPSIG(status);
	}
	return stops;
}

size_t program_count_calls(const char *const *argv, char *const *envp) {
	pid_t pid = fork();
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
			_exit(NO_TRACING);
		execve(argv[0], (char *const *)(uintptr_t)argv, envp);
		_exit(NO_TRACING);
	}
	int status;
	if (pid < 0 || !next_stop(pid, &status)) /* the stop of the exec */
		return 0;
	if (ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return 0;
	}
	return (count_stops(pid) + 1) / 2;
}

/* Reads the first line of /proc/PID/`name`; returns `line`. */
static const char *first_line(pid_t pid, const char *name, char line[512]) {
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	FILE *file = fopen(path, "re");
	if (file == NULL || fgets(line, 512, file) == NULL)
		workload_fail("cannot read %s", path);
	fclose(file);
	return line;
}

/* One that waits for a processor stands still, too. */
static bool sleeps(pid_t pid) {
	char line[512], state;
	return sscanf(first_line(pid, "stat", line), "%*d (%*[^)]) %c", &state) == 1 && state == 'S';
}

void program_wait_until_idle(pid_t pid) {
	enum { TRIES = 500 };
	clockid_t clock;
	struct timespec before, now = {0}; /* on a CPU */
	for (int i = 0; i < TRIES; i++) {
		before = now;
		nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
		if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &now) != 0)
			workload_fail("process %d has no clock", (int)pid);
		if (now.tv_sec == before.tv_sec && now.tv_nsec == before.tv_nsec && (now.tv_sec | now.tv_nsec) != 0 &&
				sleeps(pid))
			return;
	}
	workload_fail("process %d does not come to rest", (int)pid);
}

unsigned long long program_faults(pid_t pid) {
	char line[512];
	unsigned long long faults;
	if (sscanf(first_line(pid, "stat", line), "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %llu",
			&faults) != 1)
		workload_fail("cannot understand stat: %s", line);
	return faults;
}
