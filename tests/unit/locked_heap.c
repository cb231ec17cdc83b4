/* SPDX-License-Identifier: MIT */
#include "front/locked_heap.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"
#include "front/alloc.h"
#include "front/bigcache.h"
#include "front/nursery.h"
#include "front/quarantine.h"
#include "front/reuse.h"
#include "front/secure.h"
#include "listen.h"

enum { THREADS = 4, BLOCKS = 2000 };

static struct locked_heap *heap;
static void *blocks[THREADS][BLOCKS];

/* The process's first heap may use the nursery, whose granule stays. */
static int start(void **state)
{
	bigcache_release(0);
	heap = locked_heap_new();
	return heap != NULL && hak_space.live == (nursery_used() != 0) && hak_space.big == 0 ? 0 : -1;
}

static bool all_is_back(void)
{
	bigcache_release(0);
	return hak_space.live == (nursery_used() != 0) && hak_space.big + hak_space.large == 0;
}

static void destroy_with_blocks_out_gives_all_back(void **state)
{
	for (size_t size = 1; size < 4 * HAK_MIB; size += 1 + size / 3) {
		unsigned char *p = locked_heap_alloc(heap, size, ALLOC_ALIGN, true);
		assert_non_null(p);
		assert_true(bytes_are(p, size, 0));
		memset(p, 1, size);
	}
	assert_non_null(heap->larges.first);
	locked_heap_destroy(heap);
	assert_true(all_is_back());
}

static void destroyed_descriptor_is_used_again(void **state)
{
	struct locked_heap *other = locked_heap_new(), *again;

	assert_ptr_not_equal(other, heap);
	locked_heap_destroy(heap);
	again = locked_heap_new();
	assert_ptr_equal(again, heap);
	assert_non_null(locked_heap_alloc(again, 100, ALLOC_ALIGN, false));
	locked_heap_destroy(again);
	locked_heap_destroy(other);
	assert_true(all_is_back());
}

static void large_block_freed_is_forgotten(void **state)
{
	void *a = locked_heap_alloc(heap, 100000, ALLOC_ALIGN, false);
	void *b = locked_heap_alloc(heap, 3 * HAK_MIB, ALLOC_ALIGN, false);

	assert_ptr_equal(large_of((uintptr_t)a)->heap, heap);
	assert_true(free_block(NULL, a));
	assert_ptr_equal(heap->larges.first, &large_of((uintptr_t)b)->heap_link);
	assert_true(free_block(NULL, b));
	assert_null(heap->larges.first);
	locked_heap_destroy(heap);
	assert_true(all_is_back());
}

static void block_freed_by_thread_is_posted_at_once(void **state)
{
	static struct bin bins[SC_COUNT];
	struct heap *mine = heap_acquire(bins, false);
	void *p[BLOCKS];

	for (int i = 0; i < BLOCKS; i++)
		p[i] = locked_heap_alloc(heap, 500, ALLOC_ALIGN, false);
	for (int i = 0; i < BLOCKS; i++) {
		assert_true(free_block(mine, p[i]));
		assert_int_equal(mine->outbox.used, 0);
	}
	assert_false(inbox_is_empty(&heap->heap->inbox));
	heap_flush(heap->heap);
	assert_true(all_is_back());
	heap_retire(mine);
	locked_heap_destroy(heap);
}

/* What a thread frees it may keep, and use: it is the heap's no longer. */
static void large_block_used_again_outlives_heap(void **state)
{
	static struct bin bins[SC_COUNT];
	struct heap *mine = heap_acquire(bins, false);
	void *p = locked_heap_alloc(heap, 100000, ALLOC_ALIGN, false);

	heap_leave(mine);
	assert_true(free_block(mine, p));
	assert_ptr_equal(reuse_alloc(mine, 100000), p);
	assert_null(large_of((uintptr_t)p)->heap);
	locked_heap_destroy(heap);
	assert_non_null(large_of((uintptr_t)p));
	assert_true(free_block(mine, p));
	heap_retire(mine);
	assert_true(all_is_back());
}

static void alloc_aligned_aligned(void **state)
{
	for (size_t align = 16; align <= HAK_MIB; align *= 2)
		for (size_t size = 1; size < 100000; size += 1 + size) {
			void *p = locked_heap_alloc(heap, size, align, false);
			assert_non_null(p);
			assert_int_equal((uintptr_t)p % align, 0);
		}
	locked_heap_destroy(heap);
	assert_true(all_is_back());
}

static size_t size_of(int i)
{
	return 16 + (size_t)(i * 37 % 1500) + (i % 200 == 0 ? 70000 : 0);
}

static void use_heap(unsigned index)
{
	for (int i = 0; i < BLOCKS; i++) {
		void *p = blocks[index][i] = locked_heap_alloc(heap, size_of(i), ALLOC_ALIGN, i % 2 == 0);
		CHECK(p != NULL && (i % 2 != 0 || bytes_are(p, size_of(i), 0)));
		memset(p, (int)index + 1, size_of(i));
		if (i % 3 == 0) {
			CHECK(bytes_are(p, size_of(i), (unsigned char)(index + 1)));
			CHECK(free_block(NULL, p));
			blocks[index][i] = NULL;
		}
	}
}

static void heap_of_several_threads_blocks_apart(void **state)
{
	run_threads(THREADS, use_heap);
	for (unsigned t = 0; t < THREADS; t++)
		for (int i = 0; i < BLOCKS; i++)
			if (blocks[t][i] != NULL)
				assert_true(bytes_are(blocks[t][i], size_of(i), (unsigned char)(t + 1)));
	locked_heap_destroy(heap);
	bigcache_release(0);
	assert_true(all_is_back());
}

/* A block of a heap that is hardened, which takes the place of the one there is. */
static char *take_hardened(unsigned level, size_t size)
{
	char *p;

	locked_heap_destroy(heap);
	hak_settings.secure = level;
	secure_init();
	heap = locked_heap_new();
	assert_non_null(heap);
	p = locked_heap_alloc(heap, size, ALLOC_ALIGN, false);
	assert_non_null(p);
	return p;
}

static void destroy_tells_of_what_was_written_behind_large_blocks(void **state)
{
	enum { SIZE = 100000 };
	char *p = take_hardened(2, SIZE);

	p[SIZE] = 1;
	listen_begin();
	locked_heap_destroy(heap);
	assert_said("write behind %p (%d-byte block)", (void *)p, SIZE);
	quarantine_flush_large();
	hak_settings.secure = 0;
}

/* Of memory that is locked the system drops no page. */
static void destroyed_heap_that_was_locked_leaves_zeros(void **state)
{
	enum { SIZE = 5000 };
	char *p = take_hardened(3, SIZE);

	if (syscall(SYS_mlock, p, SIZE) != 0) {
		locked_heap_destroy(heap);
		hak_settings.secure = 0;
		skip();
	}
	memset(p, 7, SIZE);
	locked_heap_destroy(heap);
	assert_true(bytes_are(p, SIZE, 0));
	syscall(SYS_munlock, p, SIZE);
	hak_settings.secure = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(destroy_with_blocks_out_gives_all_back, start),
		cmocka_unit_test_setup(destroyed_descriptor_is_used_again, start),
		cmocka_unit_test_setup(large_block_freed_is_forgotten, start),
		cmocka_unit_test_setup(block_freed_by_thread_is_posted_at_once, start),
		cmocka_unit_test_setup(large_block_used_again_outlives_heap, start),
		cmocka_unit_test_setup(alloc_aligned_aligned, start),
		cmocka_unit_test_setup(heap_of_several_threads_blocks_apart, start),
		cmocka_unit_test_setup(destroy_tells_of_what_was_written_behind_large_blocks, start),
		cmocka_unit_test_setup(destroyed_heap_that_was_locked_leaves_zeros, start),
	};

	return UNIT_RUN(tests);
}
