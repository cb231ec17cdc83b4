/* SPDX-License-Identifier: MIT */
#include "os/lock.h"

#include "common.h"
#include "os/os.h"

enum { THREADS = 4, ROUNDS = 20000 };

static struct lock lock;
static unsigned counter, inside;
static _Atomic unsigned arrived;

static void lock_held_try_fails(void **state)
{
	assert_true(lock_try(&lock));
	assert_false(lock_try(&lock));
	lock_release(&lock);
	assert_true(lock_try(&lock));
	lock_release(&lock);
}

static void lock_held_is_given_up_by_who_may_not_wait(void **state)
{
	lock_acquire(&lock);
	assert_false(lock_acquire_slow(&lock, false));
	lock_release(&lock);
	assert_true(lock_acquire_slow(&lock, false));
	assert_false(lock_try(&lock));
	lock_release(&lock);
}

static void lock_reset_when_held_is_free(void **state)
{
	lock_acquire(&lock);
	lock_reset(&lock);
	assert_true(lock_try(&lock));
	lock_release(&lock);
	assert_int_equal(atomic_load(&lock.word), 0);
}

static void count(unsigned index)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (i % 2 == 0)
			lock_acquire(&lock);
		else
			while (!lock_try(&lock))
				continue;
		CHECK(inside++ == 0);
		counter++;
		inside--;
		lock_release(&lock);
	}
}

static void lock_contended_one_inside(void **state)
{
	counter = 0;
	run_threads(THREADS, count);
	assert_int_equal(counter, THREADS * ROUNDS);
	assert_int_equal(atomic_load(&lock.word), 0);
}

static void hold_long(unsigned index)
{
	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) != THREADS)
		continue;
	lock_acquire(&lock);
	CHECK(inside++ == 0);
	counter++;
	sleep_ms(20);
	inside--;
	lock_release(&lock);
}

/* Everyone but the first has to sleep, and must be woken. */
static void lock_sleepers_all_woken(void **state)
{
	counter = 0;
	run_threads(THREADS, hold_long);
	assert_int_equal(counter, THREADS);
	assert_true(lock_try(&lock));
	lock_release(&lock);
}

/* Before any thread is made. */
static void alone_until_a_thread_is_made(void **state)
{
	assert_true(process_is_alone());
}

static _Atomic bool rival_done;

static void meet(void)
{
	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) != 2)
		continue;
}

static void rival(void)
{
	meet();
	count(0);
	atomic_store(&rival_done, true);
}

/* libc does not know of it. */
static void thread_of_ours_shuts_out_too(void **state)
{
	static struct os_thread thread = { .run = rival, .name = "rival" };

#ifdef __SANITIZE_THREAD__
	return; /* it takes every thread for one of libc's */
#endif
	counter = 0;
	uint64_t signals = os_block_signals();
	assert_true(os_thread_start(&thread));
	os_restore_signals(signals);
	meet();
	count(1);
	while (!atomic_load(&rival_done))
		sleep_ms(1);
	assert_int_equal(counter, 2 * ROUNDS);
	assert_int_equal(atomic_load(&lock.word), 0);
	assert_false(process_is_alone());
	atomic_store(&arrived, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alone_until_a_thread_is_made),
		cmocka_unit_test(thread_of_ours_shuts_out_too),
		cmocka_unit_test(lock_held_try_fails),
		cmocka_unit_test(lock_held_is_given_up_by_who_may_not_wait),
		cmocka_unit_test(lock_reset_when_held_is_free),
		cmocka_unit_test(lock_contended_one_inside),
		cmocka_unit_test(lock_sleepers_all_woken),
	};

	return UNIT_RUN(tests);
}
