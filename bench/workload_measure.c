/* SPDX-License-Identifier: MIT */
/*
 * Clocks, memory and threads of a workload. Memory is what smaps_rollup says, which the kernel
 * counts page by page; statm is cheaper but off by up to a batch of pages per CPU on many kernels, and so is
 * the peak that it keeps. What was seen to be resident counts therefore even if that says less.
 */
#include "workload_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static struct measures measures;
static double wall_begin, cpu_begin;
static size_t scratch_bytes, seen_bytes; /* the latter: resident at most when it was looked at, less tables */
static bool is_memory_given;

static double seconds(clockid_t clock) {
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double wall_seconds(void) {
	return seconds(CLOCK_MONOTONIC);
}

double cpu_seconds(void) {
	return seconds(CLOCK_PROCESS_CPUTIME_ID);
}

void workload_start(void) {
	wall_begin = wall_seconds();
	cpu_begin = cpu_seconds();
}

void workload_stop(uint64_t operations) {
	measures.cpu += cpu_seconds() - cpu_begin;
	measures.wall += wall_seconds() - wall_begin;
	measures.operations += operations;
}

void workload_add(double wall, double cpu, uint64_t operations) {
	measures.wall += wall;
	measures.cpu += cpu;
	measures.operations += operations;
}

void workload_memory(size_t peak, size_t end) {
	measures.peak = peak;
	measures.end = end;
	is_memory_given = true;
}

size_t proc_kib(const char *path, const char *key) {
	char text[8192];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t got = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[got < 0 ? 0 : got] = 0;
	const char *found = strstr(text, key);
	return found == NULL ? 0 : strtoull(found + strlen(key), NULL, 10) * 1024;
}

size_t resident_bytes(void) {
	size_t rss = proc_kib("/proc/self/smaps_rollup", "\nRss:");
	if (rss == 0)
		rss = proc_kib("/proc/self/status", "\nVmRSS:");
	if (rss == 0)
		workload_fail("cannot read the resident memory from /proc/self");
	return rss;
}

void *scratch(size_t bytes) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	bytes = (bytes + page - 1) & ~(page - 1);
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		workload_fail("no memory for a table of %zu bytes", bytes);
	memset(memory, 0, bytes); /* MAP_POPULATE is a wish */
	scratch_bytes += bytes;
	return memory;
}

static size_t without_tables(size_t resident) {
	return resident > scratch_bytes ? resident - scratch_bytes : 0;
}

static void copy_label(char to[LABEL_MAX], const char *from) {
	snprintf(to, LABEL_MAX, "%s", from);
}

void workload_figure(const char *name, double value, const char *unit) {
	if (measures.figure_count == FIGURES_MAX)
		workload_fail("more than %d figures", FIGURES_MAX);
	struct figure *f = &measures.figures[measures.figure_count++];
	copy_label(f->name, name);
	copy_label(f->unit, unit);
	f->value = value;
}

void workload_resident(const char *label, size_t live_bytes) {
	if (measures.sample_count == SAMPLES_MAX)
		workload_fail("more than %d samples", SAMPLES_MAX);
	size_t resident = resident_bytes();
	struct sample *s = &measures.samples[measures.sample_count++];
	copy_label(s->label, label);
	s->resident = without_tables(resident);
	seen_bytes = s->resident > seen_bytes ? s->resident : seen_bytes;
	s->live = live_bytes;
	s->ratio = live_bytes > 0 ? (double)s->resident / (double)live_bytes : 0;
}

/* Of this process. Without VmHWM, what was resident before its exec may count as well. */
static size_t peak_bytes(void) {
	struct rusage used;
	size_t peak = proc_kib("/proc/self/status", "\nVmHWM:");
	return peak > 0 || getrusage(RUSAGE_SELF, &used) != 0 ? peak : (size_t)used.ru_maxrss * 1024;
}

const struct measures *measures_end(void) {
	if (is_memory_given)
		return &measures;
	measures.end = without_tables(resident_bytes());
	size_t peak = without_tables(peak_bytes());
	peak = peak > seen_bytes ? peak : seen_bytes;
	measures.peak = peak > measures.end ? peak : measures.end;
	return &measures;
}

struct start {
	unsigned index;
	void (*body)(unsigned, void *);
	void *context;
};

static void *run_one(void *arg) {
	struct start *start = arg;
	start->body(start->index, start->context);
	return NULL;
}

void run_threads(unsigned threads, void (*body)(unsigned, void *), void *context) {
	struct start starts[MAX_THREADS];
	pthread_t ids[MAX_THREADS];
	if (threads > MAX_THREADS)
		workload_fail("more than %d threads", MAX_THREADS);
	for (unsigned i = 0; i < threads; i++) {
		starts[i] = (struct start){ i, body, context };
		int error = pthread_create(&ids[i], NULL, run_one, &starts[i]);
		if (error != 0)
			workload_fail("cannot start thread %u: %s", i + 1, strerror(error));
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
}
