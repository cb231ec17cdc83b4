/* SPDX-License-Identifier: MIT */
/* Blocks freed twice with plain free: when, and by whom. */
#include "misuse.h"

#include "cases.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_OTHERS = 10000 };

/* Not on the heap and not on the stack: nothing about them interests the allocator. */
static void *others[2 * MAX_OTHERS];

static void *free_it(void *ptr)
{
	free(ptr);
	return NULL;
}

/* What else the thread took stays allocated, so their slab stays in use. */
static void *take_it(void *slot)
{
	size_t size = malloc_usable_size(*(void **)slot);

	opaque(take(size));
	*(void **)slot = take(size);
	return NULL;
}

static void at_once(size_t size)
{
	void *p = take(size);

	if (size == 48)
		CHECK(malloc_usable_size(p) == 48); /* the message names it */
	expect_double_free(p, malloc_usable_size(p));
	free(p);
	free(opaque(p));
}

/* The n-th block a thread frees of a size: the first that a cache takes after it was full. */
static void as_nth(size_t size, size_t n)
{
	for (size_t i = 0; i < n; i++)
		others[i] = take(size);
	for (size_t i = 0; i + 1 < n; i++)
		free(others[i]);
	expect_double_free(others[n - 1], malloc_usable_size(others[n - 1]));
	free(others[n - 1]);
	free(opaque(others[n - 1]));
}

static void as_17th(size_t size)
{
	as_nth(size, 17);
}

static void as_65th(size_t size)
{
	as_nth(size, 65);
}

static void after_trim(size_t size)
{
	void *p = take(size);

	opaque(take(size));
	malloc_trim(0);
	expect_double_free(p, malloc_usable_size(p));
	free(p);
	free(opaque(p));
}

/* Announces a second free that comes after those of others. */
static void expect_after_others(void *ptr)
{
	if (is_large(malloc_usable_size(ptr)))
		expect_late_double_free(ptr, malloc_usable_size(ptr));
	else
		expect_double_free(ptr, malloc_usable_size(ptr));
}

/* Frees `p`, then `count` others in the midst of which it was allocated, then `p` again. Every
   second neighbour stays allocated, so the memory around `p` stays in use. */
static void after_others(size_t size, size_t count)
{
	void *p = NULL;

	for (size_t i = 0; i < 2 * count; i++) {
		if (i == count)
			p = take(size);
		others[i] = take(size);
	}
	expect_after_others(p);
	free(p);
	for (size_t i = 0; i < 2 * count; i += 2)
		free(others[i]);
	free(opaque(p));
}

static void after_few_others(size_t size)
{
	after_others(size, 5);
}

/* More than any thread cache holds. */
static void after_many_others(size_t size)
{
	after_others(size, is_large(size) ? 200 : MAX_OTHERS);
}

static void interleaved(size_t size)
{
	void *a = take(size), *b = take(size);

	expect_after_others(a);
	free(a);
	free(b);
	free(opaque(a));
}

/* Everything of its size is free: the slab may be back with the pool, or with the system. */
static void last_of_slab(size_t size)
{
	size_t usable;

	for (size_t i = 0; i < 4000; i++)
		others[i] = take(size);
	usable = malloc_usable_size(others[2000]);
	expect_late_double_free(others[2000], usable);
	for (size_t i = 0; i < 4000; i++)
		free(others[i]);
	free(opaque(others[2000]));
}

/* A thread that has its heap already when the case begins: what it takes for itself later could be
   the very memory that the case has just freed. */
struct helper {
	sem_t ready, go, done;
	void *ptr;
};

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore)) {
	}
}

static void *help(void *argument)
{
	struct helper *helper = argument;

	free(take(48));
	sem_post(&helper->ready);
	for (;;) { /* it lives on, with all it may hold back */
		wait_for(&helper->go);
		free(helper->ptr);
		sem_post(&helper->done);
	}
	return NULL;
}

static void start_helper(struct helper *helper)
{
	pthread_t thread;

	sem_init(&helper->ready, 0, 0);
	sem_init(&helper->go, 0, 0);
	sem_init(&helper->done, 0, 0);
	CHECK(pthread_create(&thread, NULL, help, helper) == 0);
	wait_for(&helper->ready);
}

static void free_by_helper(struct helper *helper, void *ptr)
{
	helper->ptr = ptr;
	sem_post(&helper->go);
	wait_for(&helper->done);
}

static void by_owner_then_thread(size_t size)
{
	struct helper helper;
	void *p;

	start_helper(&helper);
	p = take(size);
	expect_double_free(p, malloc_usable_size(p));
	free(p);
	free_by_helper(&helper, opaque(p));
}

static void by_thread_then_owner(size_t size)
{
	void *p = take(size);

	expect_double_free(p, malloc_usable_size(p));
	in_thread(free_it, p);
	free(opaque(p));
}

/* The first free may still wait in the other thread's outbox. */
static void by_living_thread_then_owner(size_t size)
{
	struct helper helper;
	void *p;

	start_helper(&helper);
	p = take(size);
	expect_double_free(p, malloc_usable_size(p));
	free_by_helper(&helper, p);
	free(opaque(p));
}

/* One block of each of many slabs: more than a thread keeps apart, so that it sends the others to their owner
   together. The first such message has left, the second has not. */
static void by_living_thread_mixed(size_t size, size_t which, bool by_owner)
{
	enum { SLABS = 45, SLAB_BYTES = 64 * 1024 };
	struct helper helper;
	uintptr_t slab = 0;

	start_helper(&helper);
	for (size_t n = 0; n < SLABS;) {
		others[n] = take(size);
		n += (uintptr_t)others[n] / SLAB_BYTES != slab;
		slab = (uintptr_t)others[n - 1] / SLAB_BYTES;
	}
	expect_double_free(others[which], malloc_usable_size(others[which]));
	for (size_t i = 0; i < SLABS; i++)
		free_by_helper(&helper, others[i]);
	if (by_owner)
		free(opaque(others[which]));
	else
		free_by_helper(&helper, opaque(others[which]));
}

static void by_living_thread_among_many_then_owner(size_t size)
{
	by_living_thread_mixed(size, 25, true);
}

static void by_living_thread_last_of_many_then_owner(size_t size)
{
	by_living_thread_mixed(size, 43, true);
}

static void by_living_thread_last_of_many_twice(size_t size)
{
	by_living_thread_mixed(size, 43, false);
}

static void *free_twice(void *ptr)
{
	free(ptr);
	free(opaque(ptr));
	return NULL;
}

static void by_thread_twice(size_t size)
{
	void *p = take(size);

	expect_double_free(p, malloc_usable_size(p));
	in_thread(free_twice, p);
}

static void by_two_threads(size_t size)
{
	struct helper helpers[2];
	void *p;

	start_helper(&helpers[0]);
	start_helper(&helpers[1]);
	p = take(size);
	expect_double_free(p, malloc_usable_size(p));
	free_by_helper(&helpers[0], p);
	free_by_helper(&helpers[1], opaque(p));
}

/* Its owner is gone when it is freed. */
static void of_dead_thread(size_t size)
{
	void *p = take(size);

	in_thread(take_it, &p);
	expect_double_free(p, malloc_usable_size(p));
	free(p);
	free(opaque(p));
}

static void in_forked_child(size_t size)
{
	void *p = take(size);
	size_t usable = malloc_usable_size(p);
	pid_t child;
	int status;

	free(p);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		expect_double_free(p, usable);
		free(opaque(p));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	if (WIFSIGNALED(status))
		raise(WTERMSIG(status));
}

/* The old place of a block that realloc moved. */
static void after_realloc(size_t size)
{
	void *p = take(size), *blocker = take(size), *moved = p;
	size_t usable = 0;

	for (size_t n = size; moved == p; n *= 4) {
		p = moved;
		usable = malloc_usable_size(p);
		moved = realloc(opaque(p), n * 4);
		if (!moved || n > (size_t)1 << 30)
			case_skip(); /* it never needed to move */
	}
	if (is_large(size))
		expect_late_double_free(p, usable);
	else
		expect_double_free(p, usable);
	free(opaque(p));
	free(blocker);
}

static void aligned(size_t size)
{
	void *p;

	CHECK(posix_memalign(&p, 4096, size) == 0);
	expect("double free of %p (*-byte block)", p);
	free(p);
	free(opaque(p));
}

static void cleared(size_t size)
{
	void *p = calloc(1, size);

	CHECK(p);
	expect_double_free(p, malloc_usable_size(p));
	free(p);
	free(opaque(p));
}

/* Too large to be worth keeping for anybody. */
static void gigabyte(size_t size)
{
	void *p = malloc((size_t)1 << 30);

	if (!p)
		case_skip();
	expect_late_double_free(p, malloc_usable_size(p));
	free(p);
	free(opaque(p));
}

/* abort() gets through all the same. */
static void with_sigabrt_ignored(size_t size)
{
	sigset_t set;

	signal(SIGABRT, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGABRT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	at_once(size);
}

static sigjmp_buf before;

static void leave(int number)
{
	siglongjmp(before, number);
}

/* As a test harness does that goes on with its next case. */
static void after_another_that_was_left(size_t size)
{
	int said = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
	void *p;

	CHECK(said >= 0 && nowhere >= 0);
	signal(SIGABRT, leave);
	dup2(nowhere, STDERR_FILENO);
	if (sigsetjmp(before, 1) == 0) {
		p = take(size);
		free(p);
		free(opaque(p));
	}
	signal(SIGABRT, SIG_DFL);
	dup2(said, STDERR_FILENO);
	at_once(size);
}

/* What more is said of the block must not wait for the loader. */
static void by_thread_that_a_constructor_waits_for(size_t size)
{
	char text[2 * sizeof(uintptr_t) + 1] = "";
	void *p = take(size);
	uintptr_t rest = (uintptr_t)p;

	for (unsigned i = 2 * sizeof(uintptr_t); i-- > 0; rest >>= 4)
		text[i] = "0123456789abcdef"[rest & 15];
	setenv("MISUSE_BLOCK", text, 1);
	expect_double_free(p, malloc_usable_size(p));
	dlopen(WAITS, RTLD_NOW);
}

const struct misuse twice_cases[] = {
	{"block_freed_twice_at_once", SIZE_EVERY, at_once},
	{"freed_as_17th_of_its_size_and_again", SIZE_SMALL | SIZE_MEDIUM, as_17th},
	{"freed_as_65th_of_its_size_and_again", SIZE_SMALL | SIZE_MEDIUM, as_65th},
	{"freed_after_trim_and_again", SIZE_EVERY, after_trim},
	{"block_freed_twice_by_thread_that_a_constructor_waits_for", SIZE_EVERY, by_thread_that_a_constructor_waits_for},
	{"block_freed_twice_after_few_others", SIZE_EVERY, after_few_others},
	{"block_freed_twice_after_many_others", SIZE_EVERY, after_many_others},
	{"block_freed_twice_interleaved", SIZE_EVERY, interleaved},
	{"block_freed_twice_with_all_others", SIZE_SMALL | SIZE_MEDIUM, last_of_slab},
	{"block_freed_twice_by_owner_then_thread", SIZE_EVERY, by_owner_then_thread},
	{"block_freed_twice_by_thread_then_owner", SIZE_EVERY, by_thread_then_owner},
	{"block_freed_twice_by_living_thread_then_owner", SIZE_EVERY, by_living_thread_then_owner},
	{"block_freed_twice_by_living_thread_among_many_then_owner", SIZE_SMALL | SIZE_MEDIUM,
	 by_living_thread_among_many_then_owner},
	{"block_freed_twice_by_living_thread_last_of_many_then_owner", SIZE_SMALL | SIZE_MEDIUM,
	 by_living_thread_last_of_many_then_owner},
	{"block_freed_twice_by_living_thread_last_of_many", SIZE_SMALL | SIZE_MEDIUM,
	 by_living_thread_last_of_many_twice},
	{"block_freed_twice_by_thread", SIZE_EVERY, by_thread_twice},
	{"block_freed_twice_by_two_threads", SIZE_EVERY, by_two_threads},
	{"block_of_dead_thread_freed_twice", SIZE_EVERY, of_dead_thread},
	{"block_freed_twice_in_forked_child", SIZE_EVERY, in_forked_child},
	{"block_moved_by_realloc_freed", SIZE_EVERY, after_realloc},
	{"aligned_block_freed_twice", SIZE_EVERY, aligned},
	{"cleared_block_freed_twice", SIZE_EVERY, cleared},
	{"gigabyte_freed_twice", SIZE_NONE, gigabyte},
	{"block_freed_twice_with_sigabrt_ignored", SIZE_SMALL, with_sigabrt_ignored},
	{"block_freed_twice_after_another_that_was_left", SIZE_SMALL | SIZE_HUGE, after_another_that_was_left},
	{NULL, 0, NULL},
};
