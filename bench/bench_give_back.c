/* SPDX-License-Identifier: MIT */
/*
 * 400 MiB of small blocks, all freed: what stays? Resident memory is looked at as soon as the last
 * block is freed, after the program was idle for a while, and after it made 1000 more calls. With
 * --threads each thread makes and frees its share, then stays alive and idle. So live a service
 * after its nightly report, an editor after a large file was closed, and a pool of worker threads
 * after a burst.
 *
 * An allocator without a thread of its own runs only when it is called: it is good at this if it
 * gives back while it frees, does not leave a rest in each idle thread, and yet does not return
 * memory that a busy program is about to ask for again.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "blocks.h"

static struct parameter parameters[] = {
	{"MEGABYTES", "MiB of blocks", 1, 65536, 400},
	{"LOW", "smallest block", MIN_BLOCK, 1 << 20, 16},
	{"HIGH", "largest block", MIN_BLOCK, 1 << 20, 184},
	{"SEED", "of sizes and order", 0, UINT64_MAX, 1},
	{.name = NULL},
};

enum { THREADS, IDLE, SHUFFLE, TURN };
static struct parameter options[] = {
	[THREADS] = {"threads", "threads that share the work and stay alive; 1: the program's own", 1, 64, 1},
	[IDLE] = {"idle", "seconds without a call", 0, 3600, 10},
	[SHUFFLE] = {"shuffle", "1: blocks are freed in random order; 0: in the order they were made", 0, 1, 0},
	[TURN] = {"turn", "descriptor of a file, locked except while idle, for runs side by side; 0: none", 0, 65535, 0},
	{.name = NULL},
};

static const struct workload workload = {
	.name = "bench_give_back",
	.summary = "small blocks, all freed: resident memory at once, after idling, after 1000 more\n"
		"calls; an operation is a malloc and its free",
	.parameters = parameters,
	.options = options,
};

enum { MAX_SHARES = 64, CALLS = 1000 };

static struct blocks shares[MAX_SHARES];
static unsigned threads;
static pthread_barrier_t go, done;
static void (*volatile step)(unsigned index); /* of all threads; NULL: end. Set before `go` */

static void fill(unsigned index) {
	uint64_t random = parameters[3].value + index;
	blocks_fill(&shares[index], parameters[0].value * MIB / threads, parameters[1].value,
		parameters[2].value, &random);
	if (options[SHUFFLE].value)
		blocks_shuffle(&shares[index], &random);
}

static void empty(unsigned index) {
	blocks_remove_from(&shares[index], 0);
}

static void *worker(void *index) {
	for (;;) {
		pthread_barrier_wait(&go);
		if (step == NULL)
			return NULL;
		step((unsigned)(uintptr_t)index);
		pthread_barrier_wait(&done);
	}
}

/* Lets every thread do `what`, and waits for all. */
static void do_step(void (*what)(unsigned)) {
	if (threads == 1) {
		what(0);
		return;
	}
	step = what;
	pthread_barrier_wait(&go);
	pthread_barrier_wait(&done);
}

static void start_threads(pthread_t *ids) {
	pthread_barrier_init(&go, NULL, threads + 1);
	pthread_barrier_init(&done, NULL, threads + 1);
	for (unsigned i = 0; threads > 1 && i < threads; i++)
		if (pthread_create(&ids[i], NULL, worker, (void *)(uintptr_t)i) != 0)
			workload_fail("no thread %u", i);
}

static void end_threads(const pthread_t *ids) {
	if (threads == 1)
		return;
	step = NULL;
	pthread_barrier_wait(&go);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
}

static size_t total_live(void) {
	size_t live = 0;
	for (unsigned i = 0; i < threads; i++)
		live += shares[i].live;
	return live;
}

static uint64_t total_count(void) {
	uint64_t count = 0;
	for (unsigned i = 0; i < threads; i++)
		count += shares[i].count;
	return count;
}

/* A little ordinary life in the first thread: half the calls allocate, the others free. */
static void more_calls(void) {
	static void *block[CALLS / 2];
	uint64_t random = parameters[3].value;
	for (unsigned i = 0; i < CALLS / 2; i++)
		block[i] = block_new(parameters[1].value);
	for (unsigned i = 0; i < CALLS / 2; i++) {
		unsigned other = (unsigned)random_between(&random, i, CALLS / 2 - 1);
		void *chosen = block[other];
		block[other] = block[i];
		block_free(chosen, parameters[1].value);
	}
}

/* Only one at a time of those that run side by side is at work: memory is given back by age, too. */
static void change_turn(int how) {
	int fd = (int)options[TURN].value;
	if (fd != 0 && lockf(fd, how, 0) != 0)
		workload_fail("cannot lock descriptor %d: %s", fd, strerror(errno));
}

static void idle(uint64_t seconds) {
	struct timespec left = {.tv_sec = (time_t)seconds};
	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

static void look(const char *name, size_t before) {
	workload_resident(name, total_live());
	workload_figure(name, (double)resident_since(before) / MIB, "MiB");
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	threads = (unsigned)options[THREADS].value;
	size_t low = parameters[1].value, high = parameters[2].value;
	if (low > high)
		workload_refuse("LOW is above HIGH");
	change_turn(F_LOCK);
	for (unsigned i = 0; i < threads; i++)
		blocks_init(&shares[i], parameters[0].value * MIB / threads, low, high);
	pthread_t ids[MAX_SHARES];
	start_threads(ids);
	size_t before = resident_bytes();

	workload_start();
	do_step(fill);
	uint64_t made = total_count();
	workload_stop(made);
	workload_served(shares[0].table[0].at);
	look("full", before);
	workload_start();
	do_step(empty);
	workload_stop(0);
	look("at_once", before);
	change_turn(F_ULOCK);
	idle(options[IDLE].value);
	look("after_idle", before); /* before it waits for its turn: all have been idle for as long */
	change_turn(F_LOCK);
	workload_start();
	more_calls();
	workload_stop(CALLS / 2);
	look("after_calls", before);
	end_threads(ids);
	return workload_end();
}
