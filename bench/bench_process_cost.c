/* SPDX-License-Identifier: MIT */
/*
 * What a process pays for its allocator before it has done anything: `true`, run a few hundred
 * times, and idle processes, `sleep` and python3. An allocator that is preloaded for a whole system
 * is paid for by each of its short-lived programs and idle services.
 *
 * Everything is measured in turn with the allocator that serves this workload, and without a
 * preload (names ending in _plain), so that the difference is free of the machine's mood. CPU times
 * are medians. An allocator is good at it if it is small, needs few relocations, touches few pages
 * and makes few system calls until the first call of malloc, and little at that one.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "program.h"
#include "program_probe.h"
#include "workload.h"

static struct parameter parameters[] = {
	{"SPAWNS", "how often `true` is run, with the allocator and without", 1, 100000, 300},
	{.name = NULL},
};

static const struct workload workload = {
	.name = "bench_process_cost",
	.summary = "the cost of short and of idle processes; an operation is one run of `true`; the peak\n"
		"memory is that of an idle `sleep`",
	.parameters = parameters,
};

/* With the workload's allocator, and without a preload. */
enum variant { SERVED, PLAIN, VARIANTS };

static const char *const suffix[VARIANTS] = {"", "_plain"};
static char **environment[VARIANTS];

static char **build_environment(enum variant variant) {
	static char preload[PATH_MAX + 16];
	size_t count = 0, used = 0;
	while (environ[count] != NULL)
		count++;
	char **all = scratch((count + 2) * sizeof(*all));
	for (size_t i = 0; i < count; i++)
		if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
			all[used++] = environ[i];
	if (variant == SERVED && !program_object_is_libc()) {
		snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", program_object());
		all[used++] = preload;
	}
	return all;
}

/* What /etc/ld.so.preload names is loaded by every process: none is without a preload then. */
static bool is_preloaded_for_all(void) {
	FILE *file = fopen("/etc/ld.so.preload", "re");
	char name[2];
	bool any = false;
	while (file != NULL && !any && fscanf(file, " %1s", name) == 1) {
		any = name[0] != '#';
		if (fscanf(file, "%*[^\n]") < 0)
			break;
	}
	if (file != NULL)
		fclose(file);
	return any;
}

/* By vfork, which copies no page tables: fork's copies and their faults would count as the program's. The child has
   this process's memory until it runs the program, so `error` comes back, and it must not end by workload_fail. */
static pid_t spawn(const char *const *argv, enum variant variant) {
	volatile int error = 0;
	pid_t parent = getpid(), pid = vfork();
	if (pid == 0) {
		program_end_with(parent);
		execve(argv[0], (char *const *)(uintptr_t)argv, environment[variant]);
		error = errno;
		_exit(127);
	}
	if (pid < 0 || error != 0)
		workload_fail("cannot run %s: %s", argv[0], strerror(pid < 0 ? errno : error));
	return pid;
}

static void figure(const char *program, const char *what, enum variant variant, double value,
		const char *unit) {
	char name[48];
	snprintf(name, sizeof(name), "%s_%s%s", program, what, suffix[variant]);
	workload_figure(name, value, unit);
}

/* Nothing if tracing is not allowed. */
static void measure_calls(const char *program, const char *const *argv, enum variant variant) {
	size_t calls = program_count_calls(argv, environment[variant]);
	if (calls > 0)
		figure(program, "calls", variant, (double)calls, "calls");
}

/* ---- A short process ---- */

/* Per run of `true`. */
struct runs {
	double *cpu; /* seconds */
	long faults; /* of all runs */
};

static void run_once(const char *const *argv, enum variant variant, struct runs *runs, size_t run) {
	struct usage usage;
	double begin = wall_seconds();
	if (program_wait(spawn(argv, variant), &usage) != 0)
		workload_fail("%s failed", argv[0]);
	runs->cpu[run] = usage.cpu;
	runs->faults += usage.faults;
	if (variant == SERVED)
		workload_add(wall_seconds() - begin, runs->cpu[run], 1);
}

static int compare_doubles(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Both variants in turn, each as often the first. */
static void measure_true(const char *const *argv) {
	size_t count = parameters[0].value;
	struct runs runs[VARIANTS] = {0};
	for (int v = 0; v < VARIANTS; v++)
		runs[v].cpu = scratch(count * sizeof(double));
	for (size_t i = 0; i < count; i++)
		for (int v = 0; v < VARIANTS; v++)
			run_once(argv, v ^ (i & 1), &runs[v ^ (i & 1)], i);
	for (int v = 0; v < VARIANTS; v++) {
		qsort(runs[v].cpu, count, sizeof(double), compare_doubles);
		figure("true", "cpu", v, runs[v].cpu[count / 2] * 1e6, "us");
		figure("true", "faults", v, (double)runs[v].faults / (double)count, "faults");
		measure_calls("true", argv, v);
	}
	double plain = runs[PLAIN].cpu[count / 2];
	if (plain > 0)
		workload_figure("true_cpu_ratio", runs[SERVED].cpu[count / 2] / plain, "to plain");
}

/* ---- An idle process ---- */

/* Nothing if it cannot be read. */
static void measure_kib(const char *program, const char *what, enum variant variant, const char *path,
		const char *key) {
	size_t bytes = proc_kib(path, key);
	if (bytes > 0)
		figure(program, what, variant, (double)bytes / 1024, "KiB");
}

static void measure_idle(const char *name, const char *const *argv, enum variant variant) {
	char rollup[64], state[64];
	pid_t pid = spawn(argv, variant);
	snprintf(rollup, sizeof(rollup), "/proc/%d/smaps_rollup", (int)pid);
	snprintf(state, sizeof(state), "/proc/%d/status", (int)pid);
	program_wait_until_idle(pid);
	measure_kib(name, "pss", variant, rollup, "\nPss:");
	measure_kib(name, "private_dirty", variant, rollup, "\nPrivate_Dirty:");
	measure_kib(name, "page_tables", variant, state, "\nVmPTE:");
	figure(name, "faults", variant, (double)program_faults(pid), "faults");
	if (variant == SERVED && strcmp(name, "sleep") == 0) {
		size_t peak = proc_kib(state, "\nVmHWM:"), now = proc_kib(state, "\nVmRSS:");
		workload_memory(peak > now ? peak : now, now);
	}
	if (waitpid(pid, NULL, WNOHANG) != 0)
		workload_fail("%s ended instead of idling", name);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Calls are counted until a program ends: those of `brief`, the same program without the wait. */
static void measure_both_idle(const char *name, const char *const *argv, const char *const *brief) {
	for (int v = 0; v < VARIANTS; v++) {
		measure_idle(name, argv, v);
		measure_calls(name, brief, v);
	}
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	void *block = block_new(64);
	workload_served(block);
	folder_make();
	if (is_preloaded_for_all())
		workload_exit(77, "/etc/ld.so.preload names a library: no process is without a preload");
	program_forget("PYTHON");
	for (int v = 0; v < VARIANTS; v++)
		environment[v] = build_environment(v);

	char true_path[PATH_MAX], sleep_path[PATH_MAX], python_path[PATH_MAX];
	if (!program_find("true", true_path) || !program_find("sleep", sleep_path))
		workload_exit(77, "`true` or `sleep` is not installed");
	const char *const run_true[] = {true_path, NULL};
	const char *const run_sleep[] = {sleep_path, "60", NULL};
	const char *const end_sleep[] = {sleep_path, "0", NULL};
	const char *const run_python[] = {python_path, "-c", "import time; time.sleep(60)", NULL};
	const char *const end_python[] = {python_path, "-c", "pass", NULL};
	program_prove(run_true);
	measure_true(run_true);
	measure_both_idle("sleep", run_sleep, end_sleep);
	if (program_find_python(python_path)) {
		program_prove(end_python);
		measure_both_idle("python3", run_python, end_python);
	} else {
		fputs("bench_process_cost: python3 is not installed; left out\n", stderr);
	}
	block_free(block, 64);
	return workload_end();
}
