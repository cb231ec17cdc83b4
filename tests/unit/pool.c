/* SPDX-License-Identifier: MIT */
#include "slab/pool.h"

#include "common.h"
#include "fixture.h"
#include "slab/mosaic.h"

enum { SC = 9, OUT = 12, NEW_TAG = 9 << TAG_OWNER_SHIFT };

static struct inbox old_owner, new_owner;

static int start_empty(void **state)
{
	return hak_space.live == 0 && pool_count(SC) == 0 ? 0 : -1;
}

/* A slab in the pool: the first `home` of OUT blocks on its own list, the others out. */
static struct slab *published(unsigned home)
{
	struct slab *s = fixture_slab(SC, &old_owner, OUT);

	for (unsigned i = 0; i < home; i++)
		slab_push(s, fixture_block(s, i), fixture_block(s, i), 1);
	remote_disown(s);
	return s;
}

static struct slab *adopt(void)
{
	return pool_adopt(SC, SC, &new_owner, NEW_TAG);
}

static void adopt_from_empty_pool_null(void **state)
{
	struct slab *s = published(1);

	assert_null(pool_adopt(SC + 1, SC + 1, &new_owner, NEW_TAG));
	assert_int_equal(pool_count(SC + 1), 0);
	assert_ptr_equal(adopt(), s);
	assert_null(adopt());
	slab_delete(s);
}

static void adopted_slab_changes_owner(void **state)
{
	struct slab *s = published(2);

	assert_ptr_equal(adopt(), s);
	assert_int_equal(pool_count(SC), 0);
	assert_ptr_equal(atomic_load(&s->owner), &new_owner);
	assert_int_equal(fixture_owner(s), NEW_TAG);
	assert_int_equal(fixture_word(s), 0);
	assert_int_equal(s->free_count, 2);
	assert_int_equal(s->used, OUT - 2);
	fixture_post(s, 2, 1);
	assert_ptr_equal(inbox_take(&new_owner, false), s);
	assert_true(inbox_is_empty(&old_owner));
	slab_delete(s);
}

static struct slab *adopt_mosaic(unsigned sc)
{
	return pool_adopt(0, sc, &new_owner, NEW_TAG);
}

/* The first blocks are free. */
static void mosaic_adopted_by_who_has_use_for_it(void **state)
{
	enum { LARGER = SC + 1, MUCH_LARGER = 40 };
	struct slab *s = fixture_slab(SC, &old_owner, hak_size_classes[SC].capacity);

	for (unsigned i = 0; i < 4; i++)
		slab_push(s, fixture_block(s, i), fixture_block(s, i), 1);
	assert_true(mosaic_open(s, SC));
	remote_disown(s);
	assert_int_equal(pool_count(0), 1);
	assert_null(adopt_mosaic(MUCH_LARGER));
	assert_int_equal(pool_count(0), 1);
	assert_ptr_equal(adopt_mosaic(LARGER), s);
	assert_int_equal(pool_count(0), 0);
	/* Of what others free nobody knows yet how long a hole it makes. */
	remote_take(s);
	remote_disown(s);
	fixture_post(s, 9, 1);
	assert_ptr_equal(adopt_mosaic(MUCH_LARGER), s);
	mosaic_put(s, fixture_block(s, 9), 1);
	remote_take(s);
	for (unsigned i = 4; i < hak_size_classes[SC].capacity; i++)
		if (i != 9)
			mosaic_put(s, fixture_block(s, i), 1);
	assert_int_equal(s->used, 0);
	slab_delete(s);
}

/* Posted while published: counted down there, a list again for the adopter. */
static void adopted_slab_without_list_collects(void **state)
{
	struct slab *s = published(0);

	fixture_post(s, 0, 3);
	fixture_post(s, 3, 1);
	assert_int_equal(remote_count(fixture_word(s)), OUT - 4);
	assert_ptr_equal(adopt(), s);
	assert_int_equal(s->free_count, 4);
	assert_int_equal(fixture_count(s, s->free), 4);
	assert_int_equal(s->used, OUT - 4);
	assert_int_equal(fixture_word(s), 0);
	slab_delete(s);
}

static void adopted_slab_with_list_leaves_remote_one(void **state)
{
	struct slab *s = published(2);

	fixture_post(s, 2, 3);
	assert_ptr_equal(adopt(), s);
	assert_int_equal(s->free_count, 2);
	assert_int_equal(s->left_remote, 3);
	assert_int_equal(fixture_word(s), remote_pack(fixture_block(s, 2), 3, 0));
	assert_int_equal(fixture_count(s, link_encode(fixture_block(s, 2))), 3);
	slab_delete(s);
}

static void last_block_home_deletes(void **state)
{
	struct slab *a = published(1), *b = published(5);

	assert_int_equal(pool_count(SC), 2);
	fixture_post(a, 1, OUT - 1);
	assert_int_equal(pool_count(SC), 1);
	assert_int_equal(hak_space.live, 1);
	assert_ptr_equal(adopt(), b);
	slab_delete(b);
}

/* Its last poster has it in hand: not to be adopted any more. */
static void slab_about_to_be_reaped_not_adopted(void **state)
{
	struct slab *s = published(1);

	atomic_store(&s->remote, remote_pack(fixture_block(s, 1), 0, REMOTE_QUEUED | REMOTE_PUBLISHED));
	assert_null(adopt());
	assert_int_equal(pool_count(SC), 1);
	pool_reap(s);
	assert_int_equal(pool_count(SC), 0);
	assert_int_equal(hak_space.live, 0);
}

static void publish_nothing_to_give_lets_go(void **state)
{
	unsigned capacity = hak_size_classes[SC].capacity;
	struct slab *s = fixture_slab(SC, NULL, capacity);

	atomic_store(&s->remote, REMOTE_QUEUED);
	pool_publish(s);
	assert_int_equal(pool_count(SC), 0);
	assert_int_equal(fixture_word(s), 0);
	slab_delete(s);
}

static void publish_all_home_deletes(void **state)
{
	struct slab *s = fixture_slab(SC, NULL, 0);

	atomic_store(&s->remote, REMOTE_QUEUED);
	pool_publish(s);
	assert_int_equal(pool_count(SC), 0);
	assert_int_equal(hak_space.live, 0);
}

static void many_slabs_each_adopted_once(void **state)
{
	enum { MANY = 20 };
	struct slab *slabs[MANY], *s;
	unsigned seen = 0;

	for (unsigned i = 0; i < MANY; i++)
		slabs[i] = published(1);
	assert_int_equal(pool_count(SC), MANY);
	while ((s = adopt()) != NULL)
		for (unsigned i = 0; i < MANY; i++)
			if (slabs[i] == s) {
				slabs[i] = NULL;
				seen++;
				slab_delete(s);
			}
	assert_int_equal(seen, MANY);
}

static void reset_pool_forgets_but_slabs_stay_queued(void **state)
{
	struct slab *s = published(2);

	fixture_post(s, 2, 3);
	pool_reset(SC);
	assert_int_equal(pool_count(SC), 0);
	assert_null(adopt());
	assert_int_equal(fixture_word(s), remote_pack(fixture_block(s, 2), 3, REMOTE_QUEUED));
	remote_route(s);
	assert_int_equal(pool_count(SC), 1);
	fixture_post(s, 5, OUT - 5);
	assert_int_equal(hak_space.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(adopt_from_empty_pool_null, start_empty),
		cmocka_unit_test_setup(adopted_slab_changes_owner, start_empty),
		cmocka_unit_test_setup(mosaic_adopted_by_who_has_use_for_it, start_empty),
		cmocka_unit_test_setup(adopted_slab_without_list_collects, start_empty),
		cmocka_unit_test_setup(adopted_slab_with_list_leaves_remote_one, start_empty),
		cmocka_unit_test_setup(last_block_home_deletes, start_empty),
		cmocka_unit_test_setup(slab_about_to_be_reaped_not_adopted, start_empty),
		cmocka_unit_test_setup(publish_nothing_to_give_lets_go, start_empty),
		cmocka_unit_test_setup(publish_all_home_deletes, start_empty),
		cmocka_unit_test_setup(many_slabs_each_adopted_once, start_empty),
		cmocka_unit_test_setup(reset_pool_forgets_but_slabs_stay_queued, start_empty),
	};

	return UNIT_RUN(tests);
}
