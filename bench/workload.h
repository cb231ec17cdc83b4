/* SPDX-License-Identifier: MIT */
/*
 * What every workload of the catalogue shares: its arguments, its clock, the proof of which
 * allocator served it, and what it prints. The allocator measured is whatever `malloc` resolves to.
 *
 * A workload describes itself, begins, makes its tables with scratch(), runs its timed part between
 * workload_start and workload_stop, shows live blocks with workload_served, and ends:
 *
 *	int main(int argc, char **argv) {
 *		workload_begin(&workload, argc, argv);
 *		...
 *		return workload_end();
 *	}
 *
 * Nothing here allocates by malloc between workload_begin and workload_end, so all that malloc sees
 * is the workload. Bad arguments end the program with one line on standard error and status 2, a
 * damaged block or memory that ran out with status 1, the wrong allocator with status 3; standard
 * output then stays empty.
 */
#ifndef HAK_BENCH_WORKLOAD_H
#define HAK_BENCH_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* An unsigned decimal number from `low` to `high`. `value` is the default until workload_begin,
   then what was asked for. */
struct parameter {
	const char *name;
	const char *meaning;
	uint64_t low, high, value;
};

struct workload {
	const char *name, *summary;
	struct parameter *parameters; /* positional, all optional, ended by a NULL name */
	struct parameter *options;    /* --name=VALUE, ended by a NULL name; or NULL */
};

/* ---- Life of a workload ---- */

/* Parses the arguments. --help prints the usage and ends the program with status 0; --json asks for
   one JSON object on one line; --expect=PATH names the object file whose malloc must serve ("libc":
   the C library's own), checked now and, as far as blocks are concerned, at the end. */
void workload_begin(const struct workload *workload, int argc, char **argv);

/* Begins the timed part, and ends it adding `operations` to those done; may be repeated, times add
   up. The CPU time of all threads counts. */
void workload_start(void);
void workload_stop(uint64_t operations);

/* Shows a live block of the workload to the proof of who served. Any thread, at any time. */
void workload_served(void *block);

/* Adds a result of the workload's own. Both may be built on the stack; one thread at a time. */
void workload_figure(const char *name, double value, const char *unit);

/* Adds to the series of samples: resident memory now, without the workload's own tables, beside
   `live_bytes` that the workload holds. At most SAMPLES_MAX times, by one thread at a time. */
enum { SAMPLES_MAX = 1024 };
void workload_resident(const char *label, size_t live_bytes);

/* Adds to the timed part what was measured otherwise: seconds of a program that the workload
   ran. */
void workload_add(double wall, double cpu, uint64_t operations);

/* Says whose memory is reported instead of this process's: bytes at most and at the end of a
   program that the workload ran. */
void workload_memory(size_t peak, size_t end);

/* Prints everything, and returns what main is to; ends the program with status 3 if the allocator
   expected did not serve. */
int workload_end(void);

/* Ends the program with "NAME: MESSAGE", in one line, on standard error and that status: 2 for bad
   arguments, 3 if the allocator expected did not serve, 77 if what the workload needs is not installed. */
_Noreturn void workload_exit(int status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The same with status 1 and 2. */
_Noreturn void workload_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void workload_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Means ---- */

/* Zeroed memory for the workload's own tables, touched already; never freed, never from malloc. */
void *scratch(size_t bytes);

/* The number of KiB after `key` in a file of /proc, in bytes; 0 if there is none. Allocates
   nothing. */
size_t proc_kib(const char *path, const char *key);

/* Bytes of this process in memory now; allocates nothing. */
size_t resident_bytes(void);

/* Seconds since some moment in the past, without jumps; CPU seconds of all threads so far. */
double wall_seconds(void);
double cpu_seconds(void);

enum { MAX_THREADS = 512 };

/* Runs body(0, context) … body(threads - 1, context), at most MAX_THREADS, each in a thread of its
   own, until all have returned. */
void run_threads(unsigned threads, void (*body)(unsigned index, void *context), void *context);

/* Next of a sequence that is the same everywhere (splitmix64); any seed is good. */
static inline uint64_t random_next(uint64_t *state) {
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Evenly from `low` to `high`, both included; they are less than 4 Gi apart. */
static inline uint64_t random_between(uint64_t *state, uint64_t low, uint64_t high) {
	return low + (((random_next(state) >> 32) * (high - low + 1)) >> 32);
}

/* ---- Blocks that notice damage ---- */

/* The least size of a stamped block. */
enum { MIN_BLOCK = sizeof(uint64_t) };

_Noreturn void block_fail(const void *block, size_t size);

static inline uint64_t block_stamp(const void *block, size_t size) {
	return ((uintptr_t)block ^ UINT64_C(0x5bd1e9955bd1e995)) + size;
}

/* Writes the first word and the last byte of a block of at least MIN_BLOCK bytes. */
static inline void block_mark(void *block, size_t size) {
	((unsigned char *)block)[size - 1] = (unsigned char)size;
	*(uint64_t *)block = block_stamp(block, size);
}

/* Ends the program unless block_mark's stamp is intact. */
static inline void block_check(const void *block, size_t size) {
	uint64_t stamp = block_stamp(block, size);
	if (*(const uint64_t *)block != stamp || (size > sizeof(stamp) &&
			((const unsigned char *)block)[size - 1] != (unsigned char)size))
		block_fail(block, size);
}

/* A marked block from malloc; checks it and frees it. */
static inline void *block_new(size_t size) {
	void *block = malloc(size);
	if (__builtin_expect(block == NULL, 0))
		block_fail(NULL, size);
	block_mark(block, size);
	return block;
}

/* The stamp is spoiled, so that a block that was handed out twice is noticed when freed again. */
static inline void block_free(void *block, size_t size) {
	block_check(block, size);
	*(uint64_t *)block = 0;
	free(block);
}

#endif
