/* SPDX-License-Identifier: MIT */
/* Guarded blocks. Accesses that fault are reported and let through (front/fault.h). */
#include "front/guard.h"

#include <string.h>

#include "common.h"
#include "front/alloc.h"
#include "front/fault.h"
#include "front/secure.h"
#include "listen.h"
#include "os/os.h"

enum { RATE = 50, THREADS = 4 };

static struct heap *heap;
static size_t page;
static bool is_locked; /* memory is: the system gives none back */

bool __wrap_os_purge(void *addr, size_t size);
bool __real_os_purge(void *addr, size_t size);
bool __wrap_os_purge(void *addr, size_t size)
{
	return !is_locked && __real_os_purge(addr, size);
}

static bool looked_for_others; /* libraries of the process that have operators of their own; there are none */

const void *__wrap_elf_find_elsewhere(const char *name, const char *but);
const void *__wrap_elf_find_elsewhere(const char *name, const char *but)
{
	looked_for_others = true;
	return NULL;
}

static int start(void **state)
{
	unit_setup(state);
	page = os_facts.page_size;
	hak_settings.on_error = ERROR_IGNORE;
	hak_settings.guard_rate = RATE;
	secure_init();
	heap = heap_acquire(NULL, false);
	return heap != NULL ? 0 : -1;
}

static struct guarded *slot_of(const void *p)
{
	struct pagemap_entry e = pagemap_lookup((uintptr_t)p);

	assert_int_equal(e.tag, TAG_GUARDED);
	return e.desc;
}

static unsigned char *take(size_t size, size_t align)
{
	unsigned char *p = guard_alloc(heap, size, align);

	assert_non_null(p);
	return p;
}

static void give(unsigned char *p)
{
	struct guarded *g = slot_of(p);

	guard_free(g, (uintptr_t)p, KIND_FREED);
	assert_int_equal(g->kind, KIND_FREED);
}

/* The largest that fits between two guard pages. */
static size_t size_most(void)
{
	return GRANULE - 2 * page;
}

static void block_any_size_lies_between_inaccessible_pages(void **state)
{
	for (size_t align = 1; align <= page; align *= 4)
		for (size_t size = 1; size <= size_most(); size += 1 + size / 3) {
			unsigned char *p = take(size, align);
			const struct guarded *g = slot_of(p);
			uintptr_t from = g->base + page, to = from + align_up(size, page);
			assert_true((uintptr_t)p >= from && (uintptr_t)p + size <= to);
			assert_int_equal((uintptr_t)p % align, 0);
			assert_true(bytes_are(p, size, 0));
			memset(p, 0x77, size);
			assert_false(os_is_readable((void *)(from - 1)) || os_is_readable((void *)to));
			assert_false(os_is_readable((void *)g->base) ||
			             os_is_readable((void *)(g->base + GRANULE - 1)));
			give(p);
			assert_false(os_is_readable(p) || os_is_readable(p + size - 1));
		}
}

static void block_that_fits_no_slot_refused(void **state)
{
	assert_null(guard_alloc(heap, size_most() + 1, 16));
	assert_null(guard_alloc(heap, GRANULE, 16));
	assert_null(guard_alloc(heap, PTRDIFF_MAX, 16));
	assert_null(guard_alloc(heap, 16, 2 * page));
	give(take(size_most(), page));
}

/* An overflow or an underflow by one byte faults, in about one of two blocks. */
static void block_lies_at_either_end_of_its_pages(void **state)
{
	enum { BLOCKS = 200 };
	unsigned front = 0, behind = 0;

	for (unsigned i = 0; i < BLOCKS; i++) {
		unsigned char *p = take(100, 4);
		const struct guarded *g = slot_of(p);
		front += (uintptr_t)p == g->base + page;
		behind += (uintptr_t)p + 100 == g->base + 2 * page;
		give(p);
	}
	assert_int_equal(front + behind, BLOCKS);
	assert_true(front > BLOCKS / 4 && behind > BLOCKS / 4);
}

static void next_sample_is_due_after_rate_in_the_mean(void **state)
{
	enum { SAMPLES = 4000 };
	int64_t sum = 0, most = 0;

	for (unsigned i = 0; i < SAMPLES; i++) {
		give(take(16, 16));
		assert_true(heap->until_guard >= 1 && heap->until_guard < 2 * RATE);
		sum += heap->until_guard;
		most = heap->until_guard > most ? heap->until_guard : most;
	}
	assert_true(sum > SAMPLES * (RATE - 3) && sum < SAMPLES * (RATE + 3));
	assert_true(most > 2 * RATE - 5);

	int64_t left = heap->until_guard;
	assert_false(guard_is_due(heap));
	guard_count(heap, left - 1);
	assert_false(guard_is_due(heap));
	guard_count(heap, 1);
	assert_true(guard_is_due(heap));
	hak_settings.guard_rate = 0;
	assert_false(guard_is_due(heap));
	guard_count(heap, 1);
	assert_int_equal(heap->until_guard, 0);
	hak_settings.guard_rate = RATE;
	heap->locked = true; /* its blocks go with it, without a free */
	assert_false(guard_is_due(heap));
	heap->locked = false;
}

/* Each takes up the heap of the one before, and makes but one block. */
static void short_threads_come_to_their_turn(void **state)
{
	unsigned due = 0;

	for (int i = 0; i < 100 * RATE; i++) {
		struct heap *mine = heap_acquire(NULL, false);
		assert_non_null(mine);
		guard_count(mine, 1);
		if (guard_is_due(mine)) {
			due++;
			mine->until_guard = RATE;
		}
		heap_retire(mine);
	}
	assert_in_range(due, 99, 101);
}

/* Else small ones would have few turns beside large ones. */
static void block_that_fits_no_slot_takes_no_turn(void **state)
{
	void *p;

	heap->until_guard = 1;
	p = alloc_block(heap, GRANULE, 16, false);
	assert_int_equal(pagemap_tag((uintptr_t)p) & TAG_CODE_MASK, TAG_LARGE);
	assert_int_equal(heap->until_guard, 1);
	give(alloc_block(heap, 16, 16, false));
	free_block_as(heap, p, KIND_MALLOC);
}

/* A refill counts for those that the fast path hands out: for none where each is looked at. */
static void block_counts_once(void **state)
{
	static struct ops ops;

	heap->until_guard = 1000;
	alloc_block(heap, 64, 64, false); /* not of the nursery */
	assert_true(heap->until_guard < 998);
	heap->ops = &ops;
	heap->until_guard = 1000;
	alloc_block(heap, 128, 64, false);
	assert_int_equal(heap->until_guard, 999);
	heap->ops = NULL;
}

/* As after mlockall. */
static void block_freed_is_gone_though_memory_is_locked(void **state)
{
	is_locked = true;
	for (unsigned i = 0; i < 2 * GUARD_SLOTS; i++) {
		unsigned char *p = take(100, 16);

		assert_true(bytes_are(p, 100, 0));
		memset(p, 0x77, 100);
		give(p);
		assert_false(os_is_readable(p));
	}
	is_locked = false;
}

/* What was freed stays inaccessible for as long as can be. */
static void slot_freed_longest_ago_used_next(void **state)
{
	enum { BLOCKS = GUARD_SLOTS };
	static unsigned char *blocks[BLOCKS];
	static const struct guarded *freed[BLOCKS];
	unsigned count = 0;

	while (count < BLOCKS && (blocks[count] = guard_alloc(heap, 32, 16)) != NULL)
		count++;
	assert_int_equal(count, GUARD_SLOTS);
	assert_null(guard_alloc(heap, 32, 16)); /* no more than that */
	for (unsigned i = 0; i < BLOCKS; i++) {
		unsigned n = i * 37 % BLOCKS;
		freed[i] = slot_of(blocks[n]);
		give(blocks[n]);
	}
	for (unsigned i = 0; i < BLOCKS; i++) {
		blocks[i] = take(32, 16);
		assert_ptr_equal(slot_of(blocks[i]), freed[i]);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		give(blocks[i]);
}

static void slots_are_all_listed(void **state)
{
	unsigned count = 0;

	for (const struct guarded *g = guard_slots(); g != NULL; g = g->next, count++) {
		assert_int_equal(g->base % GRANULE, 0);
		assert_ptr_equal(slot_of((void *)(g->base + GRANULE - 1)), g);
	}
	assert_true(count > 0 && count <= GUARD_SLOTS);
}

/* A block that lies where asked, at the front or at the back of its pages. */
static unsigned char *take_at(bool front, size_t size)
{
	for (;;) {
		unsigned char *p = take(size, 16);
		if (((uintptr_t)p % page == 0) == front)
			return p;
		give(p);
	}
}

static void pad_written_to_reported_on_free(void **state)
{
	unsigned char *p = take_at(true, 100);

	p[100] = 0;
	listen_begin();
	guard_free(slot_of(p), (uintptr_t)p, KIND_FREED);
	assert_said("write behind %p (100-byte block)", (void *)p);
	assert_int_equal(slot_of(p)->kind, KIND_MALLOC);
	p[100] = hak_pad_byte;
	give(p);

	p = take_at(false, 96);
	p[-1] = 0;
	listen_begin();
	guard_free(slot_of(p), (uintptr_t)p, KIND_FREED);
	assert_said("write before %p (96-byte block)", (void *)p);
	p[-1] = hak_pad_byte;
	give(p);
}

static void free_of_wrong_pointer_reported(void **state)
{
	unsigned char *p = take(64, 16);
	struct guarded *g = slot_of(p);

	listen_begin();
	guard_free(g, (uintptr_t)p + 16, KIND_MALLOC);
	assert_said("free of interior pointer %p (64-byte block at %p)", (void *)(p + 16), (void *)p);
	listen_begin();
	guard_free(g, g->base, KIND_MALLOC);
	assert_said("free of invalid pointer %p", (void *)g->base);
	listen_begin();
	guard_free(g, (uintptr_t)p, KIND_NEW);
	assert_said("delete of %p (64-byte block) made by malloc", (void *)p);
	guard_set_kind(g, KIND_NEW_ARRAY);
	listen_begin();
	guard_free(g, (uintptr_t)p, KIND_MALLOC);
	assert_said("free of %p (64-byte block) made by new[]", (void *)p);
	guard_free(g, (uintptr_t)p, KIND_NEW_ARRAY);
	listen_begin();
	guard_free(g, (uintptr_t)p, KIND_NEW_ARRAY);
	assert_said("double free of %p (64-byte block)", (void *)p);
}

/* Last: a thread that is gone may have had the loader's locks, so it is asked no more whether a library has operators of
   its own. It may have. */
static void child_of_threads_does_not_tell_new_from_malloc(void **state)
{
	unsigned char *p = take_at(true, 64);

	misuse_after_fork(true);
	looked_for_others = false;
	listen_begin();
	guard_free(slot_of(p), (uintptr_t)p, KIND_NEW);
	assert_said("%s", "");
	assert_false(looked_for_others);
}

static void shrunk_block_ends_earlier(void **state)
{
	unsigned char *p = take_at(true, 1000);
	struct guarded *g = slot_of(p);
	size_t usable;

	assert_false(guard_shrink(g, 1001, true));
	assert_false(guard_shrink(g, 400, false)); /* another block would do better */
	assert_int_equal(g->size, 1000);
	memset(p, 1, 1000);
	assert_true(guard_shrink(g, 900, false));
	assert_true(guard_shrink(g, 301, true));
	assert_int_equal(g->size, 301);
	assert_true(bytes_are(p, 301, 1));
	p[301] ^= 1;
	listen_begin();
	assert_int_equal(block_usable_size(OP_REALLOC, p, &usable), BLOCK_DAMAGED);
	assert_int_equal(usable, 301);
	assert_said("write behind %p (301-byte block)", (void *)p);
	p[301] ^= 1;
	give(p);
	listen_begin();
	assert_int_equal(block_usable_size(OP_REALLOC, p, &usable), BLOCK_MISUSED);
	assert_int_equal(usable, 0);
	assert_said("realloc of freed block %p (301-byte block)", (void *)p);
}

static void events_tell_who(void **state)
{
	unsigned char *p;

	heap->caller = (const void *)0x1234567;
	p = take(64, 16);
	const struct guarded *g = slot_of(p);
	assert_int_equal(g->made.thread, os_thread_id());
	assert_true(os_now_ms() - g->made.ms < 10000);
	assert_true(g->made.stack.count >= 1);
	assert_int_equal(g->made.stack.pc[0], 0x1234567);
	give(p);
	assert_int_equal(g->freed.thread, os_thread_id());
	assert_true(g->freed.ms >= g->made.ms);
}

/* Such a slot is used no more, since its pages are open. */
static void access_beyond_pages_reported_and_slot_given_up(void **state)
{
	static const char *const where[] = {"behind", "before", "after free of"};

	fault_watch(); /* cmocka catches faults, too */
	for (int i = 0; i < 3; i++) {
		unsigned char *p = take_at(i == 1, 96);
		struct guarded *g = slot_of(p);
		unsigned char *wrong = i == 0 ? p + 96 : i == 1 ? p - 1 : p;
		if (i == 2)
			give(p);
		listen_begin();
		*(volatile unsigned char *)wrong = 1;
		assert_said("access to %p %s %p (96-byte block)", (void *)wrong, where[i], (void *)p);
		assert_true(g->is_breached);
		if (i != 2)
			give(p);
		for (unsigned n = 0; n < 2 * GUARD_SLOTS; n++) {
			unsigned char *other = guard_alloc(heap, 96, 16);
			if (other == NULL)
				continue; /* it was that one's turn, and is no more */
			assert_true(slot_of(other) != g);
			give(other);
		}
	}
}

static void use_slots(unsigned index)
{
	struct heap *mine = heap_acquire(NULL, false);
	unsigned char *p[8] = {NULL};

	CHECK(mine != NULL);
	for (unsigned i = 0; i < 2000; i++) {
		unsigned char **at = &p[i % 8];
		if (*at != NULL) {
			CHECK(bytes_are(*at, 200, (unsigned char)(index + 1)));
			guard_free(pagemap_lookup((uintptr_t)*at).desc, (uintptr_t)*at, KIND_MALLOC);
		}
		*at = guard_alloc(mine, 200, 16);
		CHECK(*at != NULL && bytes_are(*at, 200, 0));
		memset(*at, (int)index + 1, 200);
	}
	for (unsigned i = 0; i < 8; i++)
		guard_free(pagemap_lookup((uintptr_t)p[i]).desc, (uintptr_t)p[i], KIND_MALLOC);
	heap_retire(mine);
}

static void slots_of_several_threads_apart(void **state)
{
	run_threads(THREADS, use_slots);
}

/* Of two threads that free a block one does. */
static unsigned char *_Atomic shared;
static _Atomic unsigned ready;

static void free_shared(unsigned index)
{
	unsigned char *p = shared;

	ready++;
	while (ready < THREADS)
		os_pause();
	guard_free(pagemap_lookup((uintptr_t)p).desc, (uintptr_t)p, KIND_MALLOC);
}

static void block_freed_by_threads_at_once_freed_once(void **state)
{
	for (unsigned round = 0; round < 50; round++) {
		shared = take(64, 16);
		ready = 0;
		run_threads(THREADS, free_shared);
		assert_int_equal(slot_of(shared)->kind, KIND_FREED);
		/* Its slot is in the queue once: two blocks in a row are never in one slot. */
		unsigned char *blocks[32];
		for (unsigned i = 0; i < 32; i++) {
			blocks[i] = take(64, 16);
			for (unsigned n = 0; n < i; n++)
				assert_ptr_not_equal(blocks[n], blocks[i]);
		}
		for (unsigned i = 0; i < 32; i++)
			give(blocks[i]);
	}
}

/* Last: what was free is lost. */
static void reset_forgets_free_slots(void **state)
{
	unsigned char *p = take(64, 16);

	guard_reset();
	give(p);
	for (unsigned i = 0; i < 3; i++) {
		unsigned char *next = guard_alloc(heap, 64, 16);
		assert_non_null(next);
		assert_ptr_equal(slot_of(next), slot_of(p));
		give(next);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(block_any_size_lies_between_inaccessible_pages),
		cmocka_unit_test(block_that_fits_no_slot_refused),
		cmocka_unit_test(block_lies_at_either_end_of_its_pages),
		cmocka_unit_test(next_sample_is_due_after_rate_in_the_mean),
		cmocka_unit_test(short_threads_come_to_their_turn),
		cmocka_unit_test(block_that_fits_no_slot_takes_no_turn),
		cmocka_unit_test(block_counts_once),
		cmocka_unit_test(block_freed_is_gone_though_memory_is_locked),
		cmocka_unit_test(slots_are_all_listed),
		cmocka_unit_test(pad_written_to_reported_on_free),
		cmocka_unit_test(free_of_wrong_pointer_reported),
		cmocka_unit_test(shrunk_block_ends_earlier),
		cmocka_unit_test(events_tell_who),
		cmocka_unit_test(slots_of_several_threads_apart),
		cmocka_unit_test(block_freed_by_threads_at_once_freed_once),
		cmocka_unit_test(slot_freed_longest_ago_used_next),
		cmocka_unit_test(access_beyond_pages_reported_and_slot_given_up),
		cmocka_unit_test(reset_forgets_free_slots),
		cmocka_unit_test(child_of_threads_does_not_tell_new_from_malloc),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
