/* SPDX-License-Identifier: MIT */
/* A process that never has a second thread is spared the cost of fork handlers; any other has them, before its own. */
#include "atfork_lib.h"
#include "work.h"
#include "../death/cases.h"

#include <dlfcn.h>
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

/* A thread of the allocator's, or a library whose fork the process calls (fork_lib.c). */
static int has_them_from_the_start(void)
{
	return getenv("HAKMEM_BACKGROUND") != NULL || getenv("TEST_FORK_LIB") != NULL;
}

static void alone(void)
{
	work_all_sizes();
	fork_once();
	CHECK(atfork_lib_registered() == has_them_from_the_start());
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
		CHECK(atfork_lib_registered_before_thread() == 1);
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

/* Likewise: by libc's own pthread_create, which the allocator does not stand before. */
static void with_unseen_thread(void *(*routine)(void *), void *arg)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	pthread_t thread;

	CHECK(libc != NULL);
	create = (__typeof__(create))dlsym(libc, "pthread_create");
	CHECK(create != NULL && create(&thread, NULL, routine, arg) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	fork_once();
}

static void *only_allocate(void *unused)
{
	void *block = malloc(100);

	CHECK(atfork_lib_registered() == 1);
	return block;
}

static void *only_free(void *block)
{
	free(block);
	CHECK(atfork_lib_registered() == 1);
	return NULL;
}

static void with_unseen_thread_that_allocates(void)
{
	with_unseen_thread(only_allocate, NULL);
}

static void with_unseen_thread_that_frees(void)
{
	with_unseen_thread(only_free, malloc(100));
}

/* Of a size that has memory of its own, whose blocks take a shorter way. */
static void with_unseen_thread_that_frees_one_of_many(void)
{
	void *block = NULL;

	for (int i = 0; i < 10000; i++)
		block = malloc(100);
	with_unseen_thread(only_free, block);
}

static void in_constructor(void)
{
	void *module = dlopen(getenv("TEST_FORK_MODULE"), RTLD_NOW);
	const int *status;

	CHECK(module != NULL);
	status = dlsym(module, "fork_module_status");
	CHECK(status != NULL && *status == 0);
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
		{"unseen_thread_that_allocates_has_fork_handlers_registered", with_unseen_thread_that_allocates},
		{"unseen_thread_that_frees_has_fork_handlers_registered", with_unseen_thread_that_frees},
		{"unseen_thread_that_frees_one_of_many_has_fork_handlers_registered",
		 with_unseen_thread_that_frees_one_of_many},
		{"thread_of_loaded_constructor_forks", in_constructor},
		{"fork_handlers_of_the_program_are_run", with_handlers_of_its_own},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
