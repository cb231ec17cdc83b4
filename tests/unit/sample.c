/* SPDX-License-Identifier: MIT */
/* What the profiler makes of a block while other things happen. */
#include "observe/sample.h"

#include <sys/mman.h>

#include "common.h"
#include "front/alloc.h"
#include "front/locked_heap.h"
#include "front/sampling.h"
#include "front/tcache.h"
#include "observe/stack.h"
#include "os/os.h"
#include "space/superslab.h"

static struct heap *heap;
static void (*amid_capture)(void);

void __wrap_stack_capture(struct stack *s, const void *caller);
void __real_stack_capture(struct stack *s, const void *caller);
void __wrap_stack_capture(struct stack *s, const void *caller)
{
	void (*call)(void) = amid_capture;

	amid_capture = NULL;
	__real_stack_capture(s, caller);
	if (call != NULL)
		call();
}

/* As another thread does; and the unwinder allocates. */
static void stop_and_look(void)
{
	sample_stop();
	sampling_look(heap);
	assert_null(heap->sampling);
}

static void *take(size_t size)
{
	void *p = sample_alloc(heap, size, ALLOC_ALIGN, false, NULL);

	assert_non_null(p);
	return p;
}

static size_t blocks_that_live(void)
{
	double blocks = 0;

	for (const struct site *s = sample_sites(); s != NULL; s = s->next)
		blocks += s->live.blocks;
	return (size_t)(blocks + 0.5);
}

static int start(void **state)
{
	heap = heap_acquire(hak_tcache.bin, false);
	if (heap == NULL)
		return -1;
	hak_tcache.heap = heap;
	heap_leave(heap);
	return 0;
}

static int start_sampling(void **state)
{
	if (!sample_start(1, NULL))
		return -1;
	sampling_look(heap);
	return heap->sampling != NULL ? 0 : -1;
}

/* Frees look for sampled blocks only from when there may be some: a program is got ready at its start, and sampled, if at
   all, when it is asked to be. */
static void what_is_ready_costs_frees_nothing(void **state)
{
	assert_false(sample_is_prepared());
	assert_true(sample_prepare(NULL));
	assert_true(sample_is_prepared());
	assert_false(sample_has_blocks());
	sample_on();
	assert_true(sample_has_blocks());
	sample_off();
}

static void block_sampled_while_sampling_ends_is_one(void **state)
{
	void *p;

	take(100000);
	assert_int_equal(blocks_that_live(), 1);
	amid_capture = stop_and_look;
	p = take(100000);
	assert_null(amid_capture);
	assert_false(sample_is_on());
	assert_int_equal(blocks_that_live(), 2);
	assert_true(sample_freed(heap, p, true));
	assert_int_equal(blocks_that_live(), 1);
}

/* A block that moves leaves its address to another before it is taken out of the profile. */
static void of_two_at_an_address_the_oldest_is_freed(void **state)
{
	enum { OTHERS = 1 << 14 };
	static char place[OTHERS + 1];

	for (size_t size = 100; size <= 300; size += 100)
		sample_heap_block(heap, NULL, place, size, NULL);
	for (int i = 1; i <= OTHERS; i++) /* the table grows */
		sample_heap_block(heap, NULL, place + i, 1, NULL);
	for (size_t size = 100; size <= 300; size += 100) {
		double before = 0, after = 0;

		for (const struct site *s = sample_sites(); s != NULL; s = s->next)
			before += s->live.bytes;
		assert_true(sample_freed(heap, place, true));
		for (const struct site *s = sample_sites(); s != NULL; s = s->next)
			after += s->live.bytes;
		assert_int_equal((int)(before - after + 0.5), size);
	}
}

/* There is no memory for the profiler's heap, but the thread's own has a block: nobody would see that one freed. */
static void block_that_the_profiler_has_no_room_for_is_not_sampled(void **state)
{
	enum { SIZE = 700, SPANS = 4096 };
	static struct span spans[SPANS];
	size_t before, n = 0;
	void *p = alloc_block(heap, SIZE, ALLOC_ALIGN, false);

	assert_non_null(p);
	hak_settings.limit = os_mapped();
	while (n < SPANS && span_alloc(1, SPAN_DENSE, 0, &spans[n]))
		n++;
	assert_true(n < SPANS);
	before = blocks_that_live();
	take(SIZE);
	assert_int_equal(blocks_that_live(), before);
	hak_settings.limit = 0;
	while (n > 0)
		span_free(&spans[--n], 0);
	take(SIZE);
	assert_int_equal(blocks_that_live(), before + 1);
	sample_stop();
}

/* The table of all sampled blocks is long. */
static void heap_without_sampled_blocks_is_destroyed_without_looking_for_them(void **state)
{
	struct locked_heap *one = locked_heap_new(), *other = locked_heap_new();
	static char place[3];

	assert_true(one != NULL && other != NULL);
	for (int i = 0; i < 3; i++)
		sample_heap_block(heap, one, place + i, 100, NULL);
	size_t before = blocks_that_live();
	assert_true(sample_freed(heap, place, true));
	assert_int_equal(blocks_that_live(), before - 1);
	assert_int_equal(mprotect(hak_sample_blocks, os_facts.page_size, PROT_NONE), 0);
	sample_heap_destroyed(other);
	assert_int_equal(mprotect(hak_sample_blocks, os_facts.page_size, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(blocks_that_live(), before - 1);
	sample_heap_destroyed(one);
	assert_int_equal(blocks_that_live(), before - 3);
	sample_heap_block(heap, one, place, 100, NULL); /* its descriptor serves another heap */
	assert_int_equal(blocks_that_live(), before - 2);
	sample_heap_destroyed(one);
	assert_int_equal(blocks_that_live(), before - 3);
	sample_heap_block(heap, other, place, 100, NULL); /* a new profile begins */
	sample_stop();
	assert_true(sample_start(1, NULL));
	assert_int_equal(other->sampled, 0);
	sample_stop();
	locked_heap_destroy(one);
	locked_heap_destroy(other);
}

static void nothing_is_sampled_of_a_hardened_heap(void **state)
{
	hak_settings.secure = 1;
	assert_false(sample_start(1, NULL));
	hak_settings.secure = 0;
	assert_false(sample_is_on());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_is_sampled_of_a_hardened_heap, start),
		cmocka_unit_test(what_is_ready_costs_frees_nothing),
		cmocka_unit_test_setup(block_sampled_while_sampling_ends_is_one, start_sampling),
		cmocka_unit_test_setup(block_that_the_profiler_has_no_room_for_is_not_sampled, start_sampling),
		cmocka_unit_test_setup(heap_without_sampled_blocks_is_destroyed_without_looking_for_them, start_sampling),
		cmocka_unit_test_setup(of_two_at_an_address_the_oldest_is_freed, start_sampling),
	};

	return UNIT_RUN(tests);
}
