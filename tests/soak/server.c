/* SPDX-License-Identifier: MIT */
/*
 * A process that lives long: for each line on standard input it does the same kind of work again,
 * threads included, keeps a few thousand blocks from round to round, and answers with the kilobytes it has
 * resident. Ends with the input.
 */
#include "../death/cases.h"
#include "../lifecycle/work.h"
#include "../serves.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEPT = 20000, THREADS = 3, STEPS = 40000, BIG_EVERY = 2000 };

static _Atomic(void *) kept[KEPT];
static uint64_t rounds;

/* As programs have it: mostly small, some of a few KB, seldom a large one; sizes drift from round to
   round, and what is kept at a slot stays as large on average. */
static size_t next_size(uint64_t *seed, uint64_t step)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	if (step % BIG_EVERY == 0)
		return *seed % (2 << 20);
	return 16 + (*seed >> 20) % (*seed % 16 == 0 ? 8000 : 200 + rounds % 50 * 8);
}

static void *work(void *number)
{
	uint64_t seed = (uintptr_t)number * 0x9e3779b97f4a7c15 + rounds * 977 + 1;

	for (uint64_t step = 0; step < STEPS; step++) {
		size_t size = next_size(&seed, step);
		size_t at = step % BIG_EVERY == 0 ? step / BIG_EVERY : 100 + (seed >> 8) % (KEPT - 100);
		void *other = atomic_exchange(&kept[at], work_parcel(size));

		if (other)
			work_open_parcel(other);
	}
	return NULL;
}

static void run_round(void)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
	for (size_t i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	work_all_sizes();
	rounds++;
}

int main(void)
{
	char line[16];

	CHECK(serves_as_expected());
	while (fgets(line, sizeof line, stdin)) {
		run_round();
		printf("%ld\n", work_resident_kib());
		fflush(stdout);
	}
	for (size_t i = 0; i < KEPT; i++)
		if (kept[i])
			work_open_parcel(kept[i]);
	return 0;
}
