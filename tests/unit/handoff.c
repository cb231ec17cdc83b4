/* SPDX-License-Identifier: MIT */
/*
 * The remote-free protocol with everybody at work at once: owners that hand out blocks, exit and come
 * back, posters that bring blocks home in batches, adopters. Every block is with one holder at a time,
 * and in the end all slabs are gone.
 */
#include <sched.h>

#include "common.h"
#include "fixture.h"
#include "slab/pool.h"

enum {
	SC = 32, /* 1 KiB: 64 blocks a slab, so that slabs fill and empty often */
	OWNERS = 3,
	POSTERS = 3,
	SLABS = 4,
	SHELF = 96,
	ROUNDS = 20000,
	IN_HAND = 0x600d,
};

struct owner {
	struct inbox inbox;
	uint32_t tag;
	struct slab *slab[SLABS]; /* NULL: none */
};

static struct owner owners[OWNERS];

/* Where owners leave blocks for posters. */
static _Atomic uintptr_t shelf[SHELF];
static _Atomic unsigned owners_done;
static _Atomic size_t handed_out, brought_back;

/* Behind the link. */
static _Atomic uint64_t *holder_of(uintptr_t block)
{
	return (_Atomic uint64_t *)(block + 8);
}

static void forget(struct owner *o, const struct slab *s)
{
	for (int i = 0; i < SLABS; i++)
		if (o->slab[i] == s)
			o->slab[i] = NULL;
}

static struct slab *new_slab(struct owner *o)
{
	struct slab *s = pool_adopt(SC, SC, &o->inbox, o->tag);

	if (s == NULL) {
		s = slab_new(SC, false);
		CHECK(s != NULL);
		atomic_store(&s->owner, &o->inbox);
		slab_set_tag(s, o->tag);
	}
	CHECK(atomic_load(&s->owner) == &o->inbox);
	return s;
}

/* A block of the slab, or 0: all are out. */
static uintptr_t pop(struct slab *s)
{
	uintptr_t block;

	if (s->free_count == 0 && !remote_collect(s, false)) {
		if (!slab_has_uncarved(s))
			return 0;
		block = fixture_block(s, s->carved++);
		atomic_store(holder_of(block), 0);
	} else {
		block = link_decode(s->free);
		CHECK(slab_has_block(s, block));
		s->free = block_link(block);
		s->free_count--;
	}
	s->used++;
	CHECK(atomic_exchange(holder_of(block), IN_HAND) == 0);
	return block;
}

static void hand_out(struct owner *o, uint64_t *seed)
{
	unsigned i = (unsigned)(next_random(seed) % SLABS);
	_Atomic uintptr_t *place = &shelf[next_random(seed) % SHELF];
	uintptr_t block, none = 0;

	if (o->slab[i] == NULL)
		o->slab[i] = new_slab(o);
	block = pop(o->slab[i]);
	if (block == 0)
		return;
	if (atomic_compare_exchange_strong(place, &none, block)) {
		atomic_fetch_add(&handed_out, 1);
		return;
	}
	CHECK(atomic_exchange(holder_of(block), 0) == IN_HAND);
	slab_push(o->slab[i], block, block, 1);
	sched_yield();
}

static void take_home(struct owner *o, struct slab *s)
{
	if (s->free_count == 0)
		remote_collect(s, true);
	else
		remote_unqueue(s);
	if (s->used <= s->left_remote && remote_all_home(s)) {
		forget(o, s);
		slab_delete(s);
	}
}

static void drain(struct owner *o, bool close)
{
	struct slab *s = inbox_take(&o->inbox, close), *next;

	for (; s != NULL; s = next) {
		next = s->inbox_next;
		if (atomic_load(&s->owner) != &o->inbox)
			remote_route(s);
		else
			take_home(o, s);
	}
}

/* Like a thread's exit. */
static void exit_owner(struct owner *o)
{
	for (int i = 0; i < SLABS; i++) {
		struct slab *s = o->slab[i];
		o->slab[i] = NULL;
		if (s == NULL)
			continue;
		if (remote_all_home(s))
			slab_delete(s);
		else
			remote_disown(s);
	}
	drain(o, true);
}

static void own(unsigned index)
{
	struct owner *o = &owners[index];
	uint64_t seed = 11 + index;

	o->tag = (index + 1) << TAG_OWNER_SHIFT;
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t r = next_random(&seed) % 512;
		hand_out(o, &seed);
		if (r < 32)
			drain(o, false);
		if (r == 32) {
			exit_owner(o);
			sched_yield();
			inbox_open(&o->inbox);
		}
	}
	exit_owner(o);
	atomic_fetch_add(&owners_done, 1);
}

static void bring_back(struct slab *s, struct batch *b)
{
	if (b->count != 0)
		remote_post(s, b);
	b->count = 0;
}

static void add_to_batch(struct slab *s, struct batch *b, uintptr_t block)
{
	CHECK((block - s->base) % s->block_size == 0);
	CHECK(atomic_exchange(holder_of(block), 0) == IN_HAND);
	block_set_link(block, b->count == 0 ? slab_end(s) : link_encode(b->first));
	b->first = block;
	if (b->count++ == 0)
		b->last = block;
	atomic_fetch_add(&brought_back, 1);
}

/* Goes along the shelf; neighbours of one slab make a batch. */
static size_t clear_shelf(uint64_t *seed)
{
	struct slab *s = NULL;
	struct batch batch = {0, 0, 0};
	size_t start = next_random(seed) % SHELF, n = 0;

	for (size_t i = 0; i < SHELF; i++) {
		uintptr_t block = atomic_exchange(&shelf[(start + i) % SHELF], 0);
		if (block == 0)
			continue;
		struct slab *home = pagemap_lookup(block).desc;
		if (home != s || next_random(seed) % 4 == 0)
			bring_back(s, &batch);
		s = home;
		add_to_batch(s, &batch, block);
		n++;
	}
	bring_back(s, &batch);
	return n;
}

static void post(unsigned index)
{
	uint64_t seed = 101 + index;

	while (atomic_load(&owners_done) < OWNERS || clear_shelf(&seed) != 0)
		if (clear_shelf(&seed) == 0)
			sched_yield();
}

static void own_or_post(unsigned index)
{
	if (index < OWNERS)
		own(index);
	else
		post(index - OWNERS);
}

static void blocks_of_all_owners_come_home(void **state)
{
	run_threads(OWNERS + POSTERS, own_or_post);
	assert_true(handed_out > ROUNDS / 4);
	assert_int_equal(handed_out, brought_back);
	assert_int_equal(pool_count(SC), 0);
	assert_int_equal(hak_space.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_of_all_owners_come_home),
	};

	return UNIT_RUN(tests);
}
