/* SPDX-License-Identifier: MIT */
/*
 * Allocation in every phase of a program's life. What one phase takes the next checks and frees, so
 * no phase may lose what an earlier one got. The phases, in their order (order_lib.c has its own):
 *
 *   preinit_array, constructor of the library, constructor 101, constructor, main, thread exits,
 *   atexit handler, destructors, fini_array, destructor of the library
 */
#include "order_lib.h"
#include "work.h"
#include "../death/cases.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static struct work_set from_preinit, from_first, from_constructor, from_main, from_atexit;
static struct work_set from_destructor;
static int phases;

/* The destructors of threads, without C++. */
extern int __cxa_thread_atexit_impl(void (*run)(void *), void *object, void *dso);
extern void *__dso_handle;

static void at_preinit(int argc, char **argv, char **environment)
{
	work_all_sizes();
	work_keep(&from_preinit);
	phases++;
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **, char **)
	= at_preinit;

__attribute__((constructor(101))) static void at_first_constructor(void)
{
	work_release(&from_preinit);
	work_all_sizes();
	work_keep(&from_first);
	phases++;
}

__attribute__((constructor)) static void at_constructor(void)
{
	work_release(&from_first);
	work_keep(&from_constructor);
	phases++;
}

static void at_exit(void)
{
	work_release(&from_main);
	work_all_sizes();
	work_keep(&from_atexit);
}

__attribute__((destructor)) static void at_destructor(void)
{
	if (phases < 4)
		return; /* this process only listed the cases */
	work_release(&from_atexit);
	work_all_sizes();
	work_keep(&from_destructor);
}

__attribute__((destructor(101))) static void at_last_destructor(void)
{
	if (phases < 4)
		return;
	work_all_sizes();
	work_release(&from_destructor);
	order_lib_expect_end();
}

static void all_phases(void)
{
	CHECK(phases == 3);
	work_release(&from_constructor);
	order_lib_release();
	work_all_sizes();
	work_keep(&from_main);
	atexit(at_exit);
	phases++;
}

static pthread_key_t key;
static struct work_set of_thread[2];

static void release_set(void *set)
{
	work_release(set);
	work_all_sizes();
}

static void *leave_to_destructors(void *unused)
{
	work_keep(&of_thread[0]);
	work_keep(&of_thread[1]);
	CHECK(__cxa_thread_atexit_impl(release_set, &of_thread[0], &__dso_handle) == 0);
	CHECK(pthread_setspecific(key, &of_thread[1]) == 0);
	return NULL;
}

/* Both kinds of thread destructors, run in whatever order the C library has. */
static void thread_destructors(void)
{
	CHECK(pthread_key_create(&key, release_set) == 0);
	for (int i = 0; i < 50; i++) {
		pthread_t thread;

		CHECK(pthread_create(&thread, NULL, leave_to_destructors, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
}

/* The first thread has such destructors too: they run within exit. */
static void first_thread_destructors(void)
{
	work_keep(&of_thread[0]);
	CHECK(__cxa_thread_atexit_impl(release_set, &of_thread[0], &__dso_handle) == 0);
}

static void *use_nothing(void *set)
{
	CHECK(__cxa_thread_atexit_impl(release_set, set, &__dso_handle) == 0);
	return NULL;
}

/* A thread whose first call of the allocator is in its last destructor. */
static void first_use_in_destructor(void)
{
	for (int i = 0; i < 20; i++) {
		pthread_t thread;

		work_keep(&of_thread[0]);
		CHECK(pthread_create(&thread, NULL, use_nothing, &of_thread[0]) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
}

static void quick_handler(void)
{
	work_all_sizes();
	work_release(&from_main);
}

static void at_quick_exit_handler(void)
{
	work_keep(&from_main);
	at_quick_exit(quick_handler);
	quick_exit(0);
}

static void *exit_from_thread(void *unused)
{
	work_all_sizes();
	exit(0);
}

/* exit called by a thread while others go on allocating. */
static void *never_stop(void *unused)
{
	for (;;)
		work_give(work_take(1000), 1000);
	return NULL;
}

static void exit_in_thread(void)
{
	pthread_t thread;

	all_phases();
	CHECK(pthread_create(&thread, NULL, never_stop, NULL) == 0);
	CHECK(pthread_create(&thread, NULL, exit_from_thread, NULL) == 0);
	never_stop(NULL);
}

/* main's thread ends first; the process ends with the last one. */
static void *outlive(void *first)
{
	pthread_join(*(pthread_t *)first, NULL);
	work_all_sizes();
	work_release(&from_main);
	return NULL;
}

static void first_thread_ends_first(void)
{
	static pthread_t self, thread;

	self = pthread_self();
	work_keep(&from_main);
	CHECK(pthread_create(&thread, NULL, outlive, &self) == 0);
	pthread_exit(NULL);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"phases_of_program_serve", all_phases},
		{"destructors_of_threads_serve", thread_destructors},
		{"destructors_of_first_thread_serve", first_thread_destructors},
		{"thread_first_allocating_in_destructor_served", first_use_in_destructor},
		{"quick_exit_handler_served", at_quick_exit_handler},
		{"exit_in_thread_serves", exit_in_thread},
		{"first_thread_ending_first_leaves_service", first_thread_ends_first},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
