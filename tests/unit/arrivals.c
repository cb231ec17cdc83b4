/* SPDX-License-Identifier: MIT */
#include "front/arrivals.h"

#include <sched.h>
#include <string.h>

#include "common.h"
#include "os/os.h"

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
	assert_false(arrivals_send(&arrivals, &blocks[0]));
	assert_false(arrivals_are_there(&arrivals));
	assert_null(arrivals_take(&arrivals));
	assert_null(arrivals_shut(&arrivals));
	assert_false(arrivals_send(&arrivals, &blocks[0]));
}

/* Are these on the list, the last of them first? */
static void assert_list(const struct large *l, unsigned from, unsigned to)
{
	for (unsigned i = to; i > from; i--, l = l->next)
		assert_ptr_equal(l, &blocks[i - 1]);
	assert_null(l);
}

static void settle(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		arrivals_settle(&arrivals, &blocks[i]);
}

static void send(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		assert_true(arrivals_send(&arrivals, &blocks[i]));
}

static void come_out_once_each(void **state)
{
	atomic_store(&hak_arrivals_wait, false);
	arrivals_invite(&arrivals, MOST);
	assert_false(arrivals_are_there(&arrivals) || arrivals_wait());
	send(0, 3);
	assert_true(arrivals_wait());
	arrivals_invite(&arrivals, MOST); /* leaves what is there */
	assert_list(arrivals_list(&arrivals), 0, 3);
	assert_list(arrivals_take(&arrivals), 0, 3);
	assert_null(arrivals_take(&arrivals));
	assert_true(arrivals_are_there(&arrivals));
	settle(0, 3);
	assert_false(arrivals_are_there(&arrivals));
}

static void what_is_put_back_is_there(void **state)
{
	struct large *list;

	arrivals_invite(&arrivals, MOST);
	send(2, 4);
	list = arrivals_take(&arrivals);
	send(0, 2);
	arrivals_put_back(&arrivals, list);
	assert_list(arrivals_take(&arrivals), 0, 4);
	settle(0, 4);
	assert_int_equal(arrivals.granules, 0);
}

static void bounded_in_granules_until_settled(void **state)
{
	arrivals_invite(&arrivals, 2);
	assert_false(arrivals_send(&arrivals, &blocks[2])); /* of 3 granules */
	arrivals_invite(&arrivals, 5);
	send(1, 3);
	assert_false(arrivals_send(&arrivals, &blocks[0]));
	assert_non_null(arrivals_take(&arrivals));
	assert_false(arrivals_send(&arrivals, &blocks[0]));
	settle(1, 2);
	assert_false(arrivals_send(&arrivals, &blocks[5]));
	send(4, 5);
}

static void refused_when_invited_long_ago(void **state)
{
	arrivals_invite(&arrivals, MOST);
	assert_false(arrivals_are_old(&arrivals));
	send(0, 1);
	atomic_fetch_sub(&arrivals.invited, 2 * OS_CYCLES_A_MOMENT);
	assert_true(arrivals_are_old(&arrivals));
	assert_false(arrivals_send(&arrivals, &blocks[1]));
	arrivals_invite(&arrivals, MOST);
	send(1, 2);
}

static void shut_gives_out_what_was_sent(void **state)
{
	arrivals_invite(&arrivals, MOST);
	send(0, 3);
	assert_list(arrivals_shut(&arrivals), 0, 3);
	assert_false(arrivals_send(&arrivals, &blocks[3]));
	assert_null(arrivals_take(&arrivals));
	assert_false(arrivals_send(&arrivals, &blocks[3])); /* nor does that open it */
}

static void settle_all(struct large *l)
{
	for (struct large *next; l != NULL; l = next) {
		next = l->next;
		CHECK(l->usable == (size_t)(l - blocks)); /* as its sender left it */
		CHECK(taken[l - blocks]++ == 0);
		arrivals_settle(&arrivals, l);
	}
}

/* Some send, one is the thread whose arrivals these are, which now and then leaves half, and the last takes what there
   is to give it back. */
static void run(unsigned index)
{
	if (index < SENDERS) {
		for (unsigned i = index * EACH; i < (index + 1) * EACH; i++) {
			blocks[i].usable = i;
			while (!arrivals_send(&arrivals, &blocks[i]))
				sched_yield();
		}
		atomic_fetch_add(&done, 1);
		return;
	}
	for (unsigned round = 1; atomic_load(&done) < SENDERS; round++) {
		struct large *l = index > SENDERS ? arrivals_take(&arrivals) :
			round % REOPENED_EVERY == 0 ? arrivals_shut(&arrivals) : arrivals_take(&arrivals);
		if (index == SENDERS) {
			arrivals_invite(&arrivals, MOST);
			if (l != NULL && l->next != NULL && round % 2 == 0) {
				arrivals_put_back(&arrivals, l->next);
				l->next = NULL;
			}
		}
		settle_all(l);
		sched_yield();
	}
}

static void none_is_lost_between_threads(void **state)
{
	memset(taken, 0, sizeof(taken));
	done = 0;
	run_threads(SENDERS + 2, run);
	settle_all(arrivals_take(&arrivals));
	for (unsigned i = 0; i < SENDERS * EACH; i++)
		assert_int_equal(taken[i], 1);
	assert_int_equal(arrivals.granules, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(begin_shut_and_refuse, start),
		cmocka_unit_test_setup(come_out_once_each, start),
		cmocka_unit_test_setup(what_is_put_back_is_there, start),
		cmocka_unit_test_setup(bounded_in_granules_until_settled, start),
		cmocka_unit_test_setup(refused_when_invited_long_ago, start),
		cmocka_unit_test_setup(shut_gives_out_what_was_sent, start),
		cmocka_unit_test_setup(none_is_lost_between_threads, start),
	};

	return UNIT_RUN(tests);
}
