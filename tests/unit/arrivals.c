/* SPDX-License-Identifier: MIT */
#include "front/arrivals.h"

#include <sched.h>
#include <string.h>

#include "common.h"

enum { SENDERS = 3, EACH = 20000, MOST = 40, REOPENED_EVERY = 1000 };

static struct arrivals arrivals;
static struct large blocks[SENDERS * EACH];
static unsigned char taken[SENDERS * EACH];
static _Atomic unsigned done;

static int start(void **state)
{
	memset(&arrivals, 0, sizeof(arrivals));
	for (unsigned i = 0; i < SENDERS * EACH; i++)
		blocks[i].span.granules = 1 + i % 3;
	return 0;
}

static void begin_shut_and_refuse(void **state)
{
	assert_false(arrivals_send(&arrivals, &blocks[0], MOST));
	assert_false(arrivals_are_there(&arrivals));
	assert_null(arrivals_take(&arrivals));
	arrivals_shut(&arrivals);
	assert_false(arrivals_send(&arrivals, &blocks[0], MOST));
}

static void come_out_once_each(void **state)
{
	arrivals_open(&arrivals);
	assert_false(arrivals_are_there(&arrivals));
	for (int i = 0; i < 3; i++)
		assert_true(arrivals_send(&arrivals, &blocks[i], MOST));
	arrivals_open(&arrivals); /* is no news */
	assert_true(arrivals_are_there(&arrivals));
	assert_ptr_equal(arrivals_take(&arrivals), &blocks[2]);
	assert_true(arrivals_send(&arrivals, &blocks[3], MOST));
	assert_ptr_equal(arrivals_take(&arrivals), &blocks[1]);
	assert_ptr_equal(arrivals_take(&arrivals), &blocks[0]);
	assert_true(arrivals_are_there(&arrivals));
	assert_ptr_equal(arrivals_take(&arrivals), &blocks[3]);
	assert_null(arrivals_take(&arrivals));
	assert_false(arrivals_are_there(&arrivals));
}

static void bounded_in_granules_until_taken(void **state)
{
	arrivals_open(&arrivals);
	assert_false(arrivals_send(&arrivals, &blocks[2], 2)); /* of 3 granules */
	assert_true(arrivals_send(&arrivals, &blocks[2], 5));
	assert_true(arrivals_send(&arrivals, &blocks[1], 5));
	assert_false(arrivals_send(&arrivals, &blocks[0], 5));
	assert_non_null(arrivals_take(&arrivals)); /* of 2; the other is out of the inbox, but waits */
	assert_false(arrivals_send(&arrivals, &blocks[5], 5));
	assert_true(arrivals_send(&arrivals, &blocks[4], 5));
}

static void shut_keeps_what_was_sent(void **state)
{
	arrivals_open(&arrivals);
	for (int i = 0; i < 2; i++)
		assert_true(arrivals_send(&arrivals, &blocks[i], MOST));
	assert_ptr_equal(arrivals_take(&arrivals), &blocks[1]);
	for (int i = 2; i < 4; i++)
		assert_true(arrivals_send(&arrivals, &blocks[i], MOST));
	arrivals_shut(&arrivals);
	assert_false(arrivals_send(&arrivals, &blocks[4], MOST));
	assert_ptr_equal(arrivals_take(&arrivals), &blocks[0]);
	assert_ptr_equal(arrivals_take(&arrivals), &blocks[3]);
	assert_ptr_equal(arrivals_take(&arrivals), &blocks[2]);
	assert_null(arrivals_take(&arrivals));
	assert_int_equal(arrivals.granules, 0);
}

static void take_all(void)
{
	for (struct large *l; (l = arrivals_take(&arrivals)) != NULL;) {
		CHECK(l->usable == (size_t)(l - blocks)); /* as its sender left it */
		CHECK(taken[l - blocks]++ == 0);
	}
}

static void run(unsigned index)
{
	if (index < SENDERS) {
		for (unsigned i = index * EACH; i < (index + 1) * EACH; i++) {
			blocks[i].usable = i;
			while (!arrivals_send(&arrivals, &blocks[i], MOST))
				sched_yield();
		}
		atomic_fetch_add(&done, 1);
		return;
	}
	for (unsigned round = 1; atomic_load(&done) < SENDERS; round++) {
		if (round % REOPENED_EVERY == 0)
			arrivals_shut(&arrivals);
		take_all();
		arrivals_open(&arrivals);
		sched_yield();
	}
	take_all();
}

static void none_is_lost_between_threads(void **state)
{
	memset(taken, 0, sizeof(taken));
	done = 0;
	run_threads(SENDERS + 1, run);
	for (unsigned i = 0; i < SENDERS * EACH; i++)
		assert_int_equal(taken[i], 1);
	assert_int_equal(arrivals.granules, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(begin_shut_and_refuse, start),
		cmocka_unit_test_setup(come_out_once_each, start),
		cmocka_unit_test_setup(bounded_in_granules_until_taken, start),
		cmocka_unit_test_setup(shut_keeps_what_was_sent, start),
		cmocka_unit_test_setup(none_is_lost_between_threads, start),
	};

	return UNIT_RUN(tests);
}
