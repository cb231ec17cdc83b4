/* SPDX-License-Identifier: MIT */
/*
 * Many of everything at a time: forks, threads, cancellations, signals. Nothing is lost and nothing
 * damaged. FAULTS_SCALE in the environment makes each so many times longer.
 */
#include "../death/cases.h"
#include "../lifecycle/forks.h"
#include "../lifecycle/work.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static pthread_attr_t small_stack;

static int scaled(int count)
{
	const char *scale = getenv("FAULTS_SCALE");

	return scale ? count * atoi(scale) : count;
}

static void start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	CHECK(pthread_create(thread, &small_stack, run, argument) == 0);
}

static void finish(pthread_t thread)
{
	CHECK(pthread_join(thread, NULL) == 0);
}

/* ---- forks ---- */

static void *fork_many(void *unused)
{
	for (int i = scaled(50); i > 0; i--) {
		pid_t child;

		fork_load_once();
		child = fork();
		if (child == 0)
			fork_prove_child();
		fork_expect_success(child);
	}
	return NULL;
}

/* Four hundred forks by eight threads, each of which allocates whenever it does not fork. */
static void fork_storm(void)
{
	pthread_t threads[8];

	for (size_t i = 0; i < 8; i++)
		start(&threads[i], fork_many, NULL);
	for (size_t i = 0; i < 8; i++)
		finish(threads[i]);
}

/* Children that are killed anywhere, and others that are stopped for a while: what they share with the
   parent is copied at the first write, and no business of hers. */
static void child_killed(void)
{
	fork_start_load(2);
	for (int i = scaled(150); i > 0; i--) {
		pid_t victim = fork(), child;

		if (victim == 0)
			for (;;)
				fork_load_once();
		child = fork();
		if (child == 0)
			fork_prove_child();
		kill(victim, i % 2 ? SIGKILL : SIGSTOP);
		fork_load_once();
		kill(victim, SIGKILL);
		fork_expect_success(child);
		fork_load_once();
	}
	_exit(0);
}

/* ---- threads ---- */

static _Atomic(void *) parcels[512];
static atomic_int running;

static void hand_over(size_t at, size_t size)
{
	void *other = atomic_exchange(&parcels[at % 512], work_parcel(size));

	if (other)
		work_open_parcel(other);
}

static void *live_shortly(void *number)
{
	size_t n = (uintptr_t)number;

	for (size_t i = 0; i < 12; i++)
		hand_over(n * 13 + i * 41, (size_t)24 << (n + i) % 9);
	if (n % 64 == 0)
		hand_over(n, 700 << 10);
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static void storm_until(uintptr_t *donep, uintptr_t total)
{
	for (; *donep < total; ++*donep) {
		pthread_t thread;

		while (running >= 200)
			usleep(200);
		running++;
		start(&thread, live_shortly, (void *)*donep);
		CHECK(pthread_detach(thread) == 0);
	}
	while (running)
		usleep(200);
}

/* The least that resident memory grew in one of several rounds, in KiB: what threads leave behind is
   there in each of them. A machine under load has more threads alive at a time in one round than in
   those before, and it may read the memory before what they had is given back. */
static long least_growth(void (*round)(void))
{
	long least = LONG_MAX, before = work_resident_kib();

	for (int i = 0; i < 4; i++) {
		long after;

		round();
		after = work_resident_kib();
		if (after - before < least)
			least = after - before;
		before = after;
	}
	return least;
}

static uintptr_t storm_done;

static void storm_more(void)
{
	storm_until(&storm_done, storm_done + (uintptr_t)scaled(4250));
}

/* Up to two hundred at a time, which end in any order. */
static void thread_storm(void)
{
	storm_until(&storm_done, 3000);
	/* A page that each left would be 16 MiB. */
	CHECK(least_growth(storm_more) < 8 << 10);
	work_all_sizes();
}

static void give_back(void *parcel)
{
	work_open_parcel(parcel);
}

/* Cancelled wherever it may be: in usleep, at the test, or before it has begun. */
static void *live_until_cancelled(void *number)
{
	for (volatile size_t n = (uintptr_t)number;; n++) {
		void *parcel = work_parcel((size_t)32 << n % 12);

		pthread_cleanup_push(give_back, parcel);
		if (n % 16 == 0)
			usleep(1);
		pthread_testcancel();
		pthread_cleanup_pop(1);
		hand_over(n, 100 + n % 3000);
	}
	return NULL;
}

/* At any instruction, but of code that does not allocate. */
static void *spin_until_cancelled(void *unused)
{
	void *parcel = work_parcel(300);

	pthread_cleanup_push(give_back, parcel);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (volatile unsigned i = 0;; i++) {
	}
	pthread_cleanup_pop(1);
	return NULL;
}

static void cancel_some(int count)
{
	for (int i = 0; i < count; i++) {
		pthread_t threads[4];

		for (uintptr_t t = 0; t < 3; t++)
			start(&threads[t], live_until_cancelled, (void *)(t * 7 + (unsigned)i));
		start(&threads[3], spin_until_cancelled, NULL);
		usleep((useconds_t)(i * 7919 % 1000));
		for (size_t t = 0; t < 4; t++)
			CHECK(pthread_cancel(threads[t]) == 0);
		for (size_t t = 0; t < 4; t++)
			finish(threads[t]);
	}
}

static void cancel_more(void)
{
	cancel_some(scaled(30));
}

static void cancel_storm(void)
{
	cancel_more();
	/* A heap that each of the 120 threads left behind would be 36 MiB. */
	CHECK(least_growth(cancel_more) < 4 << 10);
	work_all_sizes();
}

/* ---- signals ---- */

static _Thread_local sigjmp_buf back;
static _Thread_local volatile sig_atomic_t may_jump;
static _Thread_local volatile unsigned jumps;
static atomic_bool storm_is_over;
static atomic_uint have_jumped;

static void jump(int signal)
{
	int saved = errno;

	if (may_jump) {
		may_jump = 0;
		siglongjmp(back, 1);
	}
	errno = saved;
}

/* Out of a computation that the handler cuts short, between calls of malloc. */
static void compute(volatile unsigned char *block, size_t size)
{
	if (sigsetjmp(back, 1)) {
		if (jumps++ == 0)
			have_jumped++;
		return;
	}
	may_jump = 1;
	for (size_t i = 0; i < 20000; i++)
		block[64 + i % (size - 128)] ^= 1;
	may_jump = 0;
}

static void *work_amid_signals(void *argument)
{
	size_t n = (uintptr_t)argument;

	while (!storm_is_over) {
		size_t size = 1000 + n++ * 7919 % 60000;
		void *block = work_take(size);

		compute(block, size);
		work_give(block, size);
		hand_over(n, size / 4);
	}
	CHECK(jumps > 0);
	return NULL;
}

static void strike(const pthread_t threads[4], unsigned i)
{
	CHECK(pthread_kill(threads[i % 4], SIGUSR1) == 0);
	if (i % 8 == 0)
		usleep(20);
}

/* It goes on until each thread has come to jump, but not for ever. */
static void signal_storm(void)
{
	struct sigaction action = {.sa_handler = jump, .sa_flags = SA_RESTART};
	unsigned i = 0, count = (unsigned)scaled(40000);
	pthread_t threads[4];

	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	for (uintptr_t t = 0; t < 4; t++)
		start(&threads[t], work_amid_signals, (void *)(t * 1000));
	while (i < count)
		strike(threads, i++);
	for (time_t end = time(NULL) + 30; have_jumped < 4 && time(NULL) < end; i++)
		strike(threads, i);
	storm_is_over = true;
	for (size_t t = 0; t < 4; t++)
		finish(threads[t]);
	work_all_sizes();
}

/* As garbage collectors do: every thread is held in a handler, wherever it was, and goes on later.
   Who holds them does not allocate meanwhile. */
static sem_t held, released, gone;

static void hold(int signal)
{
	int saved = errno;

	sem_post(&held);
	while (sem_wait(&released) && errno == EINTR) {
	}
	sem_post(&gone);
	errno = saved;
}

static void *work_until_over(void *argument)
{
	while (!storm_is_over)
		fork_load_once();
	return NULL;
}

static void for_each_thread(int (*what)(sem_t *), sem_t *semaphore)
{
	for (int i = 0; i < 4; i++)
		while (what(semaphore))
			CHECK(errno == EINTR);
}

static void threads_held(void)
{
	struct sigaction action = {.sa_handler = hold, .sa_flags = SA_RESTART};
	pthread_t threads[4];

	CHECK(!sem_init(&held, 0, 0) && !sem_init(&released, 0, 0) && !sem_init(&gone, 0, 0));
	CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
	for (size_t i = 0; i < 4; i++)
		start(&threads[i], work_until_over, NULL);
	for (int round = scaled(600); round > 0; round--) {
		for (size_t i = 0; i < 4; i++)
			CHECK(pthread_kill(threads[i], SIGUSR2) == 0);
		for_each_thread(sem_wait, &held);
		for_each_thread(sem_post, &released);
		for_each_thread(sem_wait, &gone);
		fork_load_once();
	}
	storm_is_over = true;
	for (size_t i = 0; i < 4; i++)
		finish(threads[i]);
	work_all_sizes();
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"fork_storm_gives_whole_children", fork_storm},
		{"children_killed_and_stopped_leave_parent_whole", child_killed},
		{"thread_storm_leaves_no_growth", thread_storm},
		{"cancel_storm_leaves_no_growth", cancel_storm},
		{"signal_storm_with_jumps_leaves_service", signal_storm},
		{"threads_held_anywhere_go_on", threads_held},
		{NULL, NULL},
	};

	pthread_attr_init(&small_stack);
	pthread_attr_setstacksize(&small_stack, 128 << 10);
	return cases_main(argc, argv, cases);
}
