/* SPDX-License-Identifier: MIT */
/* Blocks are freed by the calls of front/alloc.h, at level 2 of HAKMEM_SECURE or, where said, 3. */
#include "front/quarantine.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"
#include "fixture.h"
#include "front/alloc.h"
#include "front/bigcache.h"
#include "front/secure.h"
#include "listen.h"
#include "os/os.h"
#include "space/purge.h"

enum { SEEDS = 10 };

static struct heap *heap;
static struct quarantine *held;

static int start_at(unsigned level)
{
	hak_settings.secure = level;
	hak_settings.on_error = ERROR_IGNORE;
	secure_init();
	hak_settings.guard_rate = 0;
	heap = heap_acquire(NULL, false);
	held = heap != NULL ? heap->quarantine : NULL;
	return held != NULL && held->bytes == 0 && hak_space.live == 0 ? 0 : -1;
}

static int start(void **state)
{
	return start_at(2);
}

static int start_3(void **state)
{
	return start_at(3);
}

static int end(void **state)
{
	heap_retire(heap);
	quarantine_flush_large();
	bigcache_release(0);
	purge_all(0);
	return hak_space.live + hak_space.big + hak_space.large == 0 && held->bytes == 0 ? 0 : -1;
}

static bool refuses_to_protect; /* as some sandboxes do */

bool __wrap_os_protect(void *addr, size_t size, bool accessible);
bool __real_os_protect(void *addr, size_t size, bool accessible);
bool __wrap_os_protect(void *addr, size_t size, bool accessible)
{
	return !refuses_to_protect && __real_os_protect(addr, size, accessible);
}

static uintptr_t take(size_t size)
{
	void *p = alloc_block(heap, size, ALLOC_ALIGN, false);

	assert_non_null(p);
	return (uintptr_t)p;
}

static void give(uintptr_t block)
{
	assert_true(free_block(heap, (void *)block));
}

static bool waits(uintptr_t block)
{
	const struct heap *by;
	uint64_t cycles;
	bool found = quarantine_find(block, &by, &cycles);

	assert_true(!found || by == heap);
	return found;
}

/* ---- small blocks ---- */

/* The books against what is there. */
static void assert_sound(void)
{
	size_t bytes = 0;

	assert_true(held->count <= QUEUED_BLOCKS && held->bytes <= QUARANTINE_BYTES);
	for (unsigned i = 0; i < RANDOM_BLOCKS + held->count; i++) {
		uintptr_t block = i < RANDOM_BLOCKS ? held->random[i].block
			: held->queue[(held->oldest + i - RANDOM_BLOCKS) % QUEUED_BLOCKS].block;
		if (block == 0)
			continue;
		size_t size = fixture_slab_of(block)->block_size;
		assert_true(i >= RANDOM_BLOCKS || size <= RANDOM_SIZE_MOST);
		assert_int_equal(canary_kind(canary_load(block, size)), KIND_FREED);
		assert_true(memory_is_zero(block, size - CANARY_BYTES));
		bytes += size;
	}
	assert_int_equal(bytes, held->bytes);
}

static void block_freed_not_handed_out_while_it_waits(void **state)
{
	static const size_t sizes[] = {1, 100, 2000, 2100, 30000};

	for (unsigned round = 0; round < SEEDS; round++)
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			uintptr_t block = take(sizes[i]), others[40];
			give(block);
			assert_true(waits(block));
			for (unsigned n = 0; n < 40; n++) {
				others[n] = take(sizes[i]);
				assert_true(others[n] != block);
			}
			for (unsigned n = 0; n < 12; n++)
				give(others[n]);
			assert_sound();
			for (unsigned n = 12; n < 40; n++)
				give(others[n]);
		}
}

/* However many smaller ones wait in random places. */
static void large_block_waits_among_many(void **state)
{
	static uintptr_t live[8 * RANDOM_BLOCKS];

	for (size_t size = 1000; size <= 2000; size += 1000) {
		for (size_t i = 0; i < sizeof live / sizeof *live; i++)
			live[i] = take(size);
		for (size_t i = 0; i < sizeof live / sizeof *live; i++)
			give(live[i]);
		uintptr_t block = take(30000);
		give(block);
		assert_true(waits(block));
		assert_sound();
	}
}

static void quarantine_any_load_bounded(void **state)
{
	static uintptr_t live[200];

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t random = seed;
		for (unsigned step = 0; step < 6000; step++) {
			uintptr_t *p = &live[next_random(&random) % 200];
			if (*p != 0)
				give(*p);
			/* Now small ones, then some of all sizes. */
			size_t most = step < 3000 ? 100 : SC_MAX_SIZE - CANARY_BYTES;
			*p = take(1 + next_random(&random) % most);
			memset((void *)*p, 0xaa, 1);
		}
		assert_sound();
		assert_true(held->bytes > QUARANTINE_BYTES / 2); /* they do wait */
	}
	for (unsigned i = 0; i < 200; i++)
		give(live[i]);
}

static void longer_blocks_leave_in_the_order_they_came(void **state)
{
	enum { BLOCKS = 60, SIZE = 16000 };
	uintptr_t blocks[BLOCKS];
	unsigned out = 0;

	for (unsigned i = 0; i < BLOCKS; i++)
		blocks[i] = take(SIZE);
	for (unsigned i = 0; i < BLOCKS; i++) {
		give(blocks[i]);
		while (out <= i && !waits(blocks[out]))
			out++;
		for (unsigned n = out; n <= i; n++)
			assert_true(waits(blocks[n]));
	}
	assert_int_equal(out, BLOCKS - QUARANTINE_BYTES / fixture_slab_of(blocks[0])->block_size);
}

/* A queue alone could be counted out. */
static void short_blocks_leave_in_random_order(void **state)
{
	enum { BLOCKS = 3000 };
	static uintptr_t blocks[BLOCKS];
	unsigned overtaken = 0, left = 0, gap = 0;

	for (unsigned i = 0; i < BLOCKS; i++)
		blocks[i] = take(40);
	for (unsigned i = 0; i < BLOCKS; i++)
		give(blocks[i]);
	for (unsigned i = 0; i < BLOCKS; i++) {
		bool still = waits(blocks[i]);
		gap += still;
		left += !still;
		overtaken += !still && gap != 0; /* it left before an older one */
	}
	assert_true(left >= BLOCKS - RANDOM_BLOCKS - QUEUED_BLOCKS);
	assert_true(overtaken > 100);
}

static void flush_lets_everything_go(void **state)
{
	for (size_t size = 1; size <= 32000; size += 1 + size / 3)
		for (unsigned n = 0; n < 3; n++)
			give(take(size));
	assert_true(held->bytes > 0);
	quarantine_flush(heap);
	assert_int_equal(held->bytes + held->count, 0);
	assert_sound();
	for (unsigned i = 0; i < RANDOM_BLOCKS; i++)
		assert_int_equal(held->random[i].block, 0);
	heap_flush(heap);
	assert_int_equal(hak_space.live, 0);
	quarantine_flush(heap);

	struct heap none = {.quarantine = NULL};
	quarantine_flush(&none);
	quarantine_forget(&none);
}

/* In a fork child the blocks are left where they are. */
static void forget_leaves_the_blocks_alone(void **state)
{
	uintptr_t small = take(50), longer = take(5000);

	give(small);
	give(longer);
	quarantine_forget(heap);
	assert_false(waits(small) || waits(longer));
	assert_sound();
	block_put(heap, fixture_slab_of(small), small); /* for the books of this process */
	block_put(heap, fixture_slab_of(longer), longer);
}

static void find_tells_who_and_when(void **state)
{
	const struct heap *by = NULL;
	uint64_t cycles = 0, before = os_cycles();
	uintptr_t block = take(50), other = take(50);

	give(block);
	assert_true(quarantine_find(block, &by, &cycles));
	assert_ptr_equal(by, heap);
	assert_true(cycles <= os_cycles() - before);
	assert_false(waits(other));
	assert_false(waits(block + 16));
	give(other);
}

static void write_after_free_at_any_byte_seen(void **state)
{
	static const size_t sizes[] = {1, 24, 200, 3000};

	hak_settings.on_error = ERROR_IGNORE;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		uintptr_t block = take(sizes[i]);
		const struct slab *s = fixture_slab_of(block);
		size_t size = s->block_size;
		for (size_t at = 0; at < size; at += 1 + size / 150) {
			give(block);
			((unsigned char *)block)[at] ^= 4;
			quarantine_flush(heap);
			assert_false(waits(block));
			/* It was kept back, and is ours to mend and give home. */
			assert_false(block_looks_free(block));
			((unsigned char *)block)[at] ^= 4;
			secure_mark(block, s->sc, sizes[i], KIND_MALLOC);
		}
		give(block);
	}
}

static void write_after_free_reported(void **state)
{
	uintptr_t block = take(100);

	give(block);
	((char *)block)[99] = 'x';
	listen_begin();
	quarantine_flush(heap);
	assert_said("write after free to %p (100-byte block)", (void *)block);
	((char *)block)[99] = 0;
	block_put(heap, fixture_slab_of(block), block);
}

static void block_of_other_heap_waits_with_who_freed_it(void **state)
{
	struct heap *other = heap_acquire(NULL, false);
	uintptr_t block = (uintptr_t)alloc_block(other, 64, ALLOC_ALIGN, false);
	struct slab *s = fixture_slab_of(block);

	give(block);
	assert_true(waits(block));
	assert_int_equal(s->used, s->carved - s->reserved - s->free_count);
	quarantine_flush(heap);
	outbox_flush(&heap->outbox);
	assert_false(waits(block));
	assert_false(inbox_is_empty(&other->inbox)); /* it went home */
	heap_retire(other);
}

/* ---- large blocks ---- */

static void large_block_waits_zero_or_inaccessible(void **state)
{
	static const size_t sizes[] = {SC_MAX_SIZE + 1, GRANULE, 2 * GRANULE - 8, 2 * GRANULE, 500000, 3000000};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		uintptr_t block = take(sizes[i]);
		struct large *l = large_of(block);
		bool zeroes = quarantine_zeroes(l);
		assert_int_equal(zeroes, hak_settings.secure == 2 && l->usable <= ZEROED_SIZE_MOST);
		memset((void *)block, 0xbb, sizes[i]);
		give(block);
		assert_int_equal(os_is_readable((void *)block), zeroes);
		assert_int_equal(os_is_readable((void *)(block + sizes[i] - 1)), zeroes);
		assert_true(!zeroes || memory_is_zero(block, l->usable));
		/* Its address is nobody's meanwhile. */
		uintptr_t other = take(sizes[i]);
		assert_true(other != block);
		give(other);
	}
	assert_true(quarantine_flush_large());
	assert_false(quarantine_flush_large());
}

static void large_block_that_waited_is_of_use_again(void **state)
{
	for (unsigned round = 0; round < SEEDS; round++) {
		uintptr_t block = take(200000);
		assert_true(bytes_are((void *)block, 200000, 0));
		memset((void *)block, 0xcc, 200000);
		give(block);
		quarantine_flush_large();
	}
}

static void large_blocks_leave_in_the_order_they_came(void **state)
{
	enum { BLOCKS = LARGE_BLOCKS + 10 };
	uintptr_t blocks[BLOCKS];

	for (unsigned i = 0; i < BLOCKS; i++)
		blocks[i] = take(300000);
	for (unsigned i = 0; i < BLOCKS; i++) {
		give(blocks[i]);
		for (unsigned n = 0; n <= i; n++) /* the last LARGE_BLOCKS wait */
			assert_int_equal(os_is_readable((void *)blocks[n]), n + LARGE_BLOCKS <= i);
	}
}

/* Then what was in it is zero, and what is written to it later is seen. */
static void large_block_that_cannot_be_shut_waits_zero(void **state)
{
	enum { SIZE = 300000 };
	uintptr_t block = take(SIZE);
	struct large *l = large_of(block);

	memset((void *)block, 0xbb, SIZE);
	refuses_to_protect = true;
	give(block);
	assert_true(memory_is_zero(block, SIZE));
	((char *)block)[SIZE - 1] = 1;
	listen_begin();
	quarantine_flush_large();
	assert_said("write after free to %p (%d-byte block)", (void *)block, SIZE);
	((char *)block)[SIZE - 1] = 0;
	large_dispose(l);
	refuses_to_protect = false;
}

/* Their memory is not lost, which `end` would see. */
static void large_blocks_that_cannot_be_shut_are_of_use_again(void **state)
{
	for (unsigned round = 0; round < SEEDS; round++) {
		uintptr_t block = take(200000);
		memset((void *)block, 0xcc, 200000);
		refuses_to_protect = true;
		give(block);
		quarantine_flush_large();
		refuses_to_protect = false;
	}
}

/* Of memory that is locked the system drops no page. */
static void large_block_that_is_locked_is_cleared(void **state)
{
	uintptr_t block = take(HAK_MIB);
	const struct large *l = large_of(block);
	size_t usable = l->usable;

	if (syscall(SYS_mlock, block, usable) != 0) {
		give(block);
		skip();
	}
	memset((void *)block, 7, HAK_MIB);
	give(block);
	assert_false(os_is_readable((void *)block));
	assert_true(os_protect((void *)block, usable, true));
	assert_true(memory_is_zero(block, usable));
	assert_true(os_protect((void *)block, usable, false));
	syscall(SYS_munlock, block, usable);
}

/* Address space is kept from the program only so far. */
static void large_blocks_that_wait_are_bounded_in_bytes(void **state)
{
	enum { BLOCKS = 8 };
	uintptr_t blocks[BLOCKS];
	size_t size = LARGE_SIZE_MOST - GRANULE, most = LARGE_BYTES / LARGE_SIZE_MOST;

	for (unsigned i = 0; i < BLOCKS; i++)
		blocks[i] = take(size);
	size_t mapped = os_mapped();
	for (unsigned i = 0; i < BLOCKS; i++) {
		give(blocks[i]);
		for (unsigned n = 0; n <= i && n + most > i; n++)
			if (i - n < most)
				assert_false(os_is_readable((void *)blocks[n]));
	}
	assert_true(os_mapped() <= mapped);

	uintptr_t huge = take(LARGE_SIZE_MOST + 1);
	const struct large *l = large_of(huge);
	give(huge);
	assert_false(l->is_shut);
}

static void large_block_written_after_free_reported(void **state)
{
	uintptr_t block = take(50000);

	give(block);
	((char *)block)[49999] = 1;
	listen_begin();
	quarantine_flush_large();
	assert_said("write after free to %p (50000-byte block)", (void *)block);
	assert_int_equal(pagemap_tag(block), TAG_LARGE); /* left where it is */
	((char *)block)[49999] = 0;
	large_dispose(pagemap_lookup(block).desc);
}

static void reset_forgets_large_blocks(void **state)
{
	uintptr_t block = take(50000), shut = take(400000);
	struct large *l = large_of(block), *m = large_of(shut);

	give(block);
	give(shut);
	quarantine_reset();
	assert_false(quarantine_flush_large());
	large_dispose(l);
	assert_true(os_protect((void *)shut, m->usable, true));
	large_dispose(m);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, start, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(block_freed_not_handed_out_while_it_waits),
		TEST(large_block_waits_among_many),
		TEST(quarantine_any_load_bounded),
		TEST(longer_blocks_leave_in_the_order_they_came),
		TEST(short_blocks_leave_in_random_order),
		TEST(flush_lets_everything_go),
		TEST(forget_leaves_the_blocks_alone),
		TEST(find_tells_who_and_when),
		TEST(write_after_free_at_any_byte_seen),
		TEST(write_after_free_reported),
		TEST(block_of_other_heap_waits_with_who_freed_it),
		TEST(large_block_waits_zero_or_inaccessible),
		cmocka_unit_test_setup_teardown(large_block_waits_zero_or_inaccessible, start_3, end),
		TEST(large_block_that_cannot_be_shut_waits_zero),
		cmocka_unit_test_setup_teardown(large_block_that_cannot_be_shut_waits_zero, start_3, end),
		TEST(large_blocks_that_cannot_be_shut_are_of_use_again),
		cmocka_unit_test_setup_teardown(large_blocks_that_cannot_be_shut_are_of_use_again, start_3, end),
		TEST(large_block_that_is_locked_is_cleared),
		cmocka_unit_test_setup_teardown(large_block_that_is_locked_is_cleared, start_3, end),
		TEST(large_block_that_waited_is_of_use_again),
		TEST(large_blocks_leave_in_the_order_they_came),
		TEST(large_blocks_that_wait_are_bounded_in_bytes),
		TEST(large_block_written_after_free_reported),
		TEST(reset_forgets_large_blocks),
	};

	return UNIT_RUN(tests);
}
