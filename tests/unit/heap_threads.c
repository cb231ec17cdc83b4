/* SPDX-License-Identifier: MIT */
/*
 * Heaps of several threads that free each other's blocks and end while these are out. Each block is
 * marked by who has it; in the end all memory is back in the space layer.
 */
#include <string.h>

#include "common.h"
#include "front/alloc.h"
#include "front/bigcache.h"
#include "front/nursery.h"
#include "slab/pool.h"

enum { THREADS = 4, SHARED = 64, ROUNDS = 20000 };

/* Blocks on their way to whoever picks them up. */
static _Atomic(void *) shared[SHARED];
static _Thread_local struct bin bins[SC_COUNT];

static size_t random_size(uint64_t *seed)
{
	uint64_t r = next_random(seed);

	if (r % 256 == 0)
		return 16 + r / 256 % (600 * HAK_KIB);
	return 16 + r / 256 % (r % 8 == 0 ? 8000 : 200);
}

/* The size and a word made of it, so that a block in two hands shows. */
static void mark(void *p, size_t size)
{
	((size_t *)p)[0] = size;
	((size_t *)p)[1] = ~size;
	((char *)p)[size - 1] = (char)size;
}

static void unmark(struct heap *h, void *p)
{
	size_t *word = p, size = word[0], usable;

	CHECK(word[1] == ~size);
	CHECK(size == 16 || ((char *)p)[size - 1] == (char)size);
	CHECK(block_usable_size(OP_USABLE_SIZE, p, &usable) && usable >= size);
	word[1] = 0;
	CHECK(free_block(h, p));
}

static void *alloc_marked(struct heap *h, uint64_t *seed)
{
	size_t size = random_size(seed);
	bool zero = next_random(seed) % 4 == 0;
	void *p = alloc_block(h, size, ALLOC_ALIGN, zero);

	CHECK(p != NULL && (uintptr_t)p % ALLOC_ALIGN == 0);
	CHECK(!zero || bytes_are(p, size, 0));
	if (size > 16)
		mark(p, size);
	else
		((size_t *)p)[0] = 16, ((size_t *)p)[1] = ~(size_t)16;
	return p;
}

static void live_with_heaps(unsigned index)
{
	uint64_t seed = 21 + index;
	struct heap *h = heap_acquire(bins, false);

	for (int i = 0; i < ROUNDS; i++) {
		void *p = alloc_marked(h, &seed);
		p = atomic_exchange(&shared[next_random(&seed) % SHARED], p);
		if (p != NULL)
			unmark(h, p);
		if (next_random(&seed) % 2048 == 0)
			release_memory(h, 0);
		if (next_random(&seed) % 1024 == 0) {
			heap_retire(h);
			CHECK(bins[1].magic == 0);
			h = heap_acquire(bins, false);
		}
	}
	heap_retire(h);
}

static void blocks_freed_by_any_thread_come_home(void **state)
{
	struct heap *h;

	run_threads(THREADS, live_with_heaps);
	h = heap_acquire(bins, false);
	for (int i = 0; i < SHARED; i++)
		if (shared[i] != NULL)
			unmark(h, shared[i]);
	heap_retire(h);
	bigcache_release(0);
	for (unsigned sc = 1; sc < SC_COUNT; sc++)
		assert_int_equal(pool_count(sc), 0);
	/* The nursery's granule stays. */
	assert_int_equal(hak_space.live, nursery_used() != 0);
	assert_int_equal(hak_space.big + hak_space.large, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_freed_by_any_thread_come_home),
	};

	return UNIT_RUN(tests);
}
