/* SPDX-License-Identifier: MIT */
/* How a heap ends: with its thread, with adoption off, destroyed, or lost to fork. */
#include "base/settings.h"
#include "common.h"
#include "fixture.h"
#include "front/alloc.h"
#include "front/bins.h"
#include "observe/check.h"
#include "os/lock.h"
#include "slab/emptied.h"
#include "slab/pool.h"

#include <pthread.h>
#include <string.h>
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

static void assert_ends_well(pid_t child)
{
	int status = -1;

	assert_true(child > 0 && waitpid(child, &status, 0) == child);
	assert_int_equal(status, 0);
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

static void post(uintptr_t block)
{
	struct slab *s = fixture_slab_of(block);
	struct batch one = {block, block, 1};

	block_set_link(block, slab_end(s));
	remote_post(s, &one);
}

static void post_all(void)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		post(blocks[i]);
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

/* The thread of `h` has kept all blocks of another's in its bin, but for the last; they are of two slabs. */
static void keep_blocks_of(struct heap *owner, struct heap *h)
{
	fixture_send_home(h, fixture_take(h, SC)); /* it has a bin */
	bin_flush(h, SC);
	bin_resize(h, SC, BLOCKS);
	take(owner);
	for (unsigned i = 0; i < BLOCKS - 1; i++)
		assert_true(bin_push(&h->bins[SC], (void *)blocks[i]));
	assert_int_equal(check_heap(), 0);
}

/* They have come home. */
static void assert_kept_blocks_are_back(struct heap *owner)
{
	assert_int_equal(check_heap(), 0);
	heap_flush(owner);
	assert_int_equal(hak_space.live, 1);
	fixture_send_home(owner, blocks[BLOCKS - 1]);
	heap_retire(owner);
	assert_int_equal(hak_space.live, 0);
}

static void retire_with_blocks_of_others_sends_them(void **state)
{
	struct heap *h = acquire(bins, false), *owner = acquire(other_bins, false);

	keep_blocks_of(owner, h);
	heap_retire(h);
	assert_kept_blocks_are_back(owner);
}

static void blocks_kept_of_ended_heap_come_to_slabs(void **state)
{
	struct heap *h = acquire(bins, false), *owner = acquire(other_bins, false);

	keep_blocks_of(owner, h);
	heap_retire(owner);
	assert_int_equal(check_heap(), 0);
	heap_retire(h);
	assert_int_equal(hak_space.live, 1);
	post(blocks[BLOCKS - 1]);
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

/* All blocks, each message as full as it may be. */
enum { MESSAGES = (BLOCKS + MESSAGE_BLOCKS - 1) / MESSAGE_BLOCKS };
static struct message messages[MESSAGES];

static void write_messages(struct heap *to)
{
	for (unsigned i = 0; i < MESSAGES; i++)
		fixture_write(&messages[i], to, blocks + i * MESSAGE_BLOCKS,
		              i < MESSAGES - 1 ? MESSAGE_BLOCKS : BLOCKS % MESSAGE_BLOCKS);
}

static void post_messages(unsigned from, unsigned end)
{
	for (unsigned i = from; i < end; i++)
		if (!message_post(&messages[i]))
			heap_scatter_message(&messages[i]);
}

static bool are_free(void)
{
	bool all = true;

	for (unsigned i = 0; i < MESSAGES; i++)
		all = all && message_is_free(&messages[i]);
	return all;
}

static void retire_with_messages_gives_all_back(void **state)
{
	struct heap *h = acquire(bins, false);

	take(h);
	write_messages(h);
	post_messages(0, MESSAGES);
	heap_retire(h);
	assert_true(are_free());
	assert_int_equal(hak_space.live, 0);
	assert_int_equal(pool_count(SC), 0);
}

/* By a thread that has begun them before. */
static void messages_to_ended_heap_come_to_slabs(void **state)
{
	struct heap *h = acquire(bins, false);

	take(h);
	write_messages(h);
	heap_retire(h);
	assert_int_equal(hak_space.live, 2);
	post_messages(0, MESSAGES);
	assert_true(are_free());
	assert_int_equal(hak_space.live, 0);
	assert_int_equal(pool_count(SC), 0);
}

/* The heap's next thread reads what is not for it, and passes it on. */
static void messages_to_former_thread_come_to_slabs(void **state)
{
	struct heap *h = acquire(bins, false), *other = acquire(other_bins, false);

	take(h);
	write_messages(h);
	heap_retire(h);
	blocks[0] = fixture_take(other, SC); /* adopts */
	assert_int_equal(other->count.refill_adopt, 1);
	fixture_send_home(other, blocks[0]);
	assert_ptr_equal(acquire(bins, false), h);
	post_messages(0, MESSAGES);
	assert_false(are_free());
	heap_read_messages(h, 0);
	assert_true(are_free());
	heap_retire(h);
	heap_retire(other);
	assert_int_equal(hak_space.live, 0);
	assert_int_equal(pool_count(SC), 0);
}

static void messages_without_adoption_wait_for_next_thread(void **state)
{
	struct heap *h = acquire(bins, false);

	hak_settings.adopt = false;
	take(h);
	write_messages(h);
	heap_retire(h);
	post_messages(0, MESSAGES);
	assert_true(inbox_has_messages(&h->inbox));
	assert_ptr_equal(acquire(other_bins, false), h);
	take(h);
	assert_true(are_free());
	assert_int_equal(hak_space.live, 2);
	push_home(h);
	hak_settings.adopt = true;
	heap_retire(h);
	assert_int_equal(hak_space.live, 0);
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

static void repair_after_fork_blocks_kept_by_the_others_come_home(void **state)
{
	struct heap *mine = acquire(bins, false), *lost = acquire(other_bins, false);

	keep_blocks_of(mine, lost);
	heap_repair_after_fork(mine);
	assert_kept_blocks_are_back(mine);
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

/* Those that it had not read, and those in its inbox; what is posted later finds that closed. */
static bool repair_scatters_messages_of_busy_heap(void)
{
	struct heap *mine = acquire(bins, false), *lost = acquire(other_bins, false);
	bool are_read;

	take(lost);
	write_messages(lost);
	post_messages(0, 2);
	lost->unread = inbox_take_messages(&lost->inbox, false);
	post_messages(2, 3);
	lost->busy = true;
	heap_repair_after_fork(mine);
	are_read = lost->unread == NULL && message_is_free(&messages[0]) && message_is_free(&messages[2]) && !are_free();
	post_messages(3, MESSAGES);
	return are_read && are_free() && !tag_is_slab(pagemap_tag(blocks[0])) &&
		fixture_slab_of(fixture_take(mine, SC)) == fixture_slab_of(blocks[99]);
}

/* Frees blocks from that one on, no more than a message holds and one, in messages: their slabs get no slots. */
static void send(struct heap *from, unsigned first, unsigned count)
{
	for (unsigned i = 0; i < OUTBOX_SLOTS; i++)
		from->outbox.slot[i].slab = (struct slab *)from;
	for (unsigned i = first; i < first + count; i++)
		fixture_free_remotely(from, blocks[i]);
	memset(from->outbox.slot, 0, sizeof from->outbox.slot);
}

/* Sent by the thread that forks to one that was reading it, or had taken it out of its inbox. */
static bool repair_frees_message_in_hand(void)
{
	struct heap *mine = acquire(bins, false), *lost = acquire(other_bins, false);
	struct message *m;
	bool was_out, is_free;

	take(lost);
	send(mine, 0, MESSAGE_BLOCKS + 1);
	m = inbox_take_messages(&lost->inbox, false);
	was_out = m == outbox_message(&mine->outbox, 0) && !message_is_free(m) && !message_is_free(m + 1);
	lost->busy = true;
	heap_repair_after_fork(mine);
	is_free = message_is_free(m) && !message_is_free(m + 1); /* which is OPEN */
	outbox_flush(&mine->outbox);
	return was_out && is_free && message_is_free(m + 1);
}

static unsigned came_home(unsigned block)
{
	return remote_count(atomic_load(&fixture_slab_of(blocks[block])->remote));
}

/* To the thread that forks: a message that it has not read yet, one in the hands of another that looks after it while it
   sleeps and has posted its first block, and one in its inbox. */
static bool repair_scatters_messages_to_who_forks(void)
{
	struct heap *mine = acquire(bins, false), *from = acquire(other_bins, false);
	struct message *looked_at;
	bool are_home;

	take(mine); /* 64 of one slab, and of another */
	send(from, 0, MESSAGE_BLOCKS);
	mine->unread = inbox_take_messages(&mine->inbox, false);
	send(from, MESSAGE_BLOCKS, MESSAGE_BLOCKS);
	looked_at = inbox_take_others_messages(&mine->inbox);
	post(message_block(looked_at->block[0]));
	send(from, 2 * MESSAGE_BLOCKS, MESSAGE_BLOCKS);
	heap_repair_after_fork(mine);
	are_home = came_home(0) == 28 + 1 + 8 && came_home(99) == 20;
	for (unsigned i = 0; i < 3; i++)
		are_home = are_home && message_is_free(outbox_message(&from->outbox, i));
	return are_home && check_heap() == 0 && !mine->unread && atomic_load(&mine->inbox.messages) == NULL;
}

/* Sent by one of those that are given up to another that is. */
static bool repair_reads_what_the_others_sent_each_other(void)
{
	static struct bin third_bins[SC_COUNT];
	struct heap *from = acquire(bins, false), *to = acquire(other_bins, false), *mine = acquire(third_bins, false);
	struct message *m;
	bool was_open;

	hak_settings.adopt = false;
	take(to);
	send(from, 0, 1);
	m = outbox_message(&from->outbox, 0);
	was_open = m != NULL && !message_is_free(m);
	heap_repair_after_fork(mine);
	return was_open && from->bins == NULL && to->bins == NULL && message_is_free(m) && !inbox_has_messages(&to->inbox);
}

/* In a child, since blocks are lost. */
static void check_in_child(bool (*repair)(void))
{
	pid_t child = fork();

	if (child == 0)
		_exit(!repair());
	assert_ends_well(child);
}

static void repair_after_fork_messages_of_busy_heap_come_to_slabs(void **state)
{
	check_in_child(repair_scatters_messages_of_busy_heap);
}

static void repair_after_fork_message_in_hand_is_free_again(void **state)
{
	check_in_child(repair_frees_message_in_hand);
}

static void repair_after_fork_messages_to_who_forks_come_to_slabs(void **state)
{
	check_in_child(repair_scatters_messages_to_who_forks);
}

static void repair_after_fork_messages_among_the_others_are_read(void **state)
{
	check_in_child(repair_reads_what_the_others_sent_each_other);
}

/* Handed out anew, and not filled in yet: it still says what it held before, a slab that was mapped alone. */
static bool repair_forgets_unfilled_descriptor(void)
{
	struct heap *mine = acquire(bins, false);
	struct slab *s;

	hak_settings.use_superslab = false;
	s = slab_new(SC, false);
	slab_set_tag(s, 0);
	slab_delete(s);
	list_remove(&s->all);
	s->in_use = true;
	heap_repair_after_fork(mine);
	return !s->in_use;
}

static void repair_after_fork_unfilled_descriptor_is_unused(void **state)
{
	check_in_child(repair_forgets_unfilled_descriptor);
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
	assert_ends_well(child);
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
	assert_ends_well(child);
}

static void forsaken_heap_goes_on(void **state)
{
	go_on_after(heap_forsake, false);
}

static void heap_without_its_free_blocks_goes_on(void **state)
{
	go_on_after(heap_forget_free, true);
}

/* What others freed, of slabs that a drain has put with those that have blocks, comes before new slabs. */
static bool takes_what_others_freed(void)
{
	struct heap *h = acquire(bins, true);
	size_t before;

	take(h);
	for (unsigned i = 0; i < BLOCKS; i += 2)
		post(blocks[i]);
	heap_drain_inbox(h);
	heap_forget_free(h);
	before = hak_space.live;
	for (unsigned i = 0; i < BLOCKS / 2; i++)
		fixture_take(h, SC);
	return hak_space.live == before;
}

static void heap_without_its_free_blocks_takes_what_others_freed(void **state)
{
	check_in_child(takes_what_others_freed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(retire_without_blocks_out_gives_all_back, start_empty),
		cmocka_unit_test_setup(retired_heap_is_used_again, start_empty),
		cmocka_unit_test_setup(retire_with_blocks_out_publishes, start_empty),
		cmocka_unit_test_setup(retire_with_blocks_of_others_sends_them, start_empty),
		cmocka_unit_test_setup(blocks_kept_of_ended_heap_come_to_slabs, start_empty),
		cmocka_unit_test_setup(retire_with_inbox_full_gives_all_back, start_empty),
		cmocka_unit_test_setup(retire_with_messages_gives_all_back, start_empty),
		cmocka_unit_test_setup(messages_to_ended_heap_come_to_slabs, start_empty),
		cmocka_unit_test_setup(messages_to_former_thread_come_to_slabs, start_empty),
		cmocka_unit_test_setup(messages_without_adoption_wait_for_next_thread, start_empty),
		cmocka_unit_test_setup(retire_without_adoption_next_heap_goes_on, start_empty),
		cmocka_unit_test_setup(destroyed_heap_takes_blocks_along, start_empty),
		cmocka_unit_test_setup(drain_slab_of_former_owner_goes_to_pool, start_empty),
		cmocka_unit_test_setup(registry_knows_every_heap_once, start_empty),
		cmocka_unit_test_setup(repair_after_fork_retires_the_others, start_empty),
		cmocka_unit_test_setup(repair_after_fork_blocks_kept_by_the_others_come_home, start_empty),
		cmocka_unit_test_setup(repair_after_fork_busy_heap_is_given_up, start_empty),
		cmocka_unit_test_setup(repair_after_fork_messages_of_busy_heap_come_to_slabs, start_empty),
		cmocka_unit_test_setup(repair_after_fork_message_in_hand_is_free_again, start_empty),
		cmocka_unit_test_setup(repair_after_fork_messages_to_who_forks_come_to_slabs, start_empty),
		cmocka_unit_test_setup(repair_after_fork_messages_among_the_others_are_read, start_empty),
		cmocka_unit_test_setup(repair_after_fork_unfilled_descriptor_is_unused, start_empty),
		cmocka_unit_test_setup(repair_after_fork_routes_lost_slab, start_empty),
		cmocka_unit_test_setup(fork_amid_end_of_thread_is_repaired, start_empty),
		cmocka_unit_test_setup(forsaken_heap_goes_on, start_empty),
		cmocka_unit_test_setup(heap_without_its_free_blocks_goes_on, start_empty),
		cmocka_unit_test_setup(heap_without_its_free_blocks_takes_what_others_freed, start_empty),
	};

	return UNIT_RUN(tests);
}
