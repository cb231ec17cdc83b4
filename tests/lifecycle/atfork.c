/* SPDX-License-Identifier: MIT */
/*
 * Fork handlers of the program that fork again, start threads, or go on where they are. The allocator must have
 * repaired the child before any of them runs, and not do it again afterwards.
 */
#include "forks.h"

#include "work.h"
#include "../death/cases.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 30, FEW_FORKS = 10, FORKS_THAT_FORK = 10, ROUNDS = 20, BLOCKS = 4000, LARGE = 60000, RARE = 97 };

static int is_amid; /* such a handler: those of its own forks do nothing */

/* Takes so much memory anew each time that locks are held much of the time. */
static void fill_and_empty(void)
{
	static _Thread_local void *block[BLOCKS];

	for (size_t i = 0; i < BLOCKS; i++)
		block[i] = malloc(i % RARE == 0 ? LARGE : 1 + i * 37 % 3000);
	for (size_t i = 0; i < BLOCKS; i++)
		free(block[i]);
}

static void *run_load(void *unused)
{
	for (int i = 0; i < ROUNDS; i++)
		fill_and_empty();
	return NULL;
}

static void *run_endlessly(void *unused)
{
	for (;;)
		fill_and_empty();
	return NULL;
}

static pthread_t start(void *(*routine)(void *))
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, routine, NULL) == 0);
	return thread;
}

static void start_load(void)
{
	for (int i = 0; i < 2; i++)
		start(run_endlessly);
}

static void prove_once_more(void)
{
	if (is_amid++ == 0) {
		fork_prove_once();
		fill_and_empty();
	}
	is_amid--;
}

static void work_unless_amid(void)
{
	if (!is_amid)
		fill_and_empty();
}

static void fork_under_load(int times, void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	CHECK(pthread_atfork(prepare, parent, child) == 0);
	start_load();
	for (int i = 0; i < times; i++)
		fork_prove_once();
}

static void prepare_forks(void)
{
	fork_under_load(FORKS, prove_once_more, work_unless_amid, work_unless_amid);
}

static void child_forks(void)
{
	fork_under_load(FORKS, NULL, NULL, prove_once_more);
}

/* While a thread of the child works. */
static void start_and_fork(void)
{
	pthread_t thread;

	if (is_amid++ == 0) {
		thread = start(run_load);
		for (int i = 0; i < FEW_FORKS; i++)
			fork_prove_once();
		CHECK(pthread_join(thread, NULL) == 0);
	}
	is_amid--;
}

static void child_starts_thread_and_forks(void)
{
	fork_under_load(FORKS_THAT_FORK, NULL, NULL, start_and_fork);
}

static void stay(void)
{
	if (is_amid)
		return;
	fill_and_empty();
	start_and_fork();
	fork_prove_child();
}

static void child_never_returns(void)
{
	fork_under_load(FORKS_THAT_FORK, NULL, NULL, stay);
}

/* As daemons do; the grandchild, whose fork was another, goes on with threads. */
static void become_daemon(void)
{
	pid_t child;

	if (is_amid++ == 0) {
		fill_and_empty();
		child = fork();
		if (child != 0) {
			fork_expect_success(child);
			_exit(0);
		}
		start(run_load);
		start(run_load);
		usleep(500);
	}
	is_amid--;
}

static void child_becomes_daemon(void)
{
	fork_under_load(FORKS, NULL, NULL, become_daemon);
}

static void start_load_and_wait(void)
{
	start_load();
	usleep(3000);
}

/* Each time in a process that had none. */
static void prepare_starts_first_thread(void)
{
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();

		if (child == 0) {
			CHECK(pthread_atfork(start_load_and_wait, NULL, NULL) == 0);
			fork_prove_once();
			_exit(0);
		}
		fork_expect_success(child);
	}
}

static void do_nothing(void)
{
}

/* libc holds its list of handlers while it has it grow, by malloc. */
static void have_list_grow(int handlers)
{
	for (int i = 0; i < handlers; i++)
		CHECK(pthread_atfork(NULL, NULL, do_nothing) == 0);
	fork_prove_once();
}

static void list_grows(void)
{
	enum { LARGE_TABLE = 3000 };

	have_list_grow(LARGE_TABLE);
}

static void list_grows_in_large_process(void)
{
	enum { PARCEL = 100 << 20, SMALL_TABLE = 100 };
	void *parcel = work_parcel(PARCEL);

	have_list_grow(SMALL_TABLE);
	work_open_parcel(parcel);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"prepare_handler_forks", prepare_forks},
		{"prepare_handler_starts_first_thread", prepare_starts_first_thread},
		{"child_handler_forks", child_forks},
		{"child_handler_starts_thread_and_forks", child_starts_thread_and_forks},
		{"child_handler_never_returns", child_never_returns},
		{"child_handler_becomes_daemon", child_becomes_daemon},
		{"list_of_fork_handlers_grows", list_grows},
		{"list_of_fork_handlers_grows_in_large_process", list_grows_in_large_process},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
