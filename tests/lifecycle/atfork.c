/* SPDX-License-Identifier: MIT */
/* A process that never has a second thread is spared the cost of fork handlers; any other has them, before its own. */
#include "atfork_lib.h"
#include "work.h"
#include "../death/cases.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static void fork_once(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		work_all_sizes();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void alone(void)
{
	const char *background = getenv("HAKMEM_BACKGROUND"); /* a thread of the allocator's */

	work_all_sizes();
	fork_once();
	CHECK(atfork_lib_registered() == (background != NULL));
}

static void *do_nothing(void *unused)
{
	return NULL;
}

static void with_thread(void)
{
	for (int i = 0; i < 2; i++) {
		pthread_t thread;

		CHECK(pthread_create(&thread, NULL, do_nothing, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
		CHECK(atfork_lib_registered() == 1);
	}
	fork_once();
}

static int do_nothing_c11(void *unused)
{
	return 0;
}

static void with_c11_thread(void)
{
	thrd_t thread;

	CHECK(thrd_create(&thread, do_nothing_c11, NULL) == thrd_success);
	CHECK(thrd_join(thread, NULL) == thrd_success);
	CHECK(atfork_lib_registered() == 1);
}

/* A thread that libc starts without pthread_create's being called. */
static volatile int has_worked;

static void work_in_timer(union sigval unused)
{
	work_all_sizes();
	has_worked = 1;
}

static void with_timer_thread(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = work_in_timer};
	struct itimerspec once = {.it_value = {0, 1000000}};
	timer_t timer;

	work_all_sizes();
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &once, NULL) == 0);
	while (!has_worked)
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	CHECK(atfork_lib_registered() == 1);
	fork_once();
}

static char order[8];
static int length;

static void note_prepare(void)
{
	order[length++] = 'p';
}

static void note_child(void)
{
	free(malloc(100));
	order[length++] = 'c';
}

static void with_handlers_of_its_own(void)
{
	CHECK(pthread_atfork(note_prepare, NULL, note_child) == 0);
	CHECK(atfork_lib_registered() == 2);
	CHECK(pthread_atfork(note_prepare, NULL, NULL) == 0);
	CHECK(atfork_lib_registered() == 3);
	pid_t child = fork();
	if (child == 0)
		_exit(length == 3 && order[2] == 'c' ? 0 : 1);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(length == 2);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"process_without_threads_registers_no_fork_handlers", alone},
		{"first_thread_has_fork_handlers_registered", with_thread},
		{"first_c11_thread_has_fork_handlers_registered", with_c11_thread},
		{"thread_of_libc_has_fork_handlers_registered", with_timer_thread},
		{"fork_handlers_of_the_program_are_run", with_handlers_of_its_own},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
