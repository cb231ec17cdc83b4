/* SPDX-License-Identifier: MIT */
/* Refilling: where blocks come from, stage by stage. What happens at a heap's end is in heap_end.c. */
#include "front/bins.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings.h"
#include "../memcheck.h"
#include "common.h"
#include "fixture.h"
#include "front/alloc.h"
#include "front/misuse.h"
#include "front/policy.h"
#include "front/sampling.h"
#include "listen.h"
#include "os/os.h"
#include "slab/pool.h"
#include "space/meta.h"
#include "space/purge.h"

enum { SC = 32, PER_SLAB = 64 }; /* 1 KiB blocks */

static struct bin bins[SC_COUNT], other_bins[SC_COUNT];
static struct heap *heap, *other;
static struct heap_counters before;
static uintptr_t blocks[4 * PER_SLAB];

static int start(void **state)
{
	heap = heap_acquire(bins, false);
	other = heap_acquire(other_bins, false);
	before = heap->count;
	/* Heaps are recycled, with what they have learnt. */
	bin_resize(heap, SC, policy_initial_capacity(SC));
	heap->classes[SC].overran = false;
	return heap != NULL && other != NULL && heap != other && hak_space.live == 0 ? 0 : -1;
}

static int end(void **state)
{
	heap_retire(heap);
	heap_retire(other);
	return hak_space.live == 0 && pool_count(SC) == 0 ? 0 : -1;
}

static void take(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		blocks[i] = fixture_take(heap, SC);
}

static void push_home(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		fixture_send_home(heap, blocks[i]);
}

enum { WHOLE_SLABS = 6 };

/* Which of the first slabs of the class are resident to their ends when they have one block out, as bits. */
static unsigned whole_slabs(unsigned sc)
{
	static uintptr_t all[WHOLE_SLABS * PER_SLAB];
	unsigned capacity = hak_size_classes[sc].capacity, whole = 0;

	for (unsigned i = 0; i < WHOLE_SLABS * capacity; i++) {
		all[i] = fixture_take(heap, sc);
		if (i % capacity != 0)
			continue;
		const struct slab *s = fixture_slab_of(all[i]);
		bool is_whole = fixture_is_whole(s);
		unsigned wanted = (unsigned)min_size(heap->classes[sc].capacity / 2u, capacity);
		assert_int_equal(s->carved, policy_carve(sc, wanted, is_whole ? GRANULE : 0));
		whole |= (unsigned)is_whole << i / capacity;
	}
	for (unsigned i = 0; i < WHOLE_SLABS * capacity; i++)
		fixture_send_home(heap, all[i]);
	heap_flush(heap);
	purge_all(1); /* does not unmap what is empty then */
	return whole;
}

/* From the fourth of its class on; or from the second, if memory there was given back a moment ago. */
static void slab_that_is_going_to_be_filled_resident_at_once(void **state)
{
	unsigned mid = sc_of(24 * 1024);

	purge_all(0);
	sleep_ms(PURGE_REGRET_MS + 50);
	assert_int_equal(whole_slabs(SC), 0);
	purge_all(0);
	fixture_enlarge_heap();
	if (fixture_can_populate()) {
		assert_int_equal(whole_slabs(SC), 0x38);
		assert_int_equal(whole_slabs(SC), 0x3e);
		assert_int_equal(whole_slabs(mid), 0x3e);
		sleep_ms(PURGE_REGRET_MS + 50);
		assert_int_equal(whole_slabs(mid), 0);
	}
	fixture_reduce_heap();
}

/* As another thread would. */
static void free_remotely(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		fixture_free_remotely(other, blocks[i]);
	outbox_flush(&other->outbox);
	heap->looked = os_cycles(); /* on a slow machine it would be time for a look, which drains the inbox */
}

static void free_here(uintptr_t block)
{
	fixture_free(heap, SC, block);
}

static void acquired_heap_has_empty_bins(void **state)
{
	assert_true(heap->tag != 0 && heap->tag != other->tag);
	assert_int_equal(heap->tag & TAG_CODE_MASK, 0);
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		assert_null(bin_pop(&bins[sc]));
		assert_int_equal(bins[sc].magic, hak_size_classes[sc].magic);
		assert_int_equal(bin_count(heap, sc), 0);
	}
	assert_int_equal(bins[0].magic, 0);
}

static void refill_first_makes_slab_and_carves(void **state)
{
	bool zero = false;
	unsigned char *p = heap_refill(heap, SC, &zero);

	assert_non_null(p);
	assert_true(zero && bytes_are(p, 1024, 0));
	assert_int_equal(heap->count.refill_fresh - before.refill_fresh, 1);
	assert_int_equal(heap->count.refill_carve - before.refill_carve, 1);
	assert_int_equal(pagemap_tag((uintptr_t)p), heap->tag | SC << SC_CODE_SHIFT);
	assert_int_equal(fixture_slab_of((uintptr_t)p)->carved,
		policy_carve(SC, heap->classes[SC].capacity / 2u, 0));
	fixture_send_home(heap, (uintptr_t)p);
}

static void refill_any_class_blocks_apart(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		uint32_t size = hak_size_classes[sc].size;
		uintptr_t taken[40];
		for (unsigned i = 0; i < 40; i++) {
			taken[i] = fixture_take(heap, sc);
			assert_true(slab_has_block(fixture_slab_of(taken[i]), taken[i]));
			memset((void *)taken[i], (int)i + 1, size);
		}
		for (unsigned i = 0; i < 40; i++)
			assert_true(bytes_are((void *)taken[i], size, (unsigned char)(i + 1)));
		for (unsigned i = 0; i < 40; i++)
			fixture_send_home(heap, taken[i]);
	}
}

/* What lay there before must not look like a link of a free block. */
static void refill_from_dirty_memory_clears_link(void **state)
{
	bool zero = true;
	uintptr_t block;

	take(0, PER_SLAB);
	for (unsigned i = 0; i < PER_SLAB; i++)
		memset((void *)blocks[i], 0xee, 1024);
	push_home(0, PER_SLAB);
	heap_flush(heap);
	assert_int_equal(hak_space.live, 0);
	block = (uintptr_t)heap_refill(heap, SC, &zero);
	assert_false(zero);
	assert_int_equal(block_link(block), 0);
	assert_int_equal(((unsigned char *)block)[1000], 0xee);
	/* And its pages are there already, so as many blocks are carved as the bin wants. */
	assert_int_equal(fixture_slab_of(block)->carved, policy_initial_capacity(SC) / 2);
	fixture_send_home(heap, block);
}

/* Takes the first `n` blocks of the class; what was carved for them. They are gone then, and their slab. */
static unsigned carved_for(unsigned n)
{
	take(0, n);
	unsigned carved = fixture_slab_of(blocks[0])->carved;
	push_home(0, n);
	heap_flush(heap);
	assert_int_equal(hak_space.live, 0);
	return carved;
}

/* A granule that was in use before is resident only as far as it was touched: there alone more than a page is carved. */
static void refill_from_dirty_memory_carves_what_was_touched(void **state)
{
	enum { PAGE = 4, UNIT = 8 }; /* blocks */
	unsigned half = policy_initial_capacity(SC) / 2;

	purge_all(0);
	assert_int_equal(carved_for(1), PAGE);
	assert_int_equal(carved_for(1), PAGE);
	assert_int_equal(carved_for(PAGE + 1), UNIT);
	assert_int_equal(carved_for(1), UNIT);
	assert_int_equal(carved_for(UNIT + 1), UNIT + PAGE);
	assert_int_equal(carved_for(PER_SLAB), PER_SLAB);
	assert_int_equal(carved_for(1), half);
	assert_int_equal(carved_for(half + 1), 2 * half);
	/* A bin that has grown may not have done so for this thread. */
	bin_resize(heap, SC, 4 * heap->classes[SC].capacity);
	assert_int_equal(carved_for(1), half);
	purge_all(0);
	assert_int_equal(carved_for(1), PAGE);
	/* Each granule by itself. */
	carved_for(PER_SLAB + 1);
	for (unsigned i = 0; i <= PER_SLAB; i += PER_SLAB)
		assert_int_equal(touched_bytes(*superslab_touched(*superslab_all(), align_down(blocks[i], GRANULE))),
			i == 0 ? GRANULE : 0);
}

/* What a fork child has not touched itself it would have to copy. */
static void refill_from_shared_memory_carves_a_page(void **state)
{
	enum { PAGE = 4 };

	purge_all(0);
	carved_for(PER_SLAB);
	assert_int_not_equal(carved_for(1), PAGE);
	hak_touch_era ^= 1;
	assert_int_equal(carved_for(1), PAGE);
	carved_for(PER_SLAB);
	assert_int_not_equal(carved_for(1), PAGE);
	/* Nor does a slab that it has from its parent help. */
	take(0, 1);
	hak_touch_era ^= 1;
	take(1, fixture_slab_of(blocks[0])->carved);
	unsigned carved = fixture_slab_of(blocks[0])->carved;
	take(carved, carved + 1);
	assert_int_equal(fixture_slab_of(blocks[0])->carved, carved + PAGE);
	push_home(0, carved + 1);
}

static void refill_from_own_list_takes_half_a_bin(void **state)
{
	unsigned half = heap->classes[SC].capacity / 2;

	take(0, PER_SLAB);
	push_home(0, half + 4);
	assert_null(bin_pop(&bins[SC]));
	take(0, 1);
	assert_int_equal(heap->count.refill_own - before.refill_own, 1);
	assert_int_equal(fixture_slab_of(blocks[0])->free_count, 4);
	assert_int_equal(bin_count(heap, SC), half - 1);
	take(1, half + 4);
	assert_int_equal(heap->count.refill_own - before.refill_own, 2);
	assert_int_equal(heap->count.refill_fresh - before.refill_fresh, 1);
	push_home(0, PER_SLAB);
}

/* What others freed is served one by one from where it is. */
static void refill_from_others_stays_a_list(void **state)
{
	take(0, PER_SLAB);
	free_remotely(0, 10);
	take(0, 1);
	assert_int_equal(heap->classes[SC].listed, 9);
	assert_int_equal(bin_count(heap, SC), 0);
	take(1, 2);
	assert_int_equal(heap->classes[SC].listed, 8);
	free_here(blocks[0]); /* what is freed comes first */
	assert_null(bin_pop_listed(heap, SC));
	take(0, 1);
	assert_int_equal(heap->classes[SC].listed, 8);
	bin_hide(heap, SC);
	assert_null(bin_pop_listed(heap, SC));
	take(2, 3);
	assert_int_equal(heap->classes[SC].listed, 7);
	heap_flush(heap);
	assert_int_equal(heap->classes[SC].listed, 0);
	assert_int_equal(fixture_slab_of(blocks[0])->used, PER_SLAB - 7);
	take(3, 10);
	push_home(0, PER_SLAB);
}

static void refill_from_ready_slab(void **state)
{
	take(0, PER_SLAB + 1);
	assert_int_equal(heap->count.refill_fresh - before.refill_fresh, 2);
	push_home(0, 2); /* of the first slab, which is current no more */
	take(PER_SLAB + 1, 2 * PER_SLAB);
	take(0, 2);
	assert_int_equal(heap->count.refill_ready - before.refill_ready, 1);
	assert_int_equal(heap->count.refill_fresh - before.refill_fresh, 2);
	push_home(0, 2 * PER_SLAB);
}

static void refill_from_inbox(void **state)
{
	take(0, 2 * PER_SLAB);
	free_remotely(0, 10);
	assert_false(inbox_is_empty(&heap->inbox));
	take(0, 10);
	assert_int_equal(heap->count.refill_inbox - before.refill_inbox, 1);
	assert_int_equal(heap->count.refill_fresh - before.refill_fresh, 2);
	assert_true(inbox_is_empty(&heap->inbox));
	push_home(0, 2 * PER_SLAB);
}

/* The current slab's remote list is taken though the slab waits in the inbox; it is queued once. */
static void refill_from_current_while_queued(void **state)
{
	take(0, PER_SLAB);
	free_remotely(0, 10);
	take(0, 10);
	assert_int_equal(heap->count.refill_own - before.refill_own, 1);
	assert_false(inbox_is_empty(&heap->inbox));
	free_remotely(0, 5);
	heap_drain_inbox(heap);
	assert_true(inbox_is_empty(&heap->inbox));
	take(0, 5);
	assert_int_equal(heap->count.refill_fresh - before.refill_fresh, 1);
	assert_int_equal(heap->count.drained - before.drained, 15); /* each once, in the inbox or not */
	push_home(0, PER_SLAB);
}

static void refill_adopts_before_it_maps(void **state)
{
	uintptr_t block = fixture_take(other, SC);

	heap_retire(other);
	assert_int_equal(pool_count(SC), 1);
	take(0, 1);
	assert_int_equal(heap->count.refill_adopt - before.refill_adopt, 1);
	assert_int_equal(heap->count.refill_fresh - before.refill_fresh, 0);
	assert_ptr_equal(fixture_slab_of(blocks[0]), fixture_slab_of(block));
	assert_int_equal(pagemap_tag(block), heap->tag | SC << SC_CODE_SHIFT);
	other = heap_acquire(other_bins, false);
	blocks[1] = block;
	free_remotely(1, 2);
	push_home(0, 1);
}

/* New blocks are carved only when no slab of the class has any that were in use before. */
static void refill_prefers_recycled_blocks(void **state)
{
	struct slab *first;

	take(0, PER_SLAB);
	first = fixture_slab_of(blocks[0]);
	take(PER_SLAB, PER_SLAB + 1);
	assert_ptr_not_equal(fixture_slab_of(blocks[PER_SLAB]), first);
	while (bin_pop(&bins[SC]) != NULL)
		continue;
	free_remotely(1, 4);
	take(1, 4);
	for (unsigned i = 1; i < 4; i++)
		assert_ptr_equal(fixture_slab_of(blocks[i]), first);
	take(PER_SLAB + 1, PER_SLAB + 2);
	assert_ptr_equal(fixture_slab_of(blocks[PER_SLAB + 1]), fixture_slab_of(blocks[PER_SLAB]));
	heap_destroy_slabs(heap);
	heap = heap_acquire(bins, false);
}

static void slab_empty_and_not_needed_deleted(void **state)
{
	take(0, 4 * PER_SLAB);
	push_home(0, 3 * PER_SLAB);
	assert_true(heap->count.slab_deleted - before.slab_deleted >= 2);
	assert_true(hak_space.live <= 2);
	push_home(3 * PER_SLAB, 4 * PER_SLAB);
}

static void capacity_overrun_bin_grows(void **state)
{
	unsigned capacity = heap->classes[SC].capacity;

	take(0, 1);
	heap->classes[SC].overran = 1;
	while (bin_pop(&bins[SC]) != NULL)
		continue;
	take(1, 2);
	assert_true(heap->classes[SC].capacity > capacity);
	assert_false(heap->classes[SC].overran);
	heap_destroy_slabs(heap);
	heap = heap_acquire(bins, false);
}

/* Each is to be seen by whoever counts operations. */
static void refill_while_counting_leaves_no_list(void **state)
{
	take(0, PER_SLAB);
	free_remotely(0, 10);
	heap->ops = calloc(1, sizeof *heap->ops);
	take(0, 1);
	free(heap->ops);
	heap->ops = NULL;
	assert_int_equal(heap->classes[SC].listed, 0);
	assert_int_equal(bin_count(heap, SC), 9);
	push_home(0, 1);
	take(1, 10);
	push_home(1, PER_SLAB);
}

static void block_in_bin_looks_free_hidden_or_not(void **state)
{
	take(0, 1);
	free_here(blocks[0]);
	assert_true(block_looks_free(blocks[0]) && bin_contains(heap, SC, blocks[0]));
	bin_hide(heap, SC);
	assert_null(bin_pop(&bins[SC]));
	assert_true(block_looks_free(blocks[0]) && bin_contains(heap, SC, blocks[0]));
	assert_int_equal(bin_take(heap, SC), blocks[0]);
	assert_false(block_looks_free(blocks[0]) || bin_contains(heap, SC, blocks[0]));
	push_home(0, 1);
}

static void blocks_come_back_newest_first(void **state)
{
	unsigned capacity = heap->classes[SC].capacity;
	uint64_t misses;

	take(0, capacity);
	bin_flush(heap, SC);
	misses = heap->count.bin_miss;
	for (unsigned i = 0; i < capacity; i++)
		free_here(blocks[i]);
	assert_int_equal(bin_count(heap, SC), capacity);
	for (unsigned i = capacity; i-- > 0;)
		assert_int_equal(fixture_take(heap, SC), blocks[i]);
	assert_int_equal(heap->count.bin_miss, misses);
	push_home(0, capacity);
}

static void bin_of_smallest_blocks_grows_to_hold_a_batch(void **state)
{
	enum { SMALLEST = 1, BATCH = 100, ROUNDS = 50 };
	uintptr_t batch[BATCH];
	uint64_t overflows;

	for (unsigned round = 0; round < 2 * ROUNDS; round++) {
		if (round == ROUNDS)
			overflows = heap->count.bin_overflow;
		for (unsigned i = 0; i < BATCH; i++)
			batch[i] = fixture_take(heap, SMALLEST);
		for (unsigned i = 0; i < BATCH; i++)
			fixture_free(heap, SMALLEST, batch[i]);
	}
	assert_int_equal(heap->count.bin_overflow, overflows);
	assert_in_range(heap->classes[SMALLEST].capacity, BATCH, 2 * BATCH);
	heap_destroy_slabs(heap);
	heap = heap_acquire(bins, false);
}

/* Each run of blocks to its own slab. */
static void full_bin_sends_older_half_home(void **state)
{
	unsigned capacity = heap->classes[SC].capacity, all = 4 * PER_SLAB;
	unsigned order[4 * PER_SLAB], cached = 0;
	uint64_t seed = 9;

	take(0, all);
	bin_flush(heap, SC);
	for (unsigned i = 0; i < all; i++)
		order[i] = i;
	for (unsigned i = all - 1; i > 0; i--) {
		unsigned j = (unsigned)(next_random(&seed) % (i + 1)), t = order[i];
		order[i] = order[j];
		order[j] = t;
	}
	for (unsigned i = 0; i < all; i++) {
		cached -= cached == capacity ? capacity / 2 : 0;
		free_here(blocks[order[i]]);
		assert_int_equal(bin_count(heap, SC), ++cached);
	}
	assert_true(heap->classes[SC].overran);
	for (unsigned i = 0; i < all; i++)
		assert_int_equal(bin_contains(heap, SC, blocks[order[i]]), i >= all - cached);
	heap_flush(heap);
	assert_int_equal(hak_space.live, 0);
}

/* Each block that stays in the bin keeps its slab, when all others are home. */
static void all_freed_here_and_there_leaves_few_slabs(void **state)
{
	enum { SLABS = 100, ALL = SLABS * PER_SLAB, FEW = 8 };
	static uintptr_t many[ALL];
	unsigned capacity = heap->classes[SC].capacity;
	uint64_t seed = 11;

	for (unsigned i = 0; i < ALL; i++)
		many[i] = fixture_take(heap, SC);
	bin_flush(heap, SC);
	for (unsigned i = ALL; i > 1; i--) {
		unsigned j = (unsigned)(next_random(&seed) % i);
		uintptr_t block = many[i - 1];
		many[i - 1] = many[j];
		many[j] = block;
	}
	for (unsigned i = 0; i < ALL; i++)
		fixture_free(heap, SC, many[i]);
	assert_true(hak_space.live <= FEW);
	/* That was no rhythm for which the bin was too small, and from now on it is as large as before. */
	for (unsigned i = 0; i < 2 * capacity; i++)
		blocks[i] = fixture_take(heap, SC);
	assert_int_equal(heap->classes[SC].capacity, capacity);
	bin_flush(heap, SC);
	for (unsigned i = 0; i < capacity; i++)
		fixture_free(heap, SC, blocks[i]);
	assert_int_equal(bin_count(heap, SC), capacity);
	for (unsigned i = capacity; i < 2 * capacity; i++)
		fixture_free(heap, SC, blocks[i]);
	heap_flush(heap);
	assert_int_equal(hak_space.live, 0);
}

/* While something waits to be given back, the slow path is reached however full the bins are. */
static void tick_hides_bins(void **state)
{
	struct span span;

	take(0, 1);
	free_here(blocks[0]);
	heap->looked = 0;
	assert_true(span_alloc(1, SPAN_DENSE, 0, &span));
	span_free(&span, GRANULE);
	(void)fixture_take(heap, SC - 1);
	assert_true(heap->looked != 0);
	assert_null(bin_pop(&bins[SC]));
	assert_true(bin_count(heap, SC) > 0);
	take(0, 1);
	free_here(blocks[0]);
	assert_non_null(bin_pop(&bins[SC]));
	heap_destroy_slabs(heap);
	heap = heap_acquire(bins, false);
}

/* Three blocks on a list, of which the last leads to `next`. */
static uintptr_t list_written(uintptr_t next)
{
	for (unsigned i = 0; i < 2; i++)
		block_set_link(blocks[i], link_encode(blocks[i + 1]));
	block_set_link(blocks[2], link_encode(next));
	listen_begin();
	return link_encode(blocks[0]);
}

/* A signal handler's, amid the refill. */
static void block_freed_amid_refill_comes_before_the_list(void **state)
{
	bool is_zero;

	take(0, PER_SLAB);
	while (bin_pop(&bins[SC]) != NULL)
		continue;
	free_remotely(0, 10);
	free_here(blocks[20]);
	assert_true((uintptr_t)heap_refill(heap, SC, &is_zero) == blocks[20]);
	assert_int_equal(heap->classes[SC].listed, 10);
	take(0, 10);
	assert_int_equal(heap->classes[SC].listed, 0);
	heap_destroy_slabs(heap);
	heap = heap_acquire(bins, false);
}

static void list_written_to_comes_home_as_far_as_it_leads(void **state)
{
	uintptr_t theirs = fixture_take(other, SC);

	take(0, PER_SLAB);
	struct slab *s = fixture_slab_of(blocks[0]);
	uintptr_t wrong[] = {blocks[2] + 16, s->base + GRANULE - 64, 42, theirs};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		heap_send_list_home(heap, SC, list_written(wrong[i]), 5);
		assert_said("write after free to a 1024-byte block");
		assert_int_equal(s->used, PER_SLAB - 3);
		take(0, 3);
		assert_int_equal(s->used, PER_SLAB);
	}
	heap_destroy_slabs(heap);
	heap = heap_acquire(bins, false);
	fixture_send_home(other, theirs);
}

/* But for the first its blocks are lost. */
static void own_list_written_to_is_not_served(void **state)
{
	take(0, PER_SLAB);
	struct slab *s = fixture_slab_of(blocks[0]);
	push_home(0, 5);
	block_set_link(blocks[2], link_encode(blocks[1] + 16));
	listen_begin();
	assert_int_equal(fixture_take(heap, SC), blocks[4]);
	assert_said("write after free to a 1024-byte block");
	assert_int_equal(bin_count(heap, SC), 0);
	assert_int_equal(s->used, PER_SLAB);
	assert_int_equal(s->free_count, 0);
	heap_destroy_slabs(heap);
	heap = heap_acquire(bins, false);
}

static void list_of_others_written_to_is_not_served(void **state)
{
	take(0, PER_SLAB);
	free_remotely(0, 4);
	take(0, 1);
	assert_int_equal(heap->classes[SC].listed, 3);
	block_set_link(link_decode(heap->classes[SC].list), 0x4141414141414141);
	listen_begin();
	assert_null(bin_take(heap, SC));
	assert_said("write after free to a 1024-byte block");
	assert_int_equal(heap->classes[SC].listed, 0);
	heap_destroy_slabs(heap);
	heap = heap_acquire(bins, false);
}

/* The first is looked at when the list is taken over, the last when it is served. */
static void list_of_others_written_to_at_its_ends_is_told(void **state)
{
	take(0, PER_SLAB);
	free_remotely(0, 4);
	*(uint64_t *)blocks[3] = 42; /* freed last, so it comes first */
	listen_begin();
	(void)fixture_take(heap, SC);
	assert_said("write after free to a 1024-byte block");
	assert_int_equal(heap->classes[SC].listed, 0);
	while (bin_take(heap, SC) != NULL)
		continue;
	free_remotely(10, 12);
	block_set_link(blocks[10], link_encode(42));
	while (heap->classes[SC].listed == 0)
		take(20, 21);
	listen_begin();
	assert_null(bin_take(heap, SC));
	assert_said("write after free to a 1024-byte block");
	heap_destroy_slabs(heap);
	heap = heap_acquire(bins, false);
}

static void block_in_bin_written_to_is_left_alone(void **state)
{
	take(0, 3);
	bin_flush(heap, SC);
	for (unsigned i = 0; i < 3; i++)
		free_here(blocks[i]);
	*(uint64_t *)blocks[2] = 42;
	assert_null(bin_pop(&bins[SC]));
	listen_begin();
	assert_int_equal(bin_take(heap, SC), blocks[1]);
	assert_said("write after free to %p (1024-byte block)", (void *)blocks[2]);
	free_here(blocks[1]);
	*(uint64_t *)blocks[0] = 42;
	listen_begin();
	bin_flush(heap, SC);
	assert_said("write after free to %p (1024-byte block)", (void *)blocks[0]);
	heap_destroy_slabs(heap);
	heap = heap_acquire(bins, false);
}

/* ---- messages ---- */

static struct message messages[2];

static void refill_reads_messages(void **state)
{
	bool zero = true;

	take(0, 8);
	bin_flush(heap, SC);
	fixture_send(&messages[0], heap, blocks, 3);
	assert_ptr_equal(heap_refill(heap, SC, &zero), blocks[2]);
	assert_false(zero);
	assert_true(message_is_free(&messages[0]));
	assert_int_equal(heap->count.drained - before.drained, 3);
	assert_ptr_equal(bin_pop(&bins[SC]), blocks[1]);
	assert_ptr_equal(bin_pop(&bins[SC]), blocks[0]);
	assert_null(bin_pop(&bins[SC]));
	push_home(0, 8);
}

/* Those of other classes wait, if its own has come. */
static void refill_reads_until_there_are_blocks(void **state)
{
	bool zero;
	uintptr_t small[2] = {fixture_take(heap, 2), fixture_take(heap, 2)};

	take(0, 4);
	bin_flush(heap, SC);
	fixture_send(&messages[0], heap, small, 2);
	fixture_send(&messages[1], heap, blocks, 1);
	assert_ptr_equal(heap_refill(heap, SC, &zero), blocks[0]);
	assert_ptr_equal(heap->unread, &messages[0]);
	assert_false(message_is_free(&messages[0]));
	fixture_send(&messages[1], heap, blocks, 2);
	assert_ptr_equal(heap_refill(heap, SC, &zero), blocks[1]);
	assert_null(heap->unread);
	assert_ptr_equal(bin_pop(&bins[2]), small[1]);
	fixture_send_home(heap, small[1]);
	push_home(1, 4);
}

static void message_beyond_bin_goes_home(void **state)
{
	uintptr_t *from = blocks;

	bin_resize(heap, SC, 16);
	take(0, 2 * MESSAGE_BLOCKS);
	bin_flush(heap, SC);
	fixture_send(&messages[0], heap, from, MESSAGE_BLOCKS);
	fixture_send(&messages[1], heap, from + MESSAGE_BLOCKS, MESSAGE_BLOCKS);
	heap_read_messages(heap, 0);
	assert_in_range(bin_count(heap, SC), 1, 16);
	assert_true(heap->classes[SC].overran);
	bin_flush(heap, SC);
	heap_flush(heap);
	assert_int_equal(hak_space.live, 0);
}

/* Who has the slab now gets the block. */
static void message_to_former_owner_is_handed_on(void **state)
{
	uintptr_t theirs[2] = {fixture_take(other, SC), fixture_take(other, 2)};

	fixture_send(&messages[0], heap, theirs, 2);
	heap_read_messages(heap, 0);
	assert_null(bin_pop(&bins[SC]));
	heap_flush(heap);
	heap_flush(other);
	assert_int_equal(hak_space.live, 0);
}

/* Who counts the blocks that come into a bin when it is refilled finds those of messages with their slabs. */
static void check_message_goes_by_slab(void)
{
	uintptr_t small[2] = {fixture_take(heap, 2), fixture_take(heap, 2)};

	take(0, 4);
	heap_flush(heap);
	fixture_send(&messages[0], heap, small, 2);
	fixture_send(&messages[1], heap, blocks, 4);
	take(0, 1);
	assert_true(message_is_free(&messages[0]) && message_is_free(&messages[1]));
	assert_null(bin_pop(&bins[2]));
	fixture_send_home(heap, blocks[0]);
	heap_flush(heap);
	assert_int_equal(hak_space.live, 0);
}

/* Of the block that was written to, the mark is checked before it gets a link. */
static void message_that_goes_by_slab_with_written_block_is_reported(void **state)
{
	take(0, 3);
	heap_flush(heap);
	fixture_send(&messages[0], heap, blocks, 3);
	*(uint64_t *)blocks[1] = 42;
	listen_begin();
	hak_settings.guard_rate = 1000;
	heap_read_messages(heap, 0);
	hak_settings.guard_rate = 0;
	assert_said("write after free to %p (1024-byte block)", (void *)blocks[1]);
	assert_int_equal(fixture_slab_of(blocks[0])->used - remote_count(fixture_word(fixture_slab_of(blocks[0]))), 1);
	heap_destroy_slabs(heap);
	heap = heap_acquire(bins, false);
}

static void message_to_heap_that_samples_goes_by_slab(void **state)
{
	sampling_set(512 * HAK_KIB);
	sampling_look(heap);
	assert_non_null(heap->sampling);
	check_message_goes_by_slab();
	sampling_set(0);
	sampling_look(heap);
	assert_null(heap->sampling);
}

static void message_with_guards_goes_by_slab(void **state)
{
	hak_settings.guard_rate = 1000;
	check_message_goes_by_slab();
	hak_settings.guard_rate = 0;
}

/* A block that was written to meanwhile is not served. */
static void message_with_written_block_is_reported(void **state)
{
	bool zero;

	take(0, 2);
	bin_flush(heap, SC);
	fixture_send(&messages[0], heap, blocks, 2);
	*(uint64_t *)blocks[1] = 42;
	listen_begin();
	assert_ptr_equal(heap_refill(heap, SC, &zero), blocks[0]);
	assert_said("write after free to %p (1024-byte block)", (void *)blocks[1]);
	heap_destroy_slabs(heap);
	heap = heap_acquire(bins, false);
}

static void look_now(void)
{
	heap->looked = os_cycles() - OS_CYCLES_A_MOMENT;
	heap_tick(heap);
}

/* However seldom the thread frees what is others'; and if it does nothing else. */
static void outbox_is_posted_in_time(void **state)
{
	uintptr_t theirs = fixture_take(other, SC), more = fixture_take(other, SC);
	uint32_t own = hak_tcache.tag;

	fixture_free_remotely(heap, theirs);
	look_now();
	assert_int_equal(heap->outbox.used, 0);
	hak_tcache.tag = heap->tag; /* as in its thread */
	heap->pace = 0;
	heap->looked = os_cycles() - OS_CYCLES_A_MOMENT;
	assert_true(free_short(heap, pagemap_find(more), (void *)more, NULL));
	hak_tcache.tag = own;
	assert_int_equal(heap->outbox.used, 0);
	heap_flush(other);
	assert_int_equal(hak_space.live, 0);
}

enum { UNREAD = OUTBOX_UNREAD * MESSAGE_BLOCKS, KEPT = 32, POSTED = 8, THEIRS = UNREAD + KEPT + POSTED };
enum { UNUSED = 7 }; /* by the heap: it has no bin of that class */

/* Frees blocks of another's slabs, for which there are no slots. */
static void free_theirs(const uintptr_t *block, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		for (unsigned k = 0; k < OUTBOX_SLOTS; k++)
			heap->outbox.slot[k] = (struct outbox_slot){ .slab = (struct slab *)heap };
		block_put(heap, fixture_slab_of(block[i]), block[i]);
	}
	memset(heap->outbox.slot, 0, sizeof heap->outbox.slot);
}

/* Until it reads again. */
static void blocks_of_who_does_not_read_serve_others(void **state)
{
	static uintptr_t theirs[THEIRS];
	const uintptr_t *unread = &theirs[UNREAD], *last_kept = &theirs[UNREAD + KEPT - 1];

	take(0, 1);
	push_home(0, 1);
	bin_flush(heap, SC);
	bin_resize(heap, SC, 2 * KEPT);
	for (unsigned i = 0; i < THEIRS; i++)
		theirs[i] = fixture_take(other, SC);
	uintptr_t of_unused = fixture_take(other, UNUSED);
	free_theirs(theirs, UNREAD);
	free_theirs(&of_unused, 1);
	assert_int_equal(remote_count(fixture_word(fixture_slab_of(of_unused))), 1);
	assert_null(heap->classes[UNUSED].end);
	assert_int_equal(bin_count(heap, SC), 0);
	free_theirs(unread, 1);
	assert_ptr_equal(bin_take(heap, SC), (void *)*unread);
	free_theirs(unread, KEPT + POSTED);
	assert_int_equal(bin_count(heap, SC), KEPT);
	assert_int_equal(remote_count(fixture_word(fixture_slab_of(theirs[THEIRS - 1]))), POSTED);
	assert_true(misuse_block_is_free(fixture_slab_of(*last_kept), *last_kept));
	assert_ptr_equal(bin_take(heap, SC), (void *)*last_kept);
	heap_read_messages(other, 0);
	free_theirs(last_kept, 1);
	assert_int_equal(bin_count(heap, SC), KEPT - 1);
	heap_flush(heap);
	assert_int_equal(bin_count(heap, SC), 0);
	heap_flush(other);
	assert_int_equal(hak_space.live, 0);
}

/* The largest of the small, and the smallest of the larger. */
static void blocks_of_who_does_not_read_few_of_larger_classes_are_kept(void **state)
{
	enum { LARGER = SC + 1, MOST = 4 };
	static uintptr_t theirs[UNREAD], larger[MOST + 1];

	assert_true(hak_size_classes[SC].size == 1024 && hak_size_classes[LARGER].size > 1024);
	fixture_send_home(heap, fixture_take(heap, LARGER));
	bin_flush(heap, LARGER);
	bin_resize(heap, LARGER, 2 * KEPT);
	for (unsigned i = 0; i < UNREAD; i++)
		theirs[i] = fixture_take(other, SC);
	for (unsigned i = 0; i <= MOST; i++)
		larger[i] = fixture_take(other, LARGER);
	free_theirs(theirs, UNREAD);
	free_theirs(larger, MOST + 1);
	assert_int_equal(bin_count(heap, LARGER), MOST);
	assert_int_equal(remote_count(fixture_word(fixture_slab_of(larger[MOST]))), 1);
	heap_flush(heap);
	heap_flush(other);
	assert_int_equal(hak_space.live, 0);
}

/* They have not come by a refill, where they would be counted; and no bin overflows for them. */
static void blocks_of_who_does_not_read_go_home_where_refills_count(void **state)
{
	static struct sampling sampling;
	static uintptr_t theirs[UNREAD + 5];
	unsigned capacity = heap->classes[SC].capacity;

	take(0, 1);
	push_home(0, 1);
	bin_flush(heap, SC);
	for (unsigned i = 0; i < UNREAD + 5; i++)
		theirs[i] = fixture_take(other, SC);
	free_theirs(theirs, UNREAD);
	hak_settings.guard_rate = 1000;
	free_theirs(&theirs[UNREAD], 1);
	hak_settings.guard_rate = 0;
	heap->sampling = &sampling;
	free_theirs(&theirs[UNREAD + 1], 1);
	heap->sampling = NULL;
	assert_int_equal(bin_count(heap, SC), 0);
	bin_resize(heap, SC, 2);
	free_theirs(&theirs[UNREAD + 2], 3);
	assert_int_equal(bin_count(heap, SC), 2);
	assert_int_equal(heap->classes[SC].overran, 0);
	heap_flush(heap);
	bin_resize(heap, SC, capacity);
	heap_flush(other);
	assert_int_equal(hak_space.live, 0);
}

/* Though it goes on not to read. Bins without any stay as they are. */
static void blocks_of_who_does_not_read_go_home_after_the_delay(void **state)
{
	enum { DELAY = 100000, OWN = 12 };
	static uintptr_t theirs[UNREAD + 1];
	int64_t delay = hak_settings.purge_delay_ms;
	uintptr_t mine = fixture_take(heap, OWN);

	hak_settings.purge_delay_ms = DELAY;
	block_put(heap, fixture_slab_of(mine), mine);
	unsigned own = bin_count(heap, OWN);
	take(0, 1);
	push_home(0, 1);
	bin_flush(heap, SC);
	for (unsigned i = 0; i <= UNREAD; i++)
		theirs[i] = fixture_take(other, SC);
	free_theirs(theirs, UNREAD + 1);
	look_now();
	assert_int_equal(bin_count(heap, SC), 1);
	heap->kept_ms -= DELAY;
	look_now();
	assert_int_equal(bin_count(heap, SC), 0);
	assert_true(own > 0 && bin_count(heap, OWN) == own);
	hak_settings.purge_delay_ms = delay;
	heap_flush(heap);
	heap_flush(other);
	assert_int_equal(hak_space.live, 0);
}

/* Whoever adopts it frees them faster. */
static void blocks_of_slab_without_owner_are_not_kept(void **state)
{
	static uintptr_t theirs[UNREAD + 1];

	take(0, 1);
	push_home(0, 1);
	bin_flush(heap, SC);
	for (unsigned i = 0; i <= UNREAD; i++)
		theirs[i] = fixture_take(other, SC);
	free_theirs(theirs, UNREAD);
	heap_retire(other);
	other = heap_acquire(other_bins, false);
	free_theirs(&theirs[UNREAD], 1);
	assert_int_equal(bin_count(heap, SC), 0);
	heap_flush(heap);
	heap_flush(other);
	assert_int_equal(hak_space.live, 0);
}

static void flush_brings_everything_home(void **state)
{
	uintptr_t theirs = fixture_take(other, SC);

	take(0, 3);
	fixture_free_remotely(heap, theirs);
	push_home(0, 3);
	heap_flush(heap);
	assert_int_equal(heap->outbox.used, 0);
	assert_null(bin_pop(&bins[SC]));
	assert_null(heap->classes[SC].all.first);
	assert_int_equal(hak_space.live, 1);
	heap_flush(other);
	assert_int_equal(hak_space.live, 0);
}

/* From here on, in a process of its own, there is no memory for metadata. */
static void end_metadata(void)
{
	CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){0, 0}) == 0);
	while (meta_alloc(1) != NULL) {
	}
}

static void serve_without_array(void)
{
	struct heap_class *hc = &heap->classes[SC];

	take(0, 1); /* there is a slab */
	end_metadata();
	bin_flush(heap, SC);
	hc->end = NULL; /* as in a class that is new to the heap */
	bin_reset(heap, SC);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 1; i < PER_SLAB; i++) {
			void *p = alloc_block(heap, 1000, ALLOC_ALIGN, false);

			CHECK(p != NULL);
			memset(p, (int)i, 1000);
			blocks[i] = (uintptr_t)p;
		}
		for (unsigned i = 1; i < PER_SLAB; i++) {
			CHECK(bytes_are((void *)blocks[i], 1000, (unsigned char)i));
			CHECK(free_block(heap, (void *)blocks[i]));
		}
	}
	CHECK(hc->end == NULL && hak_space.live == 1);
	heap_flush(heap);
	struct slab *s = fixture_slab_of(blocks[0]); /* what came by way of the inbox is on the other list */
	CHECK(s->used - s->left_remote == 1);
}

/* What there is no array for is not used up: others may grow. */
static void grow_without_array(void)
{
	struct heap_class *hc = &heap->classes[SC];
	unsigned capacity = hc->capacity, *grown = &heap->policy.grown[policy_band(SC)], grew = *grown;

	take(0, 1);
	hc->length = hc->capacity;
	end_metadata();
	hc->overran = 1;
	while (bin_pop(&bins[SC]) != NULL) {
	}
	take(1, 2);
	CHECK(hc->overran == 0 && hc->capacity == capacity);
	CHECK(*grown == grew);
}

static void in_process_of_its_own(void (*act)(void))
{
	if (on_memcheck()) /* it needs memory, too */
		skip();
	pid_t child = fork();
	int status = -1;

	if (child == 0) {
		act();
		_exit(0);
	}
	assert_true(child > 0 && waitpid(child, &status, 0) == child);
	assert_int_equal(status, 0);
}

static void no_memory_for_a_bin_slab_serves(void **state)
{
	in_process_of_its_own(serve_without_array);
}

static void no_memory_for_a_larger_bin_growth_stays(void **state)
{
	in_process_of_its_own(grow_without_array);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(acquired_heap_has_empty_bins, start, end),
		cmocka_unit_test_setup_teardown(refill_first_makes_slab_and_carves, start, end),
		cmocka_unit_test_setup_teardown(refill_any_class_blocks_apart, start, end),
		cmocka_unit_test_setup_teardown(refill_from_dirty_memory_clears_link, start, end),
		cmocka_unit_test_setup_teardown(refill_from_dirty_memory_carves_what_was_touched, start, end),
		cmocka_unit_test_setup_teardown(refill_from_shared_memory_carves_a_page, start, end),
		cmocka_unit_test_setup_teardown(block_in_bin_looks_free_hidden_or_not, start, end),
		cmocka_unit_test_setup_teardown(refill_from_own_list_takes_half_a_bin, start, end),
		cmocka_unit_test_setup_teardown(refill_from_others_stays_a_list, start, end),
		cmocka_unit_test_setup_teardown(refill_while_counting_leaves_no_list, start, end),
		cmocka_unit_test_setup_teardown(refill_from_ready_slab, start, end),
		cmocka_unit_test_setup_teardown(refill_from_inbox, start, end),
		cmocka_unit_test_setup_teardown(refill_from_current_while_queued, start, end),
		cmocka_unit_test_setup_teardown(refill_adopts_before_it_maps, start, end),
		cmocka_unit_test_setup_teardown(refill_prefers_recycled_blocks, start, end),
		cmocka_unit_test_setup_teardown(slab_empty_and_not_needed_deleted, start, end),
		cmocka_unit_test_setup_teardown(capacity_overrun_bin_grows, start, end),
		cmocka_unit_test_setup_teardown(blocks_come_back_newest_first, start, end),
		cmocka_unit_test_setup_teardown(bin_of_smallest_blocks_grows_to_hold_a_batch, start, end),
		cmocka_unit_test_setup_teardown(full_bin_sends_older_half_home, start, end),
		cmocka_unit_test_setup_teardown(all_freed_here_and_there_leaves_few_slabs, start, end),
		cmocka_unit_test_setup_teardown(tick_hides_bins, start, end),
		cmocka_unit_test_setup_teardown(block_freed_amid_refill_comes_before_the_list, start, end),
		cmocka_unit_test_setup_teardown(list_written_to_comes_home_as_far_as_it_leads, start, end),
		cmocka_unit_test_setup_teardown(own_list_written_to_is_not_served, start, end),
		cmocka_unit_test_setup_teardown(list_of_others_written_to_is_not_served, start, end),
		cmocka_unit_test_setup_teardown(list_of_others_written_to_at_its_ends_is_told, start, end),
		cmocka_unit_test_setup_teardown(block_in_bin_written_to_is_left_alone, start, end),
		cmocka_unit_test_setup_teardown(refill_reads_messages, start, end),
		cmocka_unit_test_setup_teardown(refill_reads_until_there_are_blocks, start, end),
		cmocka_unit_test_setup_teardown(message_beyond_bin_goes_home, start, end),
		cmocka_unit_test_setup_teardown(message_to_former_owner_is_handed_on, start, end),
		cmocka_unit_test_setup_teardown(message_to_heap_that_samples_goes_by_slab, start, end),
		cmocka_unit_test_setup_teardown(message_with_guards_goes_by_slab, start, end),
		cmocka_unit_test_setup_teardown(message_that_goes_by_slab_with_written_block_is_reported, start, end),
		cmocka_unit_test_setup_teardown(message_with_written_block_is_reported, start, end),
		cmocka_unit_test_setup_teardown(outbox_is_posted_in_time, start, end),
		cmocka_unit_test_setup_teardown(blocks_of_who_does_not_read_serve_others, start, end),
		cmocka_unit_test_setup_teardown(blocks_of_who_does_not_read_few_of_larger_classes_are_kept, start, end),
		cmocka_unit_test_setup_teardown(blocks_of_who_does_not_read_go_home_where_refills_count, start, end),
		cmocka_unit_test_setup_teardown(blocks_of_who_does_not_read_go_home_after_the_delay, start, end),
		cmocka_unit_test_setup_teardown(blocks_of_slab_without_owner_are_not_kept, start, end),
		cmocka_unit_test_setup_teardown(flush_brings_everything_home, start, end),
		cmocka_unit_test_setup_teardown(slab_that_is_going_to_be_filled_resident_at_once, start, end),
		cmocka_unit_test_setup_teardown(no_memory_for_a_bin_slab_serves, start, end),
		cmocka_unit_test_setup_teardown(no_memory_for_a_larger_bin_growth_stays, start, end),
	};

	return UNIT_RUN(tests);
}
