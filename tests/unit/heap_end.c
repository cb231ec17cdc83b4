/* SPDX-License-Identifier: MIT */
/* How a heap ends: with its thread, with adoption off, destroyed, or lost to fork. */
#include "base/settings.h"
#include "common.h"
#include "fixture.h"
#include "front/alloc.h"
#include "front/bins.h"
#include "os/lock.h"
#include "slab/pool.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SC = 32, BLOCKS = 100 }; /* 64 blocks a slab */

static struct bin bins[SC_COUNT], other_bins[SC_COUNT];
static uintptr_t blocks[BLOCKS];

static int start_empty(void **state)
{
	return hak_space.live == 0 && pool_count(SC) == 0 ? 0 : -1;
}

/* Busy is for a thread that has not made the heap its own yet. */
static struct heap *acquire(struct bin *b, bool locked)
{
	struct heap *h = heap_acquire(b, locked);

	assert_non_null(h);
	assert_true(h->busy);
	h->busy = false;
	return h;
}

static void take(struct heap *h)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		blocks[i] = fixture_take(h, SC);
}

static void push_home(struct heap *h)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		fixture_send_home(h, blocks[i]);
}

static void post_all(void)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		struct slab *s = fixture_slab_of(blocks[i]);
		struct batch one = {blocks[i], blocks[i], 1};
		block_set_link(blocks[i], slab_end(s));
		remote_post(s, &one);
	}
}

static void retire_without_blocks_out_gives_all_back(void **state)
{
	struct heap *h = acquire(bins, false);

	take(h);
	push_home(h);
	heap_retire(h);
	assert_int_equal(hak_space.live, 0);
	assert_int_equal(pool_count(SC), 0);
	assert_null(h->bins);
	for (unsigned sc = 0; sc < SC_COUNT; sc++)
		assert_true(bins[sc].top == 0 && bins[sc].magic == 0);
}

static void retired_heap_is_used_again(void **state)
{
	static struct bin again_bins[SC_COUNT];
	struct heap *h = acquire(bins, false), *other = acquire(other_bins, false), *locked;
	uint32_t tag = h->tag;

	assert_ptr_not_equal(h, other);
	heap_retire(h);
	locked = acquire(bins, true);
	assert_int_not_equal(locked->tag, tag);
	h = acquire(again_bins, false);
	assert_int_equal(h->tag, tag);
	assert_true(inbox_is_empty(&h->inbox));
	heap_retire(h);
	heap_retire(other);
	heap_destroy_slabs(locked);
}

static void retire_with_blocks_out_publishes(void **state)
{
	struct heap *h = acquire(bins, false);

	take(h);
	heap_retire(h);
	assert_int_equal(hak_space.live, 2);
	assert_int_equal(pagemap_tag(blocks[0]), SC << SC_CODE_SHIFT);
	/* The first slab has nothing to give, the second does. */
	assert_int_equal(pool_count(SC), 1);
	post_all();
	assert_int_equal(pool_count(SC), 0);
	assert_int_equal(hak_space.live, 0);
}

static void retire_with_inbox_full_gives_all_back(void **state)
{
	struct heap *h = acquire(bins, false);

	take(h);
	post_all();
	assert_false(inbox_is_empty(&h->inbox));
	heap_retire(h);
	assert_int_equal(hak_space.live, 0);
	assert_int_equal(pool_count(SC), 0);
}

static void retire_without_adoption_next_heap_goes_on(void **state)
{
	struct heap *h = acquire(bins, false);

	hak_settings.adopt = false;
	take(h);
	heap_retire(h);
	assert_int_equal(pool_count(SC), 0);
	post_all();
	assert_int_equal(hak_space.live, 2);
	assert_ptr_equal(acquire(other_bins, false), h);
	take(h);
	assert_int_equal(hak_space.live, 2);
	push_home(h);
	hak_settings.adopt = true;
	heap_retire(h);
	assert_int_equal(hak_space.live, 0);
}

static void destroyed_heap_takes_blocks_along(void **state)
{
	struct heap *h = acquire(bins, true);

	take(h);
	slab_push(fixture_slab_of(blocks[99]), blocks[99], blocks[99], 1);
	heap_destroy_slabs(h);
	assert_int_equal(hak_space.live, 0);
	h = acquire(bins, true);
	take(h);
	post_all();
	heap_destroy_slabs(h);
	assert_int_equal(hak_space.live, 0);
}

/* Its router read the owner before that ended, and pushed after the heap was taken up again. */
static void drain_slab_of_former_owner_goes_to_pool(void **state)
{
	struct heap *h = acquire(bins, false);
	struct slab *s = slab_new(SC, false);

	slab_set_tag(s, 0);
	s->carved = s->used = s->capacity;
	blocks[0] = s->base;
	block_set_link(s->base, slab_end(s));
	atomic_store(&s->remote, remote_pack(s->base, 1, REMOTE_QUEUED));
	atomic_store(&h->inbox.top, s);
	heap_drain_inbox(h);
	assert_true(inbox_is_empty(&h->inbox));
	assert_int_equal(pool_count(SC), 1);
	assert_int_equal(fixture_take(h, SC), blocks[0]);
	assert_int_equal(pool_count(SC), 0);
	heap_flush(h);
	heap_destroy_slabs(h);
	assert_int_equal(hak_space.live, 0);
}

static void registry_knows_every_heap_once(void **state)
{
	struct heap *a = acquire(bins, false), *b = acquire(other_bins, false);
	unsigned seen = 0;

	for (struct heap *h = heap_registry(); h != NULL; h = h->next)
		seen += h == a ? 1 : h == b ? 16 : 0;
	assert_int_equal(seen, 17);
	heap_retire(a);
	heap_retire(b);
}

static void repair_after_fork_retires_the_others(void **state)
{
	struct heap *mine = acquire(bins, false), *lost = acquire(other_bins, false);

	take(lost);
	heap_repair_after_fork(mine);
	assert_null(lost->bins);
	assert_int_equal(hak_space.threads, 1);
	assert_int_equal(pool_count(SC), 1);
	post_all();
	assert_int_equal(hak_space.live, 0);
	heap_retire(mine);
}

/* Stopped inside a slow path: its free blocks are lost, those that come home are not. */
static void repair_after_fork_busy_heap_is_given_up(void **state)
{
	struct heap *mine = acquire(bins, false), *lost = acquire(other_bins, false);

	take(lost);
	lost->busy = true;
	heap_repair_after_fork(mine);
	assert_null(lost->bins);
	assert_int_equal(hak_space.threads, 1);
	assert_int_equal(pagemap_tag(blocks[0]), SC << SC_CODE_SHIFT);
	post_all();
	assert_int_equal(hak_space.live, 1); /* the second slab: some of it was never handed out */
	blocks[0] = fixture_take(mine, SC);
	assert_int_equal(mine->count.refill_adopt, 1);
	assert_ptr_equal(fixture_slab_of(blocks[0]), fixture_slab_of(blocks[99]));
	heap_destroy_slabs(mine);
	assert_int_equal(hak_space.live, 0);
}

/* QUEUED with its router gone. */
static void repair_after_fork_routes_lost_slab(void **state)
{
	struct heap *mine = acquire(bins, false), *lost = acquire(other_bins, false);
	struct slab *s;

	take(mine);
	s = fixture_slab_of(blocks[0]);
	post_all();
	inbox_take(&mine->inbox, false);
	heap_repair_after_fork(mine);
	assert_false(inbox_is_empty(&mine->inbox));
	heap_drain_inbox(mine);
	assert_int_equal(atomic_load(&s->remote) & REMOTE_QUEUED, 0);
	heap_retire(mine);
	assert_null(lost->bins);
	assert_int_equal(hak_space.live, 0);
}

static void *retire(void *h)
{
	heap_enter(h);
	heap_retire(h);
	return NULL;
}

/* The thread has given everything up but its place in the registry, for which it waits. */
static void fork_amid_end_of_thread_is_repaired(void **state)
{
	struct heap *mine = acquire(bins, false), *ending = acquire(other_bins, false);
	pthread_t thread;
	pid_t child;
	int status = -1;

	lock_acquire(heap_registry_lock());
	assert_int_equal(pthread_create(&thread, NULL, retire, ending), 0);
	while (atomic_load(&ending->inbox.top) != INBOX_CLOSED || atomic_load(&heap_registry_lock()->word) != 2)
		usleep(1000);
	child = fork();
	if (child == 0) {
		lock_reset(heap_registry_lock());
		heap_registry_reset();
		heap_repair_after_fork(mine);
		_exit(ending->bins != NULL);
	}
	lock_release(heap_registry_lock());
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(child > 0 && waitpid(child, &status, 0) == child);
	assert_int_equal(status, 0);
	heap_retire(mine);
}

static bool are_empty(const struct heap *h, const struct bin *at)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++)
		if (at[sc].top != bin_empty(&h->classes[sc], sc).top || h->classes[sc].listed != 0)
			return false;
	return true;
}

/* The child goes on with what is left of a heap that was in use, and nobody is accused of its empty
   bins: neither those it has now nor those that the interrupted call may have looked up before. */
static void go_on_after(void (*leave)(struct heap *), bool locked)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		struct heap *h = acquire(bins, locked);

		take(h);
		leave(h);
		if (!are_empty(h, bins) || !are_empty(h, h->bins))
			_exit(2);
		if (hak_space.threads != 0) /* the thread's next heap counts */
			_exit(3);
		heap_flush(h);
		_exit(alloc_block(h, 1000, ALLOC_ALIGN, false) == NULL);
	}
	assert_true(child > 0 && waitpid(child, &status, 0) == child);
	assert_int_equal(status, 0);
}

static void forsaken_heap_goes_on(void **state)
{
	go_on_after(heap_forsake, false);
}

static void heap_without_its_free_blocks_goes_on(void **state)
{
	go_on_after(heap_forget_free, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(retire_without_blocks_out_gives_all_back, start_empty),
		cmocka_unit_test_setup(retired_heap_is_used_again, start_empty),
		cmocka_unit_test_setup(retire_with_blocks_out_publishes, start_empty),
		cmocka_unit_test_setup(retire_with_inbox_full_gives_all_back, start_empty),
		cmocka_unit_test_setup(retire_without_adoption_next_heap_goes_on, start_empty),
		cmocka_unit_test_setup(destroyed_heap_takes_blocks_along, start_empty),
		cmocka_unit_test_setup(drain_slab_of_former_owner_goes_to_pool, start_empty),
		cmocka_unit_test_setup(registry_knows_every_heap_once, start_empty),
		cmocka_unit_test_setup(repair_after_fork_retires_the_others, start_empty),
		cmocka_unit_test_setup(repair_after_fork_busy_heap_is_given_up, start_empty),
		cmocka_unit_test_setup(repair_after_fork_routes_lost_slab, start_empty),
		cmocka_unit_test_setup(fork_amid_end_of_thread_is_repaired, start_empty),
		cmocka_unit_test_setup(forsaken_heap_goes_on, start_empty),
		cmocka_unit_test_setup(heap_without_its_free_blocks_goes_on, start_empty),
	};

	return UNIT_RUN(tests);
}
