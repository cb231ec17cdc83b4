/* SPDX-License-Identifier: MIT */
/* What the library must leave alone in its process: files, threads, signals, errno, environment. */
#include "forks.h"

#include "work.h"
#include "../death/cases.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void *run_work(void *unused)
{
	work_all_sizes();
	fork_load_once();
	return NULL;
}

static void work_hard(void)
{
	for (int round = 0; round < 10; round++) {
		pthread_t threads[3];

		for (size_t i = 0; i < 3; i++)
			CHECK(pthread_create(&threads[i], NULL, run_work, NULL) == 0);
		run_work(NULL);
		for (size_t i = 0; i < 3; i++)
			CHECK(pthread_join(threads[i], NULL) == 0);
	}
	usleep(100000);
	work_all_sizes();
}

static int count_entries(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	int count = 0;

	CHECK(directory);
	while ((entry = readdir(directory)))
		count += entry->d_name[0] != '.';
	closedir(directory);
	return count;
}

/* Three standard ones and the one that counts. */
static void files(void)
{
	CHECK(count_entries("/proc/self/fd") == 4);
	work_hard();
	CHECK(count_entries("/proc/self/fd") == 4);
}

static void threads(void)
{
	CHECK(count_entries("/proc/self/task") == 1);
	work_hard();
	/* A joined thread may show for a moment more. */
	for (int i = 0; i < 100 && count_entries("/proc/self/task") > 1; i++)
		usleep(10000);
	CHECK(count_entries("/proc/self/task") == 1);
}

static void check_signals(void)
{
	sigset_t blocked;
	stack_t alternate;

	CHECK(sigprocmask(SIG_SETMASK, NULL, &blocked) == 0);
	for (int signal = 1; signal < NSIG; signal++) {
		struct sigaction action;

		if (sigaction(signal, NULL, &action))
			continue; /* those that the C library keeps for itself */
		CHECK(action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN);
		CHECK(sigismember(&blocked, signal) != 1);
	}
	CHECK(sigaltstack(NULL, &alternate) == 0 && alternate.ss_flags == SS_DISABLE);
}

static void signals(void)
{
	check_signals();
	work_hard();
	check_signals();
}

static void environment(void)
{
	size_t count = 0;

	work_hard();
	for (char **variable = environ; *variable; variable++)
		count += strncmp(*variable, "LD_PRELOAD=", 11) == 0;
	CHECK(count <= 1);
}

static void names(void)
{
	char name[16];

	work_hard();
	CHECK(prctl(PR_GET_NAME, name) == 0);
	CHECK(strncmp(name, "footprint", 15) == 0);
}

/* Success and free leave errno as it was. */
static void error_number(void)
{
	for (size_t i = 0; i < work_size_count; i++) {
		void *p;

		errno = 4711;
		p = malloc(work_sizes[i]);
		CHECK(p && errno == 4711);
		p = realloc(p, work_sizes[i] * 3);
		CHECK(p && errno == 4711);
		free(p);
		CHECK(errno == 4711);
		p = calloc(2, work_sizes[i]);
		free(p);
		CHECK(p && errno == 4711);
	}
}

/* An idle program has no child processes either. */
static void children(void)
{
	work_hard();
	errno = 0;
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"files_open_stay_as_they_were", files},
		{"threads_stay_as_they_were", threads},
		{"signals_stay_as_they_were", signals},
		{"environment_stays_as_it_was", environment},
		{"process_name_stays_as_it_was", names},
		{"errno_stays_as_it_was", error_number},
		{"children_are_none", children},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
