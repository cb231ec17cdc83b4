/* SPDX-License-Identifier: MIT */
/*
 * The owner of a mosaic cuts blocks out of holes while other threads mark those they free, whose cells of the
 * map lie side by side with those that the owner writes. No mark may be lost, none appear on a block that is
 * out.
 */
#include <sched.h>

#include "common.h"
#include "fixture.h"
#include "slab/mosaic.h"

enum { FREERS = 3, SHELF = 1024, ROUNDS = 100000, FIRST = 7 };

static const unsigned classes[] = {2, 3, 5, 7, 9}; /* of 2, 3, 5, 7 and 9 units */

static struct inbox inbox;
static struct slab *slab;
static _Atomic uintptr_t shelf[SHELF];
static _Atomic bool is_done;

/* Behind the link. */
static uint64_t *class_of(uintptr_t block)
{
	return (uint64_t *)(block + 8);
}

static bool try_shelf(uintptr_t block, unsigned i)
{
	uintptr_t none = 0;

	return atomic_compare_exchange_strong(&shelf[i], &none, block);
}

static void put_on_shelf(uintptr_t block, uint64_t *seed)
{
	while (!try_shelf(block, next_random(seed) % SHELF))
		sched_yield();
}

static void cut(uint64_t *seed)
{
	unsigned sc = classes[next_random(seed) % (sizeof classes / sizeof *classes)];
	void *blocks[4];

	if (!mosaic_may_fit(slab_mosaic(slab), sc))
		return;
	unsigned n = mosaic_take(slab, sc, 1 + next_random(seed) % 4, blocks + 4);
	for (unsigned i = 4 - n; i < 4; i++) {
		uintptr_t at = (uintptr_t)blocks[i];
		CHECK(slab_class_at(slab, at) == sc);
		*class_of(at) = sc;
		put_on_shelf(at, seed);
	}
}

static void take_home(void)
{
	uintptr_t next;

	if (inbox_take(&inbox, false) == NULL)
		return;
	for (uintptr_t at = link_decode(remote_take(slab)); !link_is_end(at); at = next) {
		next = link_decode(block_link(at));
		CHECK(mosaic_freed_at(slab_mosaic(slab), at - slab->base) == *class_of(at));
		mosaic_put(slab, at, 1);
	}
}

static void own(void)
{
	uint64_t seed = 7;

	for (int i = 0; i < ROUNDS; i++) {
		cut(&seed);
		take_home();
	}
	atomic_store(&is_done, true);
}

/* False: there was none. */
static bool free_one(uint64_t *seed)
{
	uintptr_t block = atomic_exchange(&shelf[next_random(seed) % SHELF], 0);
	struct batch one = {block, block, 1};

	if (block == 0)
		return false;
	CHECK(slab_class_at(slab, block) == *class_of(block));
	CHECK(mosaic_freed_at(slab_mosaic(slab), block - slab->base) == 0);
	mosaic_mark_freed(slab, block);
	CHECK(slab_class_at(slab, block) == 0);
	CHECK(mosaic_freed_at(slab_mosaic(slab), block - slab->base) == *class_of(block));
	remote_post(slab, &one);
	return true;
}

static void own_or_free(unsigned index)
{
	uint64_t seed = 101 + index;

	if (index == 0) {
		own();
		return;
	}
	while (!atomic_load(&is_done))
		if (!free_one(&seed))
			sched_yield();
}

static void marks_of_others_stay_while_owner_cuts(void **state)
{
	uint64_t seed = 77;

	slab = fixture_slab(FIRST, &inbox, 0);
	assert_true(mosaic_open(slab, slab->sc));
	slab_set_tag(slab, FIXTURE_TAG);
	run_threads(1 + FREERS, own_or_free);
	for (int i = 0; i < 100 * SHELF; i++)
		free_one(&seed);
	take_home();
	assert_int_equal(slab->used, 0);
	assert_int_equal(slab->free_count, MOSAIC_UNITS);
	slab_delete(slab);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(marks_of_others_stay_while_owner_cuts),
	};

	return UNIT_RUN(tests);
}
