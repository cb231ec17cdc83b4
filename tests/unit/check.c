/* SPDX-License-Identifier: MIT */
/* The checker finds what is damaged, and nothing in a heap that is not. */
#include "observe/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "front/alloc.h"
#include "front/bigcache.h"
#include "front/bins.h"
#include "front/heap_slabs.h"
#include "observe/visit.h"
#include "slab/mosaic.h"
#include "space/pagemap.h"

enum { SC = 4, SIZE = 64, COUNT = 3000 };

static struct bin bins[SC_COUNT];
static struct heap *heap;
static void *blocks[COUNT];
static char said[8192];

/* As check_heap; what it says goes to `said`. */
static int check(void)
{
	int fds[2], saved = dup(STDERR_FILENO);

	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	int faults = check_heap();
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(fds[1]);
	ssize_t n = read(fds[0], said, sizeof said - 1);
	said[n > 0 ? n : 0] = '\0';
	close(fds[0]);
	return faults;
}

/* Damaged, and says so. */
static void assert_found(const char *what)
{
	assert_true(check() > 0);
	if (strstr(said, what) == NULL)
		fail_msg("'%s' is not in: %s", what, said);
}

static int setup(void **state)
{
	heap = heap_acquire(bins, false);
	if (heap == NULL)
		return -1;
	heap->is_first = false; /* the nursery is another story */
	for (unsigned i = 0; i < COUNT; i++)
		blocks[i] = alloc_block(heap, SIZE, ALLOC_ALIGN, false);
	for (unsigned i = 0; i < COUNT; i += 2) {
		free_block(heap, blocks[i]);
		blocks[i] = NULL;
	}
	heap_flush(heap); /* slabs have lists again */
	void *one = alloc_block(heap, SIZE, ALLOC_ALIGN, false);
	if (one != NULL)
		free_block(heap, one); /* and the bin has blocks */
	return check() == 0 ? 0 : -1;
}

/* The damage was undone. */
static int teardown(void **state)
{
	int faults = check();

	for (unsigned i = 0; i < COUNT; i++)
		if (blocks[i] != NULL)
			free_block(heap, blocks[i]);
	heap_retire(heap);
	return faults;
}

static struct slab *slab_with_list(void)
{
	for (unsigned i = 1; i < COUNT; i += 2) {
		struct slab *s = pagemap_lookup((uintptr_t)blocks[i]).desc;
		if (s->free_count > 1)
			return s;
	}
	fail();
	return NULL;
}

static void heap_in_use_all_well(void **state)
{
	void *large = alloc_block(heap, 100000, ALLOC_ALIGN, false);
	void *big = alloc_block(heap, 5 << 20, ALLOC_ALIGN, false);
	void *other = alloc_block(heap, 3 << 20, ALLOC_ALIGN, false);

	assert_int_equal(check(), 0);
	free_block(heap, large);
	free_block(heap, big);
	assert_int_equal(check(), 0);
	free_block(heap, other);
	bigcache_release(0);
	assert_int_equal(check(), 0);
	assert_string_equal(said, "");
}

static void own_list_wrong_count_found(void **state)
{
	struct slab *s = slab_with_list();

	s->free_count--;
	assert_found("not as long as it says");
	s->free_count++;
	s->used++;
	assert_found("do not add up");
	s->used--;
}

static void own_list_ring_found(void **state)
{
	struct slab *s = slab_with_list();
	uintptr_t first = link_decode(s->free), second = link_decode(block_link(first)), saved = block_link(second);

	block_set_link(second, s->free);
	assert_found("twice on free lists");
	block_set_link(second, saved);
}

static void own_list_stray_found(void **state)
{
	struct slab *s = slab_with_list();
	uintptr_t first = link_decode(s->free), saved = block_link(first);

	block_set_link(first, link_encode((uintptr_t)said & ~(uintptr_t)15));
	assert_found("leads out of the slab");
	block_set_link(first, link_encode(s->base + 8 * SIZE + 16));
	assert_found("leads out of the slab");
	block_set_link(first, saved);
}

static void bin_block_in_use_elsewhere_found(void **state)
{
	struct bin *b = &bins[SC], saved = *b;
	const struct slab *s = slab_with_list();
	void *top = *bin_top(b);

	*bin_top(b) = (void *)link_decode(s->free);
	assert_found("twice on free lists");
	*bin_top(b) = top;
	b->top -= heap->classes[SC].capacity * sizeof(void *);
	assert_found("more blocks than it may");
	*b = saved;
}

static void bin_block_written_to_found(void **state)
{
	uintptr_t *block = *bin_top(&bins[SC]), mark = *block;

	*block = 42;
	assert_found("a block in a bin was written to");
	*block = mark;
}

/* Blocks of the heap that another has collected. */
static void message_damaged_found(void **state)
{
	static struct bin other_bins[SC_COUNT];
	struct heap *other = heap_acquire(other_bins, false);
	uintptr_t block = (uintptr_t)alloc_block(heap, 32768, ALLOC_ALIGN, false);

	assert_true(other != NULL && block != 0);
	assert_true(outbox_add(&other->outbox, pagemap_lookup(block).desc, block));
	struct message *m = outbox_message(&other->outbox, 0);
	assert_true(m != NULL && message_has(m, block) && m->count == 1 && !message_is_free(m));
	assert_int_equal(check(), 0);
	uint64_t *word = (uint64_t *)block, mark = *word, entry = m->block[0];
	*word = 42;
	assert_found("a block in a message was written to");
	*word = mark;
	m->block[0] += 64;
	assert_found("a message holds what is no block");
	m->block[0] = entry;
	m->block[m->count++] = entry;
	assert_found("twice on free lists");
	m->count--;
	heap_retire(other);
	heap_read_messages(heap, 0);
	assert_int_equal(check(), 0);
}

static void bin_other_class_found(void **state)
{
	struct bin *other = &bins[SC + 1], saved;

	bin_flush(heap, SC + 1);
	assert_true(bin_make_room(heap, SC + 1));
	saved = *other;
	assert_true(bin_push(other, *bin_top(&bins[SC])));
	assert_found("no block of its class");
	*other = saved;
}

static void list_of_bin_wrong_found(void **state)
{
	struct heap_class *hc = &heap->classes[SC];
	struct slab *s = slab_with_list();

	hc->list = s->free;
	hc->listed = s->free_count;
	assert_found("twice on free lists");
	hc->listed = 0;
}

static void pagemap_other_owner_found(void **state)
{
	struct slab *s = slab_with_list();

	slab_set_tag(s, heap->tag + (1u << TAG_OWNER_SHIFT));
	assert_found("another's than its owner's");
	pagemap_set(s->base, 1, TAG_FREE, NULL);
	assert_found("the page map and a slab disagree");
	slab_set_tag(s, heap->tag);
}

static void superslab_free_granule_found(void **state)
{
	struct slab *s = slab_with_list();
	uint32_t bit = (uint32_t)1 << ((s->base - s->ss->base) >> GRANULE_SHIFT);

	s->ss->free |= bit;
	assert_found("granule is free in its SuperSlab");
	s->ss->free &= ~bit;
	s->ss->zero |= bit;
	assert_found("a granule in use is clean");
	s->ss->zero &= ~bit;
	hak_space.dirty++;
	assert_found("sums over SuperSlabs");
	hak_space.dirty--;
}

static void large_sums_and_tags_found(void **state)
{
	void *large = alloc_block(heap, 200000, ALLOC_ALIGN, false);
	struct large *l = large_of((uintptr_t)large);

	hak_space.large++;
	assert_found("sums over large blocks");
	hak_space.large--;
	pagemap_set((uintptr_t)large + GRANULE, 1, TAG_FREE, NULL);
	assert_found("does not lead to a large block");
	pagemap_set((uintptr_t)large + GRANULE, 1, TAG_LARGE, l);
	assert_int_equal(check(), 0);
	free_block(heap, large);
}

static void bigcache_lost_span_found(void **state)
{
	void *big = alloc_block(heap, 3 << 20, ALLOC_ALIGN, false);
	struct large *l = large_of((uintptr_t)big);

	free_block(heap, big);
	assert_int_equal(large_keeper(l), KEPT_BIGCACHE);
	l->span.granules++;
	assert_found("BigCache");
	l->span.granules--;
	large_set_keeper(l, KEPT_NOT);
	assert_found("BigCache keeps a span that is not free");
	large_set_keeper(l, KEPT_BIGCACHE);
	assert_int_equal(check(), 0);
	bigcache_release(0);
}

static void heap_lost_slab_found(void **state)
{
	struct slab *s = slab_with_list();

	heap->slabs++;
	assert_found("as many slabs as it says");
	heap->slabs--;
	list_remove(&s->all);
	assert_found("none of its owner's lists");
	list_push(&heap->classes[s->sc].all, &s->all);
}

struct sum {
	size_t slabs, blocks, bytes, in_slabs;
};

static int add(const struct hak_area *area, void *arg)
{
	struct sum *sum = arg;

	if (area->kind == HAK_AREA_SLAB) {
		sum->slabs++;
		sum->in_slabs += area->live;
	} else {
		sum->blocks++;
		sum->bytes += area->size;
	}
	return 0;
}

static void visit_tells_live_blocks_only(void **state)
{
	struct sum sum = {0}, more = {0};

	assert_int_equal(visit_heap(add, &sum), 0);
	assert_int_equal(sum.blocks, COUNT / 2);
	assert_int_equal(sum.in_slabs, COUNT / 2);
	assert_int_equal(sum.bytes, COUNT / 2 * SIZE);
	void *large = alloc_block(heap, 100000, ALLOC_ALIGN, false);
	assert_int_equal(visit_heap(add, &more), 0);
	assert_int_equal(more.blocks, sum.blocks + 1);
	assert_int_equal(more.in_slabs, sum.in_slabs);
	free_block(heap, large);
}

static int stop(const struct hak_area *area, void *arg)
{
	return --*(int *)arg == 0 ? 42 : 0;
}

static void visit_stops_when_told(void **state)
{
	int left = 5;

	assert_int_equal(visit_heap(stop, &left), 42);
	assert_int_equal(left, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(heap_in_use_all_well),
		CASE(own_list_wrong_count_found),
		CASE(own_list_ring_found),
		CASE(own_list_stray_found),
		CASE(bin_block_in_use_elsewhere_found),
		CASE(bin_block_written_to_found),
		CASE(message_damaged_found),
		CASE(bin_other_class_found),
		CASE(list_of_bin_wrong_found),
		CASE(pagemap_other_owner_found),
		CASE(superslab_free_granule_found),
		CASE(large_sums_and_tags_found),
		CASE(bigcache_lost_span_found),
		CASE(heap_lost_slab_found),
		CASE(visit_tells_live_blocks_only),
		CASE(visit_stops_when_told),
	};

	return UNIT_RUN(tests);
}
