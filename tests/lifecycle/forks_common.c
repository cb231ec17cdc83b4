/* SPDX-License-Identifier: MIT */
#include "forks.h"

#include "work.h"
#include "../death/cases.h"
#include "../random.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 256, PROVE_SECONDS = 30 };

static _Atomic(void *) slots[SLOTS];
static _Thread_local uint64_t seed;

static uint64_t any_number(void)
{
	if (!seed)
		seed = (uint64_t)(uintptr_t)&seed | 1;
	return next_random(&seed);
}

static size_t next_size(void)
{
	uint64_t r = any_number();

	if (r % 256 == 0)
		return r / 256 % (3 << 20);
	return r / 256 % (r & 8 ? 200 : 20000);
}

void fork_load_once(void)
{
	for (int i = 0; i < 64; i++) {
		size_t size = next_size();
		void *own = work_parcel(size);
		void *other = atomic_exchange(&slots[any_number() % SLOTS], own);

		if (other)
			work_open_parcel(other);
		free(calloc(1, size));
	}
}

static void *load(void *unused)
{
	for (;;)
		fork_load_once();
	return NULL;
}

void fork_start_load(int count)
{
	while (count--) {
		pthread_t thread;

		CHECK(pthread_create(&thread, NULL, load, NULL) == 0);
	}
}

/* The parent may have been within a handler of that very signal. */
static void limit_time(void)
{
	sigset_t set;

	signal(SIGALRM, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	alarm(PROVE_SECONDS);
}

static void take_over(void)
{
	for (size_t i = 0; i < SLOTS; i++) {
		void *parcel = atomic_exchange(&slots[i], NULL);

		if (parcel)
			work_open_parcel(parcel);
	}
}

void fork_prove_child(void)
{
	limit_time();
	work_all_sizes();
	take_over();
	fork_load_once();
	_exit(0);
}

static void *run_load_once(void *unused)
{
	fork_load_once();
	return NULL;
}

void fork_prove_child_threads(void)
{
	pthread_t threads[2];

	limit_time();
	work_all_sizes();
	for (size_t i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, run_load_once, NULL) == 0);
	take_over();
	for (size_t i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	_exit(0);
}

void fork_expect_success(pid_t child)
{
	int status;

	CHECK(child > 0);
	while (waitpid(child, &status, 0) < 0)
		CHECK(errno == EINTR);
	CHECK(!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM); /* the child hung */
	CHECK(!WIFSIGNALED(status));
	CHECK(WEXITSTATUS(status) == 0);
}

void fork_prove_once(void)
{
	pid_t child = fork();

	if (child == 0)
		fork_prove_child();
	fork_expect_success(child);
}
