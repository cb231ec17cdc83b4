/* SPDX-License-Identifier: MIT */
/* Two heaps of one thread, of which one sleeps while the other frees its blocks; and heaps of several threads. */
#include "front/sleepers.h"

#include <string.h>

#include "base/settings.h"
#include "common.h"
#include "fixture.h"
#include "front/alloc.h"
#include "front/bins.h"
#include "front/locked_heap.h"
#include "front/nursery.h"
#include "observe/check.h"
#include "observe/marks.h"
#include "os/os.h"
#include "space/purge.h"

enum { SIZE = 1000, LITTLE = 3 << 9, FEW = 24 << 10, MANY = 128 << 10 }; /* 1.5, 24 and 128 MiB */
enum { DELAY = 300 };                                    /* ms */

static struct bin owner_bins[SC_COUNT], other_bins[SC_COUNT];
static struct heap *owner, *other;
static void *other_use;
static unsigned char *block[3 * MANY];
static size_t filled; /* granules in use after the last fill */

/* Granules in use but for the nursery's, which stays. */
static size_t live(void)
{
	return hak_space.live - (nursery_used() != 0);
}

/* With those that are mapped alone. */
static size_t in_use(void)
{
	return hak_space.live + hak_space.alone;
}

static void count_emptied(struct slab *s, void *n)
{
	*(size_t *)n += remote_is_emptied(s);
}

/* Slabs whose owner has not found it yet. */
static size_t emptied(void)
{
	size_t n = 0;

	slab_for_each(count_emptied, &n);
	return n;
}

static int begin(void **state)
{
	hak_settings.purge_delay_ms = DELAY;
	hak_settings.use_superslab = true;
	owner = heap_acquire(owner_bins, false);
	other = heap_acquire(other_bins, false);
	/* Of less in all nothing is looked at. */
	other_use = owner != NULL && other != NULL ? alloc_block(other, 32 << 20, ALLOC_ALIGN, false) : NULL;
	return other_use != NULL ? 0 : -1;
}

static int end(void **state)
{
	free_block(other, other_use);
	heap_retire(owner);
	heap_retire(other);
	purge_all(0);
	return emptied() == 0 && live() == 0 ? 0 : -1;
}

static void fill(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		block[i] = alloc_block(owner, SIZE, ALLOC_ALIGN, false);
		assert_non_null(block[i]);
		memset(block[i], (int)i | 1, SIZE);
	}
	filled = in_use();
}

/* In an order in which no two blocks of a slab follow each other, if `mixed`. */
static void free_by_other(unsigned count, bool mixed)
{
	int64_t delay = hak_settings.purge_delay_ms;

	hak_settings.purge_delay_ms = -1; /* however long this takes, nothing is given back amid it */
	for (unsigned i = 0; i < count; i++)
		assert_true(free_block(other, block[mixed ? i * 9973ul % count : i]));
	outbox_flush(&other->outbox);
	hak_settings.purge_delay_ms = delay;
}

/* Till a look is not refused because another came before. */
static void wait_for_look(void)
{
	uint64_t begin = os_cycles();

	while (os_cycles() - begin <= 2 * OS_CYCLES_A_MOMENT)
		sleep_ms(5);
}

static void look(void)
{
	wait_for_look();
	sleepers_relieve(false);
}

/* Takes memory again and frees it: each block is in one place. */
static void use_again(unsigned count)
{
	fill(count);
	for (unsigned i = 0; i < count; i++)
		assert_true(bytes_are(block[i], SIZE, (unsigned char)(i | 1)));
	assert_int_equal(check_heap(), 0);
	for (unsigned i = 0; i < count; i++)
		assert_true(free_block(owner, block[i]));
}

/* MiB that anybody may use since then. */
static size_t given_back(void)
{
	return (filled - in_use()) * GRANULE >> 20;
}

static void give_back_few(void)
{
	fill(FEW);
	free_by_other(FEW, false);
	sleepers_relieve_all();
	assert_true(given_back() > 20);
}

static void much_is_given_back_at_once(void **state)
{
	fill(MANY);
	free_by_other(MANY, false);
	assert_int_equal(given_back(), 0);
	look();
	assert_true(given_back() > 120);
	assert_int_equal(check_heap(), 0);
	assert_true(emptied() > 1900);
	use_again(MANY);
	assert_int_equal(emptied(), 0);
}

static void messages_are_no_obstacle(void **state)
{
	fill(MANY);
	free_by_other(MANY, true);
	look();
	assert_true(given_back() > 120);
	use_again(MANY);
}

static void slabs_mapped_alone_are_given_back(void **state)
{
	hak_settings.use_superslab = false;
	fill(MANY);
	free_by_other(MANY, false);
	look();
	assert_true(given_back() > 120);
	use_again(MANY);
}

/* Nobody waits for one, whose slabs go where they went if it were asked for memory. */
static void locked_heap_is_drained_after_the_delay(void **state)
{
	struct locked_heap *lh = locked_heap_new();

	assert_non_null(lh);
	for (unsigned i = 0; i < LITTLE; i++)
		assert_non_null(block[i] = locked_heap_alloc(lh, SIZE, ALLOC_ALIGN, false));
	free_by_other(LITTLE, false);
	size_t before = live();
	look();
	assert_int_equal(live(), before);
	sleep_ms(DELAY);
	look();
	assert_true(live() < before / 8);
	assert_int_equal(check_heap(), 0);
	locked_heap_destroy(lh);
}

static void little_is_given_back_after_the_delay(void **state)
{
	fill(LITTLE);
	free_by_other(LITTLE, false);
	look();
	assert_int_equal(given_back(), 0);
	sleep_ms(DELAY);
	look();
	assert_in_range(given_back(), 1, 2);
	use_again(LITTLE);
}

static void owner_that_comes_by_keeps_its_memory(void **state)
{
	for (int i = 0; i < 4; i++) {
		fill(LITTLE);
		free_by_other(LITTLE, false);
		look();
		sleep_ms(DELAY / 2);
		assert_int_equal(given_back(), 0);
		heap_drain_inbox(owner);
		assert_int_equal(emptied(), 0);
	}
}

/* By threads that are awake as well as by the owner. */
static void what_one_left_serves_another(void **state)
{
	fill(MANY);
	size_t before = filled;
	for (int i = 0; i < 4; i++) {
		struct heap *h = owner;

		free_by_other(MANY, false);
		look();
		owner = other; /* they change places */
		other = h;
		fill(MANY);
		assert_true(filled < before + 64);
		assert_int_equal(check_heap(), 0);
	}
	free_by_other(MANY, false);
}

static void never_or_without_need_nothing_is_done(void **state)
{
	hak_settings.purge_delay_ms = -1;
	fill(MANY);
	free_by_other(MANY, false);
	look();
	assert_int_equal(given_back(), 0);
	sleepers_relieve_all(); /* but when it is asked for */
	assert_true(given_back() > 120);
}

static void free_every_other(struct heap *h, unsigned from)
{
	for (unsigned i = from; i < FEW; i += 2)
		assert_true(free_block(h, block[i]));
	outbox_flush(&other->outbox);
}

/* No refill asks for it: there are blocks of its own. */
static void owner_that_is_awake_finds_what_others_freed(void **state)
{
	fill(FEW);
	free_every_other(other, 0);
	free_every_other(owner, 1);
	bin_flush(owner, sc_of(SIZE));
	assert_true(live() > FEW * SIZE / GRANULE / 2);
	wait_for_look();
	assert_true(heap_look(owner));
	assert_true(live() < FEW * SIZE / GRANULE / 8);
	assert_int_equal(check_heap(), 0);
}

static void owner_that_came_by_amid_it_has_no_part_of_it(void **state)
{
	uint64_t drained = owner->count.drained;

	fill(FEW);
	free_every_other(other, 0);
	heap_drain_inbox(owner);
	free_every_other(other, 1);
	sleepers_relieve_all();
	assert_true(given_back() > 20);
	use_again(FEW);
	assert_true(owner->count.drained - drained <= FEW);
}

/* None of them has much. */
static void what_several_owners_have_is_much(void **state)
{
	enum { OWNERS = 4 };
	static struct bin bins_of[OWNERS][SC_COUNT];
	struct heap *owners[OWNERS], *first = owner;

	hak_settings.purge_delay_ms = -1;
	for (unsigned i = 0; i < OWNERS; i++) {
		owner = owners[i] = heap_acquire(bins_of[i], false);
		assert_non_null(owner);
		fill(LITTLE);
		free_by_other(LITTLE, false);
	}
	owner = first;
	hak_settings.purge_delay_ms = DELAY;
	look();
	assert_true(given_back() > 2);
	for (unsigned i = 0; i < OWNERS; i++)
		heap_retire(owners[i]);
}

/* Whose thread is awake gets its own slabs back, with their memory. */
static void own_inbox_is_drained(void **state)
{
	size_t purged = hak_space.purged;

	fill(MANY);
	free_by_other(MANY, false);
	wait_for_look();
	assert_true(heap_look(owner));
	assert_true(inbox_is_empty(&owner->inbox));
	assert_int_equal(emptied(), 0);
	purge_all(0); /* they are free memory now */
	assert_true(hak_space.purged - purged > 1000);
}

/* One call does not give back gigabytes; what is left is noted. */
static void look_is_bounded(void **state)
{
	size_t before = 0;

	fill(2 * MANY);
	free_by_other(2 * MANY, false);
	look();
	assert_in_range(given_back(), 128, 160);
	for (int i = 0; i < 4; i++) {
		before = given_back();
		sleep_ms(DELAY);
		look();
	}
	assert_int_equal(given_back(), before);
	assert_true(before > 240);
}

/* What is left of more than may wait goes on being so, however much else is in use. */
static void rest_of_too_much_does_not_wait(void **state)
{
	enum { ELSE = 30000 }; /* granules: a sixteenth of all is more than a look gives back */

	__atomic_fetch_add(&hak_space.live, ELSE, __ATOMIC_RELAXED);
	fill(3 * MANY);
	free_by_other(3 * MANY, false);
	look();
	assert_in_range(given_back(), 128, 160);
	look();
	assert_in_range(given_back(), 256, 320);
	__atomic_fetch_sub(&hak_space.live, ELSE, __ATOMIC_RELAXED);
}

/* What was too little at the last look is not forgotten: with what has come since it is too much. */
static void free_around_a_look(unsigned before, unsigned more)
{
	hak_settings.purge_delay_ms = 60000; /* however long this takes */
	fill(before + more);
	free_by_other(before, false);
	look();
	assert_int_equal(given_back(), 0);
	for (unsigned i = before; i < before + more; i++)
		assert_true(free_block(other, block[i]));
	outbox_flush(&other->outbox);
	sleepers_relieve(false);
	assert_true(given_back() >= (before + more) * SIZE * 3ul / 4 >> 20);
}

static void what_waits_on_counts(void **state)
{
	free_around_a_look(LITTLE, LITTLE);
}

static void what_waits_on_counts_where_more_may(void **state)
{
	enum { ELSE = 18800 }; /* granules: a sixteenth of all is about 80 MiB */

	__atomic_fetch_add(&hak_space.live, ELSE, __ATOMIC_RELAXED);
	free_around_a_look(3 * FEW, FEW);
	__atomic_fetch_sub(&hak_space.live, ELSE, __ATOMIC_RELAXED);
}

/* Messages hold one block of each slab. */
static void free_so_that_messages_lack(unsigned count)
{
	int64_t delay = hak_settings.purge_delay_ms;

	hak_settings.purge_delay_ms = -1; /* as in free_by_other */
	for (unsigned i = 0; i < count; i++)
		if (i % 64 != 0)
			assert_true(free_block(other, block[i]));
		else
			outbox_flush(&other->outbox); /* no messages yet */
	for (unsigned i = 0; i < count; i += 64)
		assert_true(free_block(other, block[i]));
	outbox_flush(&other->outbox);
	hak_settings.purge_delay_ms = delay;
}

static void trim_reads_messages(void **state)
{
	fill(MANY);
	free_so_that_messages_lack(MANY);
	release_memory(other, 0);
	assert_true(given_back() > 120);
}

static void messages_are_read_after_the_delay(void **state)
{
	fill(FEW);
	free_so_that_messages_lack(FEW);
	inboxes_note(); /* as whoever may send no more does */
	look();
	assert_int_equal(given_back(), 0);
	sleep_ms(DELAY);
	look();
	assert_true(given_back() > 20);
	use_again(FEW);
}

/* The owner has taken them all out of its inbox for the sake of the first. */
static void messages_left_unread_are_read_after_the_delay(void **state)
{
	void *taken[200];
	unsigned n = 0;

	fill(FEW);
	free_so_that_messages_lack(FEW);
	while (owner->unread == NULL) {
		assert_in_range(n, 0, 199);
		taken[n++] = alloc_block(owner, SIZE, ALLOC_ALIGN, false);
	}
	inboxes_note(); /* as above */
	look();
	sleep_ms(DELAY);
	look();
	assert_null(owner->unread);
	assert_true(given_back() > 18);
	while (n > 0)
		assert_true(free_block(owner, taken[--n]));
	use_again(FEW);
}

/* It may be the last to come by. */
static void thread_that_ends_just_after_a_look_gives_back_much(void **state)
{
	hak_settings.purge_delay_ms = 0;
	fill(FEW);
	uint64_t begin = os_cycles();
	sleepers_relieve(true);
	free_by_other(FEW, false);
	sleepers_relieve(true);
	if (os_cycles() - begin > OS_CYCLES_A_MOMENT)
		skip(); /* the machine is too busy: there may have been another look amid that */
	assert_true(given_back() > 20);
}

static void nothing_stays_noted_where_nothing_is_done(void **state)
{
	hak_settings.purge_delay_ms = -1;
	fill(FEW);
	free_by_other(FEW, false);
	assert_true(inboxes_wait());
	look();
	assert_false(inboxes_wait());
}

static void trim_gives_back_all(void **state)
{
	fill(FEW);
	free_by_other(FEW, true);
	assert_true(release_memory(other, 0));
	assert_true(given_back() > 20);
	use_again(FEW);
}

/* Half of a slab's blocks are with the program. */
static void slabs_in_use_stay(void **state)
{
	fill(FEW);
	for (unsigned i = 0; i < FEW; i += 2)
		assert_true(free_block(other, block[i]));
	outbox_flush(&other->outbox);
	sleepers_relieve_all();
	assert_int_equal(given_back(), 0);
	for (unsigned i = 1; i < FEW; i += 2) {
		assert_true(bytes_are(block[i], SIZE, (unsigned char)(i | 1)));
		assert_true(free_block(other, block[i]));
	}
	outbox_flush(&other->outbox);
	sleepers_relieve_all();
	assert_true(given_back() > 20);
}

static int count_one(void *arg, uintptr_t at, size_t size)
{
	++*(size_t *)arg;
	return 0;
}

static int count_live(void *arg, struct slab *s)
{
	void **both = arg;

	return marks_each_live(both[0], s, count_one, both[1]);
}

static void nothing_lives_in_what_was_given_back(void **state)
{
	struct marks marks;
	size_t n = 0;

	give_back_few();
	assert_true(marks_make(&marks, NULL, NULL));
	marks_each_slab(&marks, count_live, (void *[]){&marks, &n});
	marks_drop(&marks);
	assert_int_equal(n, 0);
	/* Who frees one of these once more is told so. */
	assert_int_equal(pagemap_tag((uintptr_t)block[FEW / 2]), TAG_FREE);
}

/* Who counts does so after it has pushed: the owner may have taken the slab by then. */
static void what_is_counted_late_is_forgotten(void **state)
{
	assert_true(inbox_is_empty(&owner->inbox));
	inbox_count_whole(&owner->inbox, 1);
	heap_drain_inbox(owner);
	assert_int_equal(atomic_load(&owner->inbox.whole), 0);
}

static void owner_that_ends_leaves_nothing(void **state)
{
	give_back_few();
	heap_retire(owner);
	assert_int_equal(emptied(), 0);
	assert_int_equal(check_heap(), 0);
	assert_int_equal(live(), 0);
	owner = heap_acquire(owner_bins, false);
}

/* ---- several threads ---- */

enum { SHARED = 4096, ROUNDS = 400000, OWNERS = 3 };

static _Atomic(unsigned char *) shared[SHARED];
static _Thread_local struct bin bins[SC_COUNT];

static void live_and_be_looked_at(unsigned index)
{
	uint64_t seed = 77 + index;
	struct heap *h = heap_acquire(bins, false);

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t r = next_random(&seed);
		unsigned char *p = NULL;

		/* In turns one only frees. */
		if ((unsigned)i / 20000 % (OWNERS + 1) != index) {
			size_t size = 64 + r / SHARED % 8 * 512;

			p = alloc_block(h, size, ALLOC_ALIGN, (r >> 40) % 2 == 0);
			CHECK(p != NULL && ((r >> 40) % 2 != 0 || bytes_are(p, size, 0)));
			memset(p, (int)(size / 64), size);
			*(uint32_t *)p = (uint32_t)size;
		}
		p = atomic_exchange(&shared[r % SHARED], p);
		if (p != NULL) {
			uint32_t size = *(uint32_t *)p;
			CHECK(bytes_are(p + 4, size - 4, (unsigned char)(size / 64)));
			CHECK(free_block(h, p));
		}
		if (i % 256 == 0)
			outbox_flush(&h->outbox);
		if (i % 1024 == 0)
			sleepers_relieve_all();
		if (i % 65536 == 0) {
			heap_retire(h);
			h = heap_acquire(bins, false);
		}
	}
	heap_retire(h);
}

static void blocks_are_in_one_hand(void **state)
{
	run_threads(OWNERS, live_and_be_looked_at);
	for (int i = 0; i < SHARED; i++)
		if (shared[i] != NULL)
			assert_true(free_block(other, shared[i]));
	outbox_flush(&other->outbox);
	assert_int_equal(emptied(), 0);
	assert_int_equal(check_heap(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(much_is_given_back_at_once, begin, end),
		cmocka_unit_test_setup_teardown(messages_are_no_obstacle, begin, end),
		cmocka_unit_test_setup_teardown(slabs_mapped_alone_are_given_back, begin, end),
		cmocka_unit_test_setup_teardown(locked_heap_is_drained_after_the_delay, begin, end),
		cmocka_unit_test_setup_teardown(little_is_given_back_after_the_delay, begin, end),
		cmocka_unit_test_setup_teardown(owner_that_comes_by_keeps_its_memory, begin, end),
		cmocka_unit_test_setup_teardown(what_one_left_serves_another, begin, end),
		cmocka_unit_test_setup_teardown(never_or_without_need_nothing_is_done, begin, end),
		cmocka_unit_test_setup_teardown(own_inbox_is_drained, begin, end),
		cmocka_unit_test_setup_teardown(owner_that_is_awake_finds_what_others_freed, begin, end),
		cmocka_unit_test_setup_teardown(owner_that_came_by_amid_it_has_no_part_of_it, begin, end),
		cmocka_unit_test_setup_teardown(what_several_owners_have_is_much, begin, end),
		cmocka_unit_test_setup_teardown(look_is_bounded, begin, end),
		cmocka_unit_test_setup_teardown(rest_of_too_much_does_not_wait, begin, end),
		cmocka_unit_test_setup_teardown(what_waits_on_counts, begin, end),
		cmocka_unit_test_setup_teardown(what_waits_on_counts_where_more_may, begin, end),
		cmocka_unit_test_setup_teardown(trim_reads_messages, begin, end),
		cmocka_unit_test_setup_teardown(messages_are_read_after_the_delay, begin, end),
		cmocka_unit_test_setup_teardown(messages_left_unread_are_read_after_the_delay, begin, end),
		cmocka_unit_test_setup_teardown(thread_that_ends_just_after_a_look_gives_back_much, begin, end),
		cmocka_unit_test_setup_teardown(nothing_stays_noted_where_nothing_is_done, begin, end),
		cmocka_unit_test_setup_teardown(trim_gives_back_all, begin, end),
		cmocka_unit_test_setup_teardown(slabs_in_use_stay, begin, end),
		cmocka_unit_test_setup_teardown(nothing_lives_in_what_was_given_back, begin, end),
		cmocka_unit_test_setup_teardown(what_is_counted_late_is_forgotten, begin, end),
		cmocka_unit_test_setup_teardown(owner_that_ends_leaves_nothing, begin, end),
		cmocka_unit_test_setup_teardown(blocks_are_in_one_hand, begin, end),
	};

	return UNIT_RUN(tests);
}
