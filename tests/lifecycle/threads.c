/* SPDX-License-Identifier: MIT */
/* Threads that come and go: their ends, their numbers, what they leave to others. */
#include "work.h"
#include "../death/cases.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_attr_t small_stack;
static pthread_key_t keys[PTHREAD_KEYS_MAX];
static atomic_int destroyed;

static void start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	CHECK(pthread_create(thread, &small_stack, run, argument) == 0);
}

static void finish(pthread_t thread)
{
	CHECK(pthread_join(thread, NULL) == 0);
}

static void run_in_thread(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	start(&thread, run, argument);
	finish(thread);
}

static void destroy_value(void *value)
{
	work_give(value, 40);
	work_give(work_take(300), 300);
	destroyed++;
}

static void *use_all_keys(void *unused)
{
	for (size_t i = 0; i < PTHREAD_KEYS_MAX; i++)
		CHECK(pthread_setspecific(keys[i], work_take(40)) == 0);
	return NULL;
}

/* The program may have every key there is: the library needs none. */
static void all_keys(void)
{
	for (size_t i = 0; i < PTHREAD_KEYS_MAX; i++)
		CHECK(pthread_key_create(&keys[i], destroy_value) == 0);
	run_in_thread(use_all_keys, NULL);
	CHECK(destroyed == PTHREAD_KEYS_MAX);
}

/* Comes back in every round the C library grants, with a new block each time. */
static void destroy_again(void *value)
{
	work_give(value, 5000);
	work_all_sizes();
	destroyed++;
	CHECK(pthread_setspecific(keys[0], work_take(5000)) == 0);
}

static void *use_one_key(void *unused)
{
	CHECK(pthread_setspecific(keys[0], work_take(5000)) == 0);
	return NULL;
}

static void destructor_rounds(void)
{
	CHECK(pthread_key_create(&keys[0], destroy_again) == 0);
	for (int i = 0; i < 10; i++)
		run_in_thread(use_one_key, NULL);
	CHECK(destroyed == 10 * PTHREAD_DESTRUCTOR_ITERATIONS);
}

/* What the C library frees on a thread after everything else is over: the texts of strerror and
   dlerror. */
static void *leave_to_libc(void *unused)
{
	CHECK(strlen(strerror(987654)) > 0);
	CHECK(!dlopen("/nowhere/at/all.so", RTLD_NOW));
	CHECK(dlerror());
	CHECK(!dlopen("/nowhere/at/all.so", RTLD_NOW));
	return NULL;
}

static void after_teardown(void)
{
	for (int i = 0; i < 200; i++)
		run_in_thread(leave_to_libc, NULL);
}

/* Blocks that short-lived threads leave behind, freed by the next ones. */
static _Atomic(void *) parcels[64];

static void *come_and_go(void *number)
{
	uintptr_t n = (uintptr_t)number;
	void *kept[20];

	for (size_t i = 0; i < 20; i++)
		kept[i] = work_parcel(16 << (n + i) % 11);
	for (size_t i = 0; i < 20; i++) {
		void *other = atomic_exchange(&parcels[(n * 7 + i * 3) % 64], kept[i]);

		if (other)
			work_open_parcel(other);
	}
	return NULL;
}

static void come_and_go_until(uintptr_t *done, uintptr_t total)
{
	enum { TOGETHER = 4 };
	pthread_t threads[TOGETHER];

	for (; *done < total; *done += TOGETHER) {
		for (uintptr_t i = 0; i < TOGETHER; i++)
			start(&threads[i], come_and_go, (void *)(*done + i));
		for (size_t i = 0; i < TOGETHER; i++)
			finish(threads[i]);
	}
}

static void many_threads(void)
{
	uintptr_t done = 0;
	long before, after;

	come_and_go_until(&done, 2000);
	before = work_resident_kib();
	come_and_go_until(&done, 20000);
	after = work_resident_kib();
	CHECK(after - before < 4096);
}

/* Blocks of one thread that another frees, mixed over many slabs, so that it has some of them still when one of the two
   ends; and then the other does. */
enum { DRIFTS = 16, OF_EACH = 24, DRIFTING = DRIFTS * OF_EACH };
static void *drifting[DRIFTING];

static size_t drift_size(size_t i)
{
	return 700 << i % DRIFTS % 6;
}

static void *take_drifting(void *unused)
{
	for (size_t i = 0; i < DRIFTING; i++)
		drifting[i] = work_take(drift_size(i));
	return NULL;
}

static void *give_drifting(void *from)
{
	for (size_t i = (uintptr_t)from; i < DRIFTING; i += 2)
		work_give(drifting[i], drift_size(i));
	return NULL;
}

/* Half of them before the owner ends, half of them afterwards. */
static pthread_barrier_t turn;

static void *own_drifting(void *unused)
{
	take_drifting(NULL);
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	return NULL;
}

static void *outlive_drifting(void *thread)
{
	pthread_barrier_wait(&turn);
	give_drifting((void *)0);
	pthread_barrier_wait(&turn);
	finish(*(pthread_t *)thread);
	give_drifting((void *)1);
	return NULL;
}

static void drift_rounds(int rounds, bool is_owner_first)
{
	for (int i = 0; i < rounds; i++) {
		pthread_t owner, other;

		if (is_owner_first) {
			start(&owner, own_drifting, NULL);
			start(&other, outlive_drifting, &owner);
			finish(other);
		} else { /* the owner is this thread */
			take_drifting(NULL);
			run_in_thread(give_drifting, (void *)0);
			run_in_thread(give_drifting, (void *)1);
		}
	}
}

static void drifts(bool is_owner_first)
{
	long before;

	CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
	drift_rounds(100, is_owner_first);
	before = work_resident_kib();
	drift_rounds(1000, is_owner_first); /* of 2 MiB each */
	CHECK(work_resident_kib() - before < 4096);
}

static void owners_end(void)
{
	drifts(true);
}

static void senders_end(void)
{
	drifts(false);
}

/* Each thread leaves one block of STREWN among so many that it frees, and asks for larger ones in between. */
enum { HEIRS = 30, SMALL = 34000, STREWN = 31, SMALL_SIZE = 64, OTHERS = 1500, HEIRLOOMS = SMALL / STREWN + 1 };

static void *small[SMALL], *others[OTHERS], *heirlooms[2 * HEIRS][HEIRLOOMS];

static void take_others(size_t size)
{
	for (size_t i = 0; i < OTHERS; i++) {
		others[i] = malloc(size);
		CHECK(others[i]);
		memset(others[i], 1, size);
	}
}

static void give_others(void)
{
	for (size_t i = 0; i < OTHERS; i++)
		free(others[i]);
}

struct heir {
	size_t other_size;
	void **heirlooms;
};

static void *leave_heirlooms(void *heir)
{
	const struct heir *h = heir;
	size_t left = 0;

	for (size_t i = 0; i < SMALL; i++) {
		small[i] = malloc(SMALL_SIZE);
		CHECK(small[i]);
		memset(small[i], 1, SMALL_SIZE);
	}
	for (size_t i = 0; i < SMALL; i++)
		if (i % STREWN == 0)
			h->heirlooms[left++] = small[i];
		else
			free(small[i]);
	take_others(h->other_size);
	give_others();
	return NULL;
}

static void bequeath(size_t other_size, unsigned first)
{
	for (unsigned i = first; i < first + HEIRS; i++) {
		struct heir heir = {other_size, heirlooms[i]};

		take_others(2048);
		give_others();
		run_in_thread(leave_heirlooms, &heir);
	}
}

/* Between them 1920 bytes are free: room for the second of these sizes, not for the first. */
static void strewn_heirlooms(void)
{
	enum { LEFT_KIB = HEIRS * HEIRLOOMS * SMALL_SIZE / 1024 };
	static const size_t other_sizes[] = {2048, 512};
	static void *large[SMALL]; /* so that this thread, too, looks for what the others leave */

	for (size_t i = 0; i < SMALL; i++)
		large[i] = malloc(100);
	for (size_t i = 0; i < 2; i++) {
		long before;

		bequeath(other_sizes[i], 0);
		before = work_resident_kib();
		bequeath(other_sizes[i], HEIRS);
		CHECK(work_resident_kib() - before < 4 * LEFT_KIB);
		for (size_t k = 0; k < 2 * HEIRS * HEIRLOOMS; k++)
			free(heirlooms[k / HEIRLOOMS][k % HEIRLOOMS]);
		memset(heirlooms, 0, sizeof heirlooms);
	}
	for (size_t i = 0; i < SMALL; i++)
		free(large[i]);
}

static void destroy_late(void *value)
{
	work_give(value, 5000);
	for (size_t i = 0; i < 17; i++)
		work_give(work_take(work_sizes[i]), work_sizes[i]);
	CHECK(pthread_setspecific(keys[0], work_take(5000)) == 0);
}

static void *use_key_late(void *unused)
{
	work_give(work_take(100), 100);
	CHECK(pthread_setspecific(keys[0], work_take(5000)) == 0);
	return NULL;
}

/* Threads that allocate after their heap was torn down must not get a new one each. */
static void late_destructors(void)
{
	enum { TOGETHER = 16 };
	pthread_t threads[TOGETHER];
	long before = 0;

	CHECK(pthread_key_create(&keys[0], destroy_late) == 0);
	for (int done = 0; done < 800; done += TOGETHER) {
		for (size_t i = 0; i < TOGETHER; i++)
			start(&threads[i], use_key_late, NULL);
		for (size_t i = 0; i < TOGETHER; i++)
			finish(threads[i]);
		if (done == 0)
			before = work_resident_kib();
	}
	/* What the last round of each took is lost by the program itself: 800 * 5000 bytes. */
	CHECK(work_resident_kib() - before < 4000 + 8192);
}

/* Many alive at once, and all of them leave at the same time. */
static pthread_barrier_t barrier;

static void *meet(void *unused)
{
	struct work_set set;

	for (size_t i = 0; i < 12; i++)
		set.blocks[i] = work_take(work_sizes[i]);
	pthread_barrier_wait(&barrier);
	for (size_t i = 0; i < 12; i++)
		work_give(set.blocks[i], work_sizes[i]);
	return NULL;
}

static void many_at_once(void)
{
	enum { COUNT = 500 };
	static pthread_t threads[COUNT];

	CHECK(pthread_barrier_init(&barrier, NULL, COUNT) == 0);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < COUNT; i++) {
			int error = pthread_create(&threads[i], &small_stack, meet, NULL);
			if (error == EAGAIN)
				case_skip(); /* so many there cannot be */
			CHECK(error == 0);
		}
		for (size_t i = 0; i < COUNT; i++)
			finish(threads[i]);
	}
}

static void *detach_and_work(void *left)
{
	work_give(work_take(2000), 2000);
	atomic_fetch_sub((atomic_int *)left, 1);
	return NULL;
}

static void detached(void)
{
	atomic_int left = 1000;

	for (int i = 0; i < 1000; i++) {
		pthread_t thread;

		start(&thread, detach_and_work, &left);
		CHECK(pthread_detach(thread) == 0);
		if (i % 50 == 49)
			usleep(2000); /* not all of them at once */
	}
	while (left)
		usleep(1000);
}

/* Cancelled anywhere but within the allocator, which is no cancellation point. */
static void *work_until_cancelled(void *unused)
{
	for (;;) {
		work_give(work_take(700), 700);
		pthread_testcancel();
	}
	return NULL;
}

static void cancelled(void)
{
	for (int i = 0; i < 100; i++) {
		pthread_t thread;

		start(&thread, work_until_cancelled, NULL);
		usleep(200);
		CHECK(pthread_cancel(thread) == 0);
		finish(thread);
	}
	work_all_sizes();
}

/* Cancelled at any instruction of a routine that is about to return: what comes after it is not the program's. */
static void *return_amid_cancellation(void *about_to)
{
	void *blocks[40];

	for (size_t i = 0; i < 40; i++)
		blocks[i] = work_take(16 + i * 150);
	for (size_t i = 0; i < 40; i++)
		work_give(blocks[i], 16 + i * 150);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	*(atomic_bool *)about_to = true;
	return NULL;
}

static void cancelled_when_returning(void)
{
	for (unsigned i = 0; i < 2000; i++) {
		atomic_bool about_to = false;
		pthread_t thread;

		start(&thread, return_amid_cancellation, &about_to);
		while (!about_to) {
		}
		for (volatile unsigned wait = i * 7919 % 4000; wait > 0; wait--) {
		}
		CHECK(pthread_cancel(thread) == 0);
		finish(thread);
		if (i % 16 == 0)
			work_all_sizes();
	}
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"keys_all_used_by_program_work", all_keys},
		{"key_destructor_rounds_all_serve", destructor_rounds},
		{"libc_freeing_after_teardown_works", after_teardown},
		{"threads_20000_leave_no_growth", many_threads},
		{"threads_that_end_amid_frees_of_others_leave_no_growth", senders_end},
		{"threads_that_end_while_others_free_leave_no_growth", owners_end},
		{"threads_that_leave_strewn_blocks_leave_little_more", strewn_heirlooms},
		{"threads_800_with_late_destructors_stay_small", late_destructors},
		{"threads_500_at_once_leave_together", many_at_once},
		{"threads_detached_come_and_go", detached},
		{"threads_cancelled_leave_service", cancelled},
		{"threads_cancelled_when_returning_leave_service", cancelled_when_returning},
		{NULL, NULL},
	};

	pthread_attr_init(&small_stack);
	pthread_attr_setstacksize(&small_stack, 128 << 10);
	return cases_main(argc, argv, cases);
}
