/* SPDX-License-Identifier: MIT */
/* The protocol of remote frees, one step after the other; handoff.c has them all at once. */
#include "slab/remote.h"

#include "common.h"
#include "fixture.h"
#include "slab/pool.h"

enum { SC = 5, OUT = 8 };

static struct inbox inbox;

static struct slab *slab_with(unsigned carved)
{
	return fixture_slab(SC, &inbox, carved);
}

/* All of it carved: nothing to give but what comes home. */
static struct slab *full_slab(void)
{
	return slab_with(hak_size_classes[SC].capacity);
}

static int start_closed_books(void **state)
{
	inbox_take(&inbox, false);
	return hak_space.live == 0 && pool_count(SC) == 0 ? 0 : -1;
}

static void post_first_queues_in_inbox(void **state)
{
	struct slab *s = slab_with(OUT);

	assert_true(inbox_is_empty(&inbox));
	fixture_post(s, 0, 1);
	assert_int_equal(fixture_word(s), remote_pack(fixture_block(s, 0), 1, REMOTE_QUEUED));
	assert_false(inbox_is_empty(&inbox));
	assert_ptr_equal(inbox_take(&inbox, false), s);
	assert_null(s->inbox_next);
	slab_delete(s);
}

static void post_second_queues_no_more(void **state)
{
	struct slab *s = slab_with(OUT), *other = slab_with(OUT);

	fixture_post(s, 0, 2);
	fixture_post(other, 0, 1);
	fixture_post(s, 2, 3);
	assert_int_equal(remote_count(fixture_word(s)), 5);
	assert_ptr_equal(inbox_take(&inbox, false), other);
	assert_ptr_equal(other->inbox_next, s);
	assert_null(s->inbox_next);
	assert_int_equal(fixture_count(s, link_encode(remote_first(fixture_word(s)))), 5);
	slab_delete(s);
	slab_delete(other);
}

static void collect_from_queue_takes_all(void **state)
{
	struct slab *s = slab_with(OUT);

	fixture_post(s, 0, 2);
	fixture_post(s, 2, 3);
	inbox_take(&inbox, false);
	assert_true(remote_collect(s, true));
	assert_int_equal(fixture_word(s), 0);
	assert_int_equal(s->free_count, 5);
	assert_int_equal(s->used, OUT - 5);
	assert_int_equal(fixture_count(s, s->free), 5);
	assert_false(remote_collect(s, true));
	slab_delete(s);
}

/* The owner helps itself while the slab waits in the inbox: it must not be queued twice. */
static void collect_while_queued_stays_queued(void **state)
{
	struct slab *s = slab_with(OUT);

	assert_false(remote_collect(s, false));
	fixture_post(s, 0, 2);
	assert_true(remote_collect(s, false));
	assert_int_equal(fixture_word(s), REMOTE_QUEUED);
	s->free_count = 0;
	fixture_post(s, 2, 1);
	assert_ptr_equal(inbox_take(&inbox, false), s);
	assert_null(s->inbox_next);
	assert_true(remote_collect(s, true));
	fixture_post(s, 3, 1);
	assert_ptr_equal(inbox_take(&inbox, false), s);
	slab_delete(s);
}

static void unqueue_leaves_list_and_queues_again(void **state)
{
	struct slab *s = slab_with(OUT);

	slab_push(s, fixture_block(s, 7), fixture_block(s, 7), 1);
	fixture_post(s, 0, 3);
	inbox_take(&inbox, false);
	remote_unqueue(s);
	assert_int_equal(s->left_remote, 3);
	assert_int_equal(fixture_word(s), remote_pack(fixture_block(s, 0), 3, 0));
	fixture_post(s, 3, 1);
	assert_ptr_equal(inbox_take(&inbox, false), s);
	assert_int_equal(remote_count(fixture_word(s)), 4);
	slab_delete(s);
}

static void all_home_counts_remote_list(void **state)
{
	struct slab *s = slab_with(3);

	assert_false(remote_all_home(s));
	slab_push(s, fixture_block(s, 0), fixture_block(s, 0), 1);
	fixture_post(s, 1, 2);
	assert_false(remote_all_home(s)); /* queued */
	inbox_take(&inbox, false);
	remote_unqueue(s);
	assert_true(remote_all_home(s));
	slab_delete(s);
}

static void disown_with_blocks_publishes(void **state)
{
	struct slab *s = slab_with(OUT);

	slab_push(s, fixture_block(s, 0), fixture_block(s, 0), 1);
	assert_int_equal(fixture_owner(s), FIXTURE_TAG);
	remote_disown(s);
	assert_int_equal(pool_count(SC), 1);
	assert_null(atomic_load(&s->owner));
	assert_int_equal(fixture_owner(s), 0);
	assert_int_equal(fixture_word(s), remote_pack(0, OUT - 1, REMOTE_QUEUED | REMOTE_PUBLISHED));
	fixture_post(s, 1, OUT - 2);
	assert_int_equal(remote_count(fixture_word(s)), 1);
	assert_int_equal(hak_space.live, 1);
	fixture_post(s, OUT - 1, 1);
	assert_int_equal(pool_count(SC), 0);
	assert_int_equal(hak_space.live, 0);
}

static void disown_all_out_waits_for_first_post(void **state)
{
	struct slab *s = full_slab();

	remote_disown(s);
	assert_int_equal(pool_count(SC), 0);
	assert_int_equal(fixture_word(s), REMOTE_DISOWNED);
	fixture_post(s, 0, 1);
	assert_int_equal(pool_count(SC), 1);
	assert_true(remote_is_published(fixture_word(s)));
	assert_int_equal(remote_count(fixture_word(s)), s->capacity - 1);
	fixture_post(s, 1, s->capacity - 1u);
	assert_int_equal(hak_space.live, 0);
}

static void disown_all_home_deletes(void **state)
{
	struct slab *s = slab_with(3);

	fixture_post(s, 0, 3);
	inbox_take(&inbox, false);
	remote_unqueue(s);
	remote_disown(s);
	assert_int_equal(pool_count(SC), 0);
	assert_int_equal(hak_space.live, 0);
}

/* The router has not come to its push yet, or the slab is still in the inbox. */
static void disown_while_queued_leaves_it_to_router(void **state)
{
	struct slab *s = slab_with(OUT);

	fixture_post(s, 0, 2);
	remote_disown(s);
	assert_int_equal(pool_count(SC), 0);
	assert_ptr_equal(inbox_take(&inbox, true), s);
	remote_route(s);
	assert_int_equal(pool_count(SC), 1);
	assert_int_equal(remote_count(fixture_word(s)), OUT - 2);
	fixture_post(s, 2, OUT - 2);
	assert_int_equal(hak_space.live, 0);
	inbox_open(&inbox);
}

static void inbox_closed_opens_empty(void **state)
{
	struct slab *s = slab_with(OUT);

	assert_null(inbox_take(&inbox, true));
	assert_false(inbox_is_empty(&inbox));
	inbox_open(&inbox);
	assert_true(inbox_is_empty(&inbox));
	fixture_post(s, 0, 1);
	inbox_open(&inbox);
	assert_ptr_equal(inbox_take(&inbox, false), s);
	slab_delete(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(post_first_queues_in_inbox, start_closed_books),
		cmocka_unit_test_setup(post_second_queues_no_more, start_closed_books),
		cmocka_unit_test_setup(collect_from_queue_takes_all, start_closed_books),
		cmocka_unit_test_setup(collect_while_queued_stays_queued, start_closed_books),
		cmocka_unit_test_setup(unqueue_leaves_list_and_queues_again, start_closed_books),
		cmocka_unit_test_setup(all_home_counts_remote_list, start_closed_books),
		cmocka_unit_test_setup(disown_with_blocks_publishes, start_closed_books),
		cmocka_unit_test_setup(disown_all_out_waits_for_first_post, start_closed_books),
		cmocka_unit_test_setup(disown_all_home_deletes, start_closed_books),
		cmocka_unit_test_setup(disown_while_queued_leaves_it_to_router, start_closed_books),
		cmocka_unit_test_setup(inbox_closed_opens_empty, start_closed_books),
	};

	return UNIT_RUN(tests);
}
