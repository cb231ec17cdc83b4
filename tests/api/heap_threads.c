/* SPDX-License-Identifier: MIT */
/* hakmem.h, one heap among several threads. */
#include "heap_common.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8 };

/* Threads report through this, since cmocka's assertions are for the main thread only. */
static atomic_int faults;

static void expect(bool condition)
{
	if (!condition)
		atomic_fetch_add(&faults, 1);
}

static void run_threads(void *(*body)(void *), void *arguments[THREADS])
{
	pthread_t threads[THREADS];

	atomic_store(&faults, 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, body, arguments[i]), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(atomic_load(&faults), 0);
}

/* A block as the threads hand it on: its size and seed come first, then the pattern. */
struct parcel {
	size_t size;
	unsigned seed;
	unsigned char rest[];
};

static size_t random_parcel_size(uint64_t *randomp)
{
	return (size_t)(random_next(randomp) % ((size_t)64 << random_next(randomp) % 13));
}

static struct parcel *pack(hak_heap_t *heap, uint64_t *randomp)
{
	size_t size = random_parcel_size(randomp);
	struct parcel *parcel = hak_heap_malloc(heap, sizeof(*parcel) + size);

	expect(parcel != NULL);
	if (!parcel)
		return NULL;
	parcel->size = size;
	parcel->seed = (unsigned)random_next(randomp);
	fill(parcel->rest, size, parcel->seed);
	return parcel;
}

static void unpack(struct parcel *parcel)
{
	if (!parcel)
		return;
	expect(is_filled(parcel->rest, parcel->size, parcel->seed));
	free(parcel);
}

/* Places that all threads put parcels in and take parcels from. */
enum { PLACES = 512 };

struct exchange {
	hak_heap_t *heap;
	atomic_uint next_seed;
	_Atomic(struct parcel *) places[PLACES];
};

static void *exchange_parcels(void *argument)
{
	struct exchange *exchange = argument;
	uint64_t random = 0x5eed + atomic_fetch_add(&exchange->next_seed, 1);

	for (int step = 0; step < 20000; step++) {
		struct parcel *parcel = pack(exchange->heap, &random);
		unpack(atomic_exchange(&exchange->places[random_next(&random) % PLACES], parcel));
	}
	return NULL;
}

static void heap_shared_by_threads_contents_kept(void **state)
{
	struct exchange *exchange = calloc(1, sizeof(*exchange));
	void *arguments[THREADS];

	assert_non_null(exchange);
	exchange->heap = new_heap();
	for (int i = 0; i < THREADS; i++)
		arguments[i] = exchange;
	run_threads(exchange_parcels, arguments);
	for (int i = 0; i < PLACES; i += 2)
		unpack(atomic_load(&exchange->places[i])); /* the others go with the heap */
	assert_int_equal(atomic_load(&faults), 0);
	hak_heap_destroy(exchange->heap);
	free(exchange);
}

/* Each thread's share of blocks to free. */
struct share {
	struct parcel *parcels[1000];
};

static void *free_share(void *argument)
{
	struct share *share = argument;

	for (int i = 0; i < 1000; i++)
		unpack(share->parcels[i]);
	return NULL;
}

static void heap_blocks_freed_by_other_threads_then_heap_usable(void **state)
{
	hak_heap_t *heap = new_heap();
	uint64_t random = 0x5eed;
	void *arguments[THREADS];
	struct share *shares = calloc(THREADS, sizeof(*shares));

	assert_non_null(shares);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 1000 * THREADS; i++)
			shares[i % THREADS].parcels[i / THREADS] = pack(heap, &random);
		for (int i = 0; i < THREADS; i++)
			arguments[i] = &shares[i];
		run_threads(free_share, arguments);
	}
	hak_heap_destroy(heap);
	free(shares);
}

static void *fill_new_heap(void *argument)
{
	hak_heap_t *heap = hak_heap_new();
	uint64_t random = 0x5eed;

	expect(heap != NULL);
	for (int i = 0; heap && i < 1000; i++)
		pack(heap, &random);
	*(hak_heap_t **)argument = heap;
	return NULL;
}

static void heap_of_dead_thread_usable(void **state)
{
	hak_heap_t *heaps[THREADS];
	void *arguments[THREADS];
	uint64_t random = 0x5eed;

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < THREADS; i++)
			arguments[i] = &heaps[i];
		run_threads(fill_new_heap, arguments);
		for (int i = 0; i < THREADS; i++) {
			unpack(pack(heaps[i], &random));
			hak_heap_destroy(heaps[i]);
		}
	}
	assert_int_equal(atomic_load(&faults), 0);
}

static void *create_and_destroy(void *argument)
{
	for (int i = 0; i < 500; i++) {
		hak_heap_t *heap = hak_heap_new();
		uint64_t random = (uint64_t)i + 1;
		expect(heap != NULL);
		for (int j = 0; heap && j < 10; j++)
			pack(heap, &random);
		hak_heap_destroy(heap);
	}
	return NULL;
}

static void heaps_created_and_destroyed_by_threads_no_growth(void **state)
{
	void *arguments[THREADS] = {NULL};

	run_threads(create_and_destroy, arguments);
	size_t before = resident_bytes();
	for (int round = 0; round < 3; round++)
		run_threads(create_and_destroy, arguments);
	assert_true(resident_bytes() < before + 32 * MIB);
}

struct work {
	hak_heap_t *heap;
	void *blocks[2000];
};

static void *resize_in_heap(void *argument)
{
	struct work *work = argument;
	uint64_t random = (uintptr_t)argument | 1;

	for (unsigned i = 0; i < 2000; i++) {
		void *block = hak_heap_realloc(work->heap, NULL, 64);
		expect(block != NULL);
		if (block)
			fill(block, 64, i);
		work->blocks[i] = block;
	}
	for (int step = 0; step < 10000; step++) {
		unsigned i = (unsigned)(random_next(&random) % 2000);
		void *block = hak_heap_realloc(work->heap, work->blocks[i], 64 + random_parcel_size(&random));
		expect(block && is_filled(block, 64, i));
		if (block)
			work->blocks[i] = block;
	}
	return NULL;
}

static void heap_realloc_by_threads_contents_kept(void **state)
{
	hak_heap_t *heap = new_heap();
	struct work *works = calloc(THREADS, sizeof(*works));
	void *arguments[THREADS];

	assert_non_null(works);
	for (int i = 0; i < THREADS; i++) {
		works[i].heap = heap;
		arguments[i] = &works[i];
	}
	run_threads(resize_in_heap, arguments);
	for (int i = 0; i < THREADS; i++)
		for (unsigned j = 0; j < 2000; j++)
			assert_true(is_filled(works[i].blocks[j], 64, j));
	hak_heap_destroy(heap);
	free(works);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heap_shared_by_threads_contents_kept),
		cmocka_unit_test(heap_blocks_freed_by_other_threads_then_heap_usable),
		cmocka_unit_test(heap_of_dead_thread_usable),
		cmocka_unit_test(heaps_created_and_destroyed_by_threads_no_growth),
		cmocka_unit_test(heap_realloc_by_threads_contents_kept),
	};

	return RUN_TESTS(tests);
}
