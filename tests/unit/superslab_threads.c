/* SPDX-License-Identifier: MIT */
/* Which SuperSlabs threads take clean granules from. */
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings.h"
#include "common.h"
#include "fixture.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/purge.h"
#include "space/superslab.h"

enum { THREADS = 16, HUGE_AFTER = 16 /* SuperSlabs */, MOST = 4096 };

static struct span spans[MOST];
static _Atomic unsigned turn;

/* They live at once, so that each is somewhere else, but ask one after the other. */
static void take_one_in_turn(unsigned index)
{
	while (atomic_load(&turn) != index)
		sched_yield();
	CHECK(span_alloc(1, SPAN_DENSE, 0, &spans[index]));
	atomic_fetch_add(&turn, 1);
	while (atomic_load(&turn) != THREADS)
		sched_yield();
}

static void each_takes_one(void)
{
	atomic_store(&turn, 0);
	run_threads(THREADS, take_one_in_turn);
}

static void give_back(unsigned n)
{
	while (n > 0)
		span_free(&spans[--n], 0);
	purge_all(0);
	assert_int_equal(hak_space.superslabs, 0);
	assert_null(superslab_check());
}

/* What is remembered of waiting is forgotten. */
static void calm_down(void)
{
	for (int i = 0; i < 2000; i++) {
		space_acquire();
		lock_release(space_lock());
	}
}

static void threads_that_never_wait_share(void **state)
{
	each_takes_one();
	assert_int_equal(hak_space.superslabs, 1);
	give_back(THREADS);
}

static void each_has_a_superslab_of_its_own(void **state)
{
	fixture_contend();
	each_takes_one();
	assert_int_equal(hak_space.superslabs, THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		assert_true(spans[i].zero);
	/* One thread stays where it is, which may be where one was that has ended. */
	for (unsigned i = THREADS; i < THREADS + SUPERSLAB_GRANULES; i++)
		assert_true(span_alloc(1, SPAN_DENSE, 0, &spans[i]));
	assert_in_range(hak_space.superslabs, THREADS, THREADS + 1);
	give_back(THREADS + SUPERSLAB_GRANULES);
}

/* So the heap is not as large as it seems. */
static void superslabs_of_threads_make_no_large_heap(void **state)
{
	unsigned n = THREADS;

	fixture_contend();
	each_takes_one();
	assert_int_equal(hak_space.superslabs, THREADS);
	for (; n < THREADS + HUGE_AFTER - 2; n++) {
		assert_true(span_alloc(SUPERSLAB_GRANULES, SPAN_DENSE, 0, &spans[n]));
		assert_false(spans[n].ss->huge);
	}
	assert_true(hak_space.superslabs > HUGE_AFTER);
	give_back(n);
}

/* Only those that are there: at most the last is this thread's. */
static void large_heap_after_threads_gave_all_back(void **state)
{
	unsigned n = 0;

	fixture_contend();
	each_takes_one();
	give_back(THREADS);
	while (n < HUGE_AFTER + 2)
		assert_true(span_alloc(SUPERSLAB_GRANULES, SPAN_DENSE, 0, &spans[n++]));
	assert_true(spans[n - 1].ss->huge);
	give_back(n);
}

static void take_what_was_left(unsigned index)
{
	CHECK(span_alloc(12, SPAN_DENSE, 0, &spans[2]));
}

/* What was too short for one is long enough for another. */
static void rest_of_a_superslab_serves_others(void **state)
{
	fixture_contend();
	assert_true(span_alloc(SUPERSLAB_GRANULES - 12, SPAN_DENSE, 0, &spans[0]));
	assert_true(span_alloc(SUPERSLAB_GRANULES - 12, SPAN_DENSE, 0, &spans[1]));
	run_threads(1, take_what_was_left);
	assert_ptr_equal(spans[2].ss, spans[0].ss);
	give_back(3);
}

/* Where no more may be mapped. */
static void use_all_there_is(unsigned n)
{
	hak_settings.limit = os_mapped();
	while (n < MOST && span_alloc(1, SPAN_DENSE, 0, &spans[n]))
		n++;
	hak_settings.limit = 0;
	assert_true(n < MOST);
	assert_int_equal(n, hak_space.live);
	assert_int_equal(n, hak_space.superslabs * SUPERSLAB_GRANULES);
	give_back(n);
}

static void others_granules_rather_than_none(void **state)
{
	fixture_contend();
	each_takes_one();
	use_all_there_is(THREADS);
}

static bool forks_amid_unmap, refuses_every_third;

/* The child, whose thread had a SuperSlab of its own that is being unmapped, has threads that wait, too. */
static void fork_and_wait(void)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		struct span span;
		lock_reset(space_lock());
		superslab_rebuild();
		fixture_contend();
		_exit(superslab_check() == NULL && span_alloc(1, SPAN_DENSE, 0, &span) && span.base != NULL &&
		      superslab_check() == NULL ? 0 : 1);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

bool __wrap_os_unmap(void *addr, size_t size);
bool __real_os_unmap(void *addr, size_t size);
bool __wrap_os_unmap(void *addr, size_t size)
{
	if (forks_amid_unmap) {
		forks_amid_unmap = false;
		fork_and_wait();
	}
	if (refuses_every_third && (uintptr_t)addr / SUPERSLAB % 3 == 0)
		return false;
	return __real_os_unmap(addr, size);
}

static void fork_child_takes_nothing_that_is_being_unmapped(void **state)
{
	fixture_contend();
	assert_true(span_alloc(1, SPAN_DENSE, 0, &spans[0]));
	forks_amid_unmap = true;
	give_back(1);
	assert_false(forks_amid_unmap);
}

/* Number unmapped, the lock dropped after each portion. */
static size_t release_in_portions(size_t *passedp)
{
	enum { PORTION = 32 };
	size_t n, all = 0;

	*passedp = 0;
	do {
		space_acquire();
		n = superslab_release_empty(passedp);
		lock_release(space_lock());
		assert_true(n <= PORTION);
		all += n;
	} while (n != 0);
	return all;
}

static void many_are_unmapped_in_portions(void **state)
{
	enum { MANY = 100 };
	size_t passed, all;

	for (unsigned i = 0; i < MANY; i++)
		assert_true(span_alloc(SUPERSLAB_GRANULES, SPAN_DENSE, 0, &spans[i]));
	for (unsigned i = 0; i < MANY; i++)
		span_free(&spans[i], 0);
	refuses_every_third = true;
	all = release_in_portions(&passed);
	refuses_every_third = false;
	assert_int_equal(all + passed, MANY);
	assert_in_range(passed, MANY / 4, MANY / 2);
	assert_int_equal(hak_space.superslabs, passed);
	assert_int_equal(release_in_portions(&passed), MANY - all);
	assert_int_equal(passed, 0);
	assert_int_equal(hak_space.superslabs, 0);
	assert_null(superslab_check());
}

/* Below a limit what one has for its own others may need. */
static void threads_share_below_a_limit(void **state)
{
	hak_settings.limit = HAK_GIB;
	fixture_contend();
	each_takes_one();
	hak_settings.limit = 0;
	assert_int_equal(hak_space.superslabs, 1);
	give_back(THREADS);
}

/* Else each that waits would have the system asked in vain again. */
static void threads_share_once_memory_ran_out(void **state)
{
	fixture_contend();
	use_all_there_is(0);
	calm_down();
	fixture_contend();
	each_takes_one();
	assert_int_equal(hak_space.superslabs, 1);
	give_back(THREADS);
}

/* A fork child has one thread. */
static void rebuilt_space_is_shared(void **state)
{
	fixture_contend();
	each_takes_one();
	superslab_rebuild();
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(spans[i].ss->place, 0);
	assert_true(span_alloc(1, SPAN_DENSE, 0, &spans[THREADS]));
	assert_true(span_alloc(SUPERSLAB_GRANULES - 1, SPAN_DENSE, 0, &spans[THREADS + 1]));
	assert_true(hak_space.superslabs <= THREADS);
	give_back(THREADS + 2);
}

/* While dirty ones are few they are for those who need them. */
static void several_clean_granules_at_once_if_none_is_dirty(void **state)
{
	enum { AT_ONCE = 4 };

	assert_int_equal(span_alloc_several(SPAN_DENSE, 1024, spans, AT_ONCE), AT_ONCE);
	for (unsigned i = 0; i < AT_ONCE; i++) {
		assert_true(spans[i].zero);
		assert_ptr_equal(spans[i].ss, spans[0].ss);
		for (unsigned j = 0; j < i; j++)
			assert_ptr_not_equal(spans[i].base, spans[j].base);
	}
	assert_int_equal(hak_space.live, AT_ONCE);
	span_free(&spans[AT_ONCE - 1], GRANULE);
	span_free(&spans[AT_ONCE - 2], GRANULE);
	assert_int_equal(hak_space.dirty, 2);
	assert_int_equal(span_alloc_several(SPAN_DENSE, 1024, spans + AT_ONCE - 2, AT_ONCE), 1);
	assert_int_equal(hak_space.dirty, 1);
	give_back(AT_ONCE - 1);
}

static int start_empty(void **state)
{
	purge_all(0);
	calm_down();
	superslab_rebuild();
	return hak_space.superslabs == 0 && hak_space.live == 0 ? 0 : -1;
}

#define TEST(name) cmocka_unit_test_setup(name, start_empty)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(threads_that_never_wait_share),
		TEST(several_clean_granules_at_once_if_none_is_dirty),
		TEST(each_has_a_superslab_of_its_own),
		TEST(superslabs_of_threads_make_no_large_heap),
		TEST(large_heap_after_threads_gave_all_back),
		TEST(rest_of_a_superslab_serves_others),
		TEST(others_granules_rather_than_none),
		TEST(rebuilt_space_is_shared),
		TEST(fork_child_takes_nothing_that_is_being_unmapped),
		TEST(many_are_unmapped_in_portions),
		TEST(threads_share_below_a_limit),
		TEST(threads_share_once_memory_ran_out),
	};

	return UNIT_RUN(tests);
}
