/* SPDX-License-Identifier: MIT */
/* fork while other threads, or this one, are amid the allocator. The child is whole at once. */
#include "forks.h"

#include "work.h"
#include "../death/cases.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

enum { WHOLE_SECONDS = 100 };

static void under_load(void)
{
	fork_start_load(2);
	for (int i = 0; i < 200; i++) {
		pid_t child = fork();

		if (child == 0)
			fork_prove_child_threads();
		fork_expect_success(child);
		fork_load_once();
	}
}

/* Children of children, each under load of its own. */
static void generations(int left)
{
	pid_t child;

	fork_start_load(2);
	for (int i = 0; i < 50; i++)
		fork_load_once();
	child = fork();
	if (child == 0) {
		if (left == 0)
			fork_prove_child();
		generations(left - 1);
		_exit(0);
	}
	fork_expect_success(child);
}

static void many_generations(void)
{
	generations(10);
}

static atomic_int forked;

/* What interrupts, and the signal it sends. */
static int timer;

/* The next interrupt, once. A period could be shorter than a handler takes: then handlers would be
   all that runs. */
static void set_next_interrupt(void)
{
	long microseconds = timer == ITIMER_REAL ? 100 + forked * 37 % 800 : 1000;

	CHECK(setitimer(timer, &(struct itimerval){{0, 0}, {0, microseconds}}, NULL) == 0);
}

/* Interrupts the thread amid anything, also amid malloc; the child goes on at once. */
static void fork_in_handler(int signal)
{
	int saved = errno;

	fork_prove_once();
	forked++;
	set_next_interrupt();
	errno = saved;
}

static void start_interrupts(int which, int signal)
{
	struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};

	timer = which;
	CHECK(sigaction(signal, &action, NULL) == 0);
	set_next_interrupt();
}

static void work_until_forked(int count)
{
	while (forked < count)
		fork_load_once();
}

/* Threads other than the caller that take signals of the process, or do not. */
static void start_load_blocking(int count, int signal)
{
	sigset_t set, old;

	sigemptyset(&set);
	sigaddset(&set, signal);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	fork_start_load(count);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Small blocks only: little but the allocator's fast paths is there to interrupt. */
static void small_work_until(int count)
{
	void *blocks[100];

	while (forked < count) {
		for (size_t i = 0; i < 100; i++)
			blocks[i] = malloc(16 + i * 10);
		for (size_t i = 0; i < 100; i++)
			free(blocks[i]);
	}
}

static void in_handler_alone(void)
{
	start_interrupts(ITIMER_REAL, SIGALRM);
	work_until_forked(150);
	small_work_until(300);
	_exit(0); /* interrupts go on */
}

/* realloc in place takes locks, too. */
static void in_handler_amid_realloc(void)
{
	enum { FORKS = 400, LARGE = 40000, STEP = 64 << 10 };
	char *block = malloc(LARGE);

	start_interrupts(ITIMER_REAL, SIGALRM);
	for (size_t i = 0; forked < FORKS; i++) {
		block = realloc(block, LARGE + i % 7 * STEP);
		CHECK(block != NULL);
	}
	_exit(0);
}

static void in_handler_with_threads(void)
{
	start_load_blocking(2, SIGPROF);
	start_interrupts(ITIMER_PROF, SIGPROF);
	work_until_forked(100);
	_exit(0);
}

/* Any of the threads may be the one interrupted. */
static void in_handler_of_any_thread(void)
{
	fork_start_load(2);
	start_interrupts(ITIMER_PROF, SIGPROF);
	work_until_forked(100);
	_exit(0);
}

/* As daemons do: the child forks again, amid the same interrupted call, and the grandchild allocates. */
static void fork_twice_in_handler(int signal)
{
	int saved = errno;
	pid_t child = fork();

	if (child == 0) {
		alarm(20);
		pid_t grandchild = fork();
		if (grandchild == 0)
			fork_prove_child();
		fork_expect_success(grandchild);
		_exit(0);
	}
	fork_expect_success(child);
	forked++;
	set_next_interrupt();
	errno = saved;
}

static void twice_in_handler(void)
{
	struct sigaction action = {.sa_handler = fork_twice_in_handler, .sa_flags = SA_RESTART};
	enum { FORKS = 200 };

	timer = ITIMER_REAL;
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	set_next_interrupt();
	while (forked < FORKS) {
		free(malloc(60000));
		malloc_trim(0);
	}
	_exit(0);
}

/* The child returns from the handler into the call that was interrupted, and goes on from there. */
static volatile sig_atomic_t is_child;

static void fork_and_return(int signal)
{
	int saved = errno;
	pid_t child = is_child ? -1 : fork();

	if (child == 0) {
		is_child = 1;
		alarm(20);
	} else if (child > 0) {
		fork_expect_success(child);
		forked++;
		set_next_interrupt();
	}
	errno = saved;
}

static void return_from_handler(size_t most)
{
	struct sigaction action = {.sa_handler = fork_and_return, .sa_flags = SA_RESTART};
	enum { BLOCKS = 400, FORKS = 600 };
	static char *blocks[BLOCKS];
	int rounds_left = 3;

	timer = ITIMER_REAL;
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	set_next_interrupt();
	while (forked < FORKS && rounds_left > 0) {
		for (size_t i = 0; i < BLOCKS; i++) {
			blocks[i] = malloc(20 + i * i / 2 % most);
			CHECK(blocks[i] != NULL);
			blocks[i][0] = (char)i;
			blocks[i][19 + i * i / 2 % most] = (char)i;
		}
		for (size_t i = 0; i < BLOCKS; i++) {
			CHECK(blocks[i][0] == (char)i && blocks[i][19 + i * i / 2 % most] == (char)i);
			free(blocks[i]);
		}
		rounds_left -= is_child;
	}
	_exit(0); /* interrupts go on */
}

static void returns_from_handler(void)
{
	return_from_handler(1 << 20);
}

/* Without a large block libc has not been asked for anything by then. */
static void returns_from_handler_early(void)
{
	return_from_handler(30000);
}

/* Handlers that were registered before the library's own and after them. */
static struct work_set from_prepare;

static void prepare(void)
{
	work_all_sizes();
	work_keep(&from_prepare);
}

static void after_prepare(void)
{
	work_release(&from_prepare);
	work_all_sizes();
}

static const char in_atfork_handlers_name[] = "fork_handlers_allocating_work";

static void at_preinit(int argc, char **argv, char **environment)
{
	if (argc > 1 && strcmp(argv[1], in_atfork_handlers_name) == 0)
		pthread_atfork(work_all_sizes, work_all_sizes, work_all_sizes);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **, char **)
	= at_preinit;

static void in_atfork_handlers(void)
{
	CHECK(pthread_atfork(prepare, after_prepare, after_prepare) == 0);
	fork_start_load(2);
	for (int i = 0; i < 60; i++)
		fork_prove_once();
}

/* fork holds the C library's list of streams while it runs our handlers, and so do these threads
   while they allocate: whoever takes a lock in a prepare handler and allocates under it here would
   wait for ever. */
static void *flush_all(void *unused)
{
	for (;;)
		fflush(NULL);
	return NULL;
}

static void *grow_streams(void *unused)
{
	for (;;) {
		char *text = NULL;
		size_t size;
		FILE *stream = open_memstream(&text, &size);

		CHECK(stream);
		for (int i = 0; i < 200; i++)
			fprintf(stream, "%d and more of it ", i);
		fclose(stream);
		free(text);
	}
	return NULL;
}

static void *read_lines(void *unused)
{
	for (;;) {
		FILE *stream = fopen("/proc/self/maps", "re");
		char *line = NULL;
		size_t size = 0;

		if (!stream)
			continue;
		while (getline(&line, &size, stream) > 0) {
		}
		free(line);
		fclose(stream);
	}
	return NULL;
}

/* Holds a stream for long, and allocates meanwhile. */
static void *hold_stream(void *unused)
{
	for (;;) {
		flockfile(stderr);
		fork_load_once();
		funlockfile(stderr);
	}
	return NULL;
}

static void with_streams_locked(void)
{
	static void *(*const jobs[])(void *) = {flush_all, grow_streams, read_lines, hold_stream};

	for (size_t i = 0; i < 4; i++) {
		pthread_t thread;

		CHECK(pthread_create(&thread, NULL, jobs[i], NULL) == 0);
	}
	for (int i = 0; i < 80; i++)
		fork_prove_once();
}

/* Several threads fork at the same time. */
static void *fork_often(void *unused)
{
	for (int i = 0; i < 40; i++) {
		fork_prove_once();
		fork_load_once();
	}
	return NULL;
}

static void from_many_threads(void)
{
	pthread_t threads[4];

	for (size_t i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, fork_often, NULL) == 0);
	for (size_t i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

/* libc's own call of fork. */
static void by_forkpty(void)
{
	for (int i = 0; i < 100; i++) {
		int terminal;

		fork_load_once();
		pid_t child = forkpty(&terminal, NULL, NULL, NULL);
		if (child < 0)
			return; /* nothing to tell: no terminals here */
		if (child == 0)
			fork_prove_child();
		fork_expect_success(child);
		close(terminal);
	}
}

/* A thread forks that has never asked for memory, nor has the child until then. */
static void *only_fork(void *unused)
{
	for (int i = 0; i < 100; i++)
		fork_prove_once();
	atomic_store(&forked, 1);
	return NULL;
}

static void by_thread_without_memory(void)
{
	pthread_t thread;

	fork_load_once();
	CHECK(pthread_create(&thread, NULL, only_fork, NULL) == 0);
	while (!atomic_load(&forked))
		fork_load_once();
	CHECK(pthread_join(thread, NULL) == 0);
}

/* Large blocks on their way to a thread that frees them. */
enum { SENT = 1024 };
static _Atomic(void *) sent[SENT];

static void *free_sent(void *unused)
{
	for (size_t i = 0;; i++)
		free(atomic_exchange(&sent[i % SENT], NULL));
	return NULL;
}

/* Made by libc's own function, as its helpers and other interposers make theirs, and never asking for memory. */
static void beside_unseen_thread(void)
{
	void *libc = dlmopen(LM_ID_BASE, "libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	pthread_t thread;

	CHECK(libc != NULL);
	*(void **)&create = dlsym(libc, "pthread_create");
	if (create == NULL)
		case_skip(); /* before glibc 2.34 it is elsewhere */
	CHECK(create(&thread, NULL, free_sent, NULL) == 0);
	for (int i = 0; i < 4000; i++) {
		for (size_t k = 0; k < SENT; k++)
			free(atomic_exchange(&sent[k], malloc(40000 + k % 4 * 30000)));
		pid_t child = fork();

		if (child == 0) {
			alarm(20);
			for (size_t k = 0; k < 100; k++)
				CHECK(malloc(k < 50 ? 40000 : 30000) != NULL);
			_exit(0);
		}
		fork_expect_success(child);
	}
}

/* Past all fork handlers, while nobody else is amid the allocator. */
static void by_bare_clone(void)
{
	for (int i = 0; i < 100; i++) {
		pid_t child;

		fork_load_once();
		child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (child == 0)
			fork_prove_child();
		fork_expect_success(child);
	}
}

/* A child of fork has one thread; a thread's blocks and those it had freed are not lost with it. */
static void child_does_not_grow(void)
{
	pid_t child = 0;
	int generation;

	fork_load_once();
	for (generation = 0; generation < 100; generation++) {
		child = fork();
		if (child)
			break;
		for (int i = 0; i < 5; i++)
			fork_load_once();
	}
	if (child)
		fork_expect_success(child);
	else
		CHECK(work_resident_kib() < 300 << 10);
	if (generation > 0)
		_exit(0);
}

/* Blocks that go from thread to thread. */
int hak_check(void) __attribute__((weak));
enum { DRIFTING = 40000, LARGE = 64 };
static _Atomic(void *) drifting[DRIFTING];

/* Sizes that drift, over a heap large enough for slabs of mixed sizes. */
static void drift_once(size_t round)
{
	for (size_t i = 0; i < DRIFTING / 8; i++) {
		size_t place = (round * 7919 + i * 13) % DRIFTING;

		free(atomic_exchange(&drifting[place], malloc(48 + round % 24 * 40 + i % 100)));
	}
}

/* 40 KiB to 2.5 MiB. */
static void drift_large(size_t round)
{
	for (size_t i = 0; i < 2 * LARGE; i++) {
		size_t place = (round * 31 + i * 13) % LARGE, size = (40 << 10) + (round * 37 + i * i) % 41 * (60 << 10);

		free(atomic_exchange(&drifting[place], malloc(size)));
	}
}

struct drift {
	void (*once)(size_t round);
	size_t first;
};

static void *drift(void *arg)
{
	const struct drift *d = arg;

	for (size_t round = d->first;; round++)
		d->once(round);
	return NULL;
}

static void books_in_order(void (*once)(size_t round), size_t rounds)
{
	static struct drift drifts[3];

	if (hak_check == NULL) /* the allocator is another */
		return;
	for (size_t i = 0; i < 3; i++) {
		pthread_t thread;

		drifts[i] = (struct drift){once, i * 8};
		CHECK(pthread_create(&thread, NULL, drift, &drifts[i]) == 0);
	}
	for (size_t round = 0; round < rounds; round++) {
		once(round);
		pid_t child = fork();

		if (child == 0) {
			once(round + 12);
			CHECK(hak_check() == 0);
			_exit(0);
		}
		fork_expect_success(child);
	}
}

static void child_finds_books_in_order(void)
{
	books_in_order(drift_once, 15);
}

static void child_finds_large_blocks_in_order(void)
{
	books_in_order(drift_large, 100);
}

/* What a thread has freed lies in its cache when others fork. */
enum { RESTING = 400, RESTING_SIZE = 1000, STACK = 256 << 10 };
static void *resting[RESTING];
static atomic_bool is_resting;

static void *free_and_rest(void *unused)
{
	for (size_t i = 0; i < RESTING; i++)
		resting[i] = malloc(RESTING_SIZE);
	for (size_t i = 0; i < RESTING; i++)
		free(resting[i]);
	is_resting = true;
	for (;;)
		pause();
	return NULL;
}

static void *start_resting(void)
{
	void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;

	CHECK(stack != MAP_FAILED);
	pthread_attr_init(&attributes);
	CHECK(pthread_attr_setstack(&attributes, stack, STACK) == 0);
	CHECK(pthread_create(&thread, &attributes, free_and_rest, NULL) == 0);
	pthread_attr_destroy(&attributes);
	while (!is_resting)
		sched_yield();
	return stack;
}

/* As programs do that let devices write to memory: the child has none of it. */
static void blocks_kept_from_child(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	pid_t child;

	start_resting();
	for (size_t i = 0; i < RESTING; i++) {
		uintptr_t first = (uintptr_t)resting[i] & -page, last = ((uintptr_t)resting[i] + RESTING_SIZE - 1) & -page;

		CHECK(madvise((void *)first, last + page - first, MADV_DONTFORK) == 0);
	}
	child = fork();
	if (child == 0)
		_exit(0);
	fork_expect_success(child);
}

/* A thread's stack is nobody's in the child, which may do with it what it likes. */
static void stack_unmapped_by_child(void)
{
	void *stack = start_resting();
	pid_t child = fork();

	if (child == 0) {
		CHECK(munmap(stack, STACK) == 0);
		fork_prove_child();
	}
	fork_expect_success(child);
}

static void *load_once(void *unused)
{
	fork_load_once();
	return NULL;
}

static void child_with_threads_at_once(void)
{
	fork_start_load(2);
	for (int i = 0; i < 40; i++) {
		pid_t child = fork();

		if (child == 0) {
			pthread_t threads[2];

			for (size_t t = 0; t < 2; t++)
				CHECK(pthread_create(&threads[t], NULL, load_once, NULL) == 0);
			fork_load_once();
			for (size_t t = 0; t < 2; t++)
				CHECK(pthread_join(threads[t], NULL) == 0);
			fork_prove_child();
		}
		fork_expect_success(child);
	}
}

static void *fork_and_end(void *unused)
{
	pid_t child = fork();

	if (child != 0)
		fork_expect_success(child);
	return NULL; /* the child's only thread */
}

static void child_ends_with_its_thread(void)
{
	fork_start_load(2);
	for (int i = 0; i < 40; i++) {
		pthread_t thread;

		CHECK(pthread_create(&thread, NULL, fork_and_end, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
}

/* Children that do nothing but fork. */
static void grandchild_does_the_work(void)
{
	fork_start_load(2);
	for (int i = 0; i < 40; i++) {
		pid_t child = fork();

		if (child == 0) {
			pid_t grandchild = fork();

			if (grandchild == 0)
				fork_prove_child_threads();
			fork_expect_success(grandchild);
			fork_prove_child();
		}
		fork_expect_success(child);
	}
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"fork_under_load_gives_whole_child", under_load},
		{"fork_of_forked_children_gives_whole_child", many_generations},
		{"fork_in_handler_gives_whole_child", in_handler_alone},
		{"fork_in_handler_amid_realloc_gives_whole_child", in_handler_amid_realloc},
		{"fork_in_handler_child_returns_to_interrupted_call", returns_from_handler},
		{"fork_in_handler_child_returns_to_early_call", returns_from_handler_early},
		{"fork_in_handler_child_forks_again", twice_in_handler},
		{"fork_in_handler_with_threads_gives_whole_child", in_handler_with_threads},
		{"fork_in_handler_of_any_thread_gives_whole_child", in_handler_of_any_thread},
		{in_atfork_handlers_name, in_atfork_handlers},
		{"fork_with_streams_locked_does_not_hang", with_streams_locked},
		{"fork_from_many_threads_gives_whole_children", from_many_threads},
		{"fork_by_thread_without_memory_gives_whole_child", by_thread_without_memory},
		{"fork_beside_thread_unseen_gives_whole_child", beside_unseen_thread},
		{"forkpty_gives_whole_child", by_forkpty},
		{"clone_past_handlers_gives_whole_child", by_bare_clone},
		{"fork_under_load_leaves_books_in_order", child_finds_books_in_order},
		{"fork_amid_large_blocks_leaves_books_in_order", child_finds_large_blocks_in_order},
		{"fork_in_a_row_leaves_no_growth", child_does_not_grow},
		{"fork_leaves_cached_blocks_alone", blocks_kept_from_child},
		{"fork_child_unmaps_stack_of_thread", stack_unmapped_by_child},
		{"fork_child_starts_threads_at_once", child_with_threads_at_once},
		{"fork_by_thread_whose_child_ends_with_it", child_ends_with_its_thread},
		{"fork_of_child_that_only_forks_gives_whole_child", grandchild_does_the_work},
		{NULL, NULL},
	};

	if (argc > 1 && strcmp(argv[1], "fork_in_handler_gives_whole_child") != 0)
		alarm(WHOLE_SECONDS);
	return cases_main(argc, argv, cases);
}
