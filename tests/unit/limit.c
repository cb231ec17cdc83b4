/* SPDX-License-Identifier: MIT */
/* The system layer's count of what is mapped, and the limit on it. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/bits.h"
#include "base/settings.h"
#include "../memcheck.h"
#include "common.h"
#include "os/os.h"
#include "space/pagemap.h"

enum { MANY = 64 };

static size_t before;

static int note_mapped(void **state)
{
	hak_settings.limit = 0;
	before = os_mapped();
	return 0;
}

static int lift_limit(void **state)
{
	hak_settings.limit = 0;
	return os_mapped() == before ? 0 : -1;
}

static void mapped_any_call_counted(void **state)
{
	char *p = os_map(NULL, 3 * GRANULE), *q = os_map_aligned(5 * GRANULE, 16 * GRANULE);

	assert_true(p != NULL && q != NULL);
	assert_int_equal(os_mapped() - before, 8 * GRANULE);
	assert_true(os_unmap(p + GRANULE, 2 * GRANULE));
	assert_int_equal(os_mapped() - before, 6 * GRANULE);
	assert_true(os_unmap(q, 5 * GRANULE));
	assert_int_equal(os_mapped() - before, GRANULE);
	assert_true(os_unmap(p, GRANULE));
}

static void mapped_refused_by_system_not_counted(void **state)
{
	uint64_t most = os_counters.mapped_most;

	assert_null(os_map(NULL, (size_t)PTRDIFF_MAX & ~(size_t)(GRANULE - 1)));
	assert_null(os_map_aligned((size_t)1 << 62, GRANULE));
	assert_int_equal(os_mapped(), before);
	assert_int_equal(os_counters.mapped_most, most);
}

static void refused_to_be_unmapped_counted(void **state)
{
	char *p = os_map(NULL, GRANULE);

	assert_non_null(p);
	assert_false(os_unmap(p + 1, GRANULE));
	assert_int_equal(os_mapped() - before, GRANULE);
	assert_true(os_unmap(p, GRANULE));
}

static void limit_passed_refused(void **state)
{
	char *p;

	hak_settings.limit = before + MANY * GRANULE;
	assert_null(os_map(NULL, (MANY + 1) * GRANULE));
	assert_null(os_map_aligned((MANY + 1) * GRANULE, 2 * GRANULE));
	p = os_map(NULL, MANY * GRANULE);
	assert_non_null(p);
	assert_null(os_map(NULL, os_facts.page_size));
	assert_int_equal(os_grow(p, MANY * GRANULE, (MANY + 1) * GRANULE), GROWTH_NO_ROOM);
	assert_true(os_unmap(p, MANY * GRANULE));
}

/* A block of more than half of the limit can grow: for a moment there are two mappings, only one of
   which holds anything. */
static void limit_passed_by_what_moves(void **state)
{
	const size_t old = 40 * GRANULE, new = 60 * GRANULE;
	char *p, *target, *other;

	hak_settings.limit = before + MANY * GRANULE;
	p = os_map(NULL, old);
	assert_non_null(p);
	assert_null(os_map_target((MANY + 1) * GRANULE, GRANULE, old));
	target = os_map_target(new, GRANULE, old);
	assert_non_null(target);
	other = os_map(NULL, MANY * GRANULE - new); /* which leaves room for another thread meanwhile */
	assert_non_null(other);
	assert_true(os_unmap(other, MANY * GRANULE - new));
	assert_int_equal(os_move(p, old, new, target, false), MOVE_DONE);
	assert_int_equal(os_mapped() - before, new);
	assert_true(os_unmap(target, new));
}

/* The system's: of memory that may be written to, so much more. Gives the one that held. */
static struct rlimit limit_data(size_t more)
{
	struct rlimit all = {0}, limit;
	char line[128];
	size_t kib = 0;
	FILE *status = fopen("/proc/self/status", "re");

	assert_non_null(status);
	while (fgets(line, sizeof line, status) != NULL && sscanf(line, "VmData: %zu", &kib) != 1)
		;
	fclose(status);
	if (kib == 0 || on_memcheck() || getrlimit(RLIMIT_DATA, &all) != 0)
		skip();
	limit = all;
	limit.rlim_cur = kib * 1024 + more;
	assert_int_equal(setrlimit(RLIMIT_DATA, &limit), 0);
	/* An emulator may not hold the program to it. */
	void *beyond = mmap(NULL, 2 * more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (beyond != MAP_FAILED) {
		munmap(beyond, 2 * more);
		setrlimit(RLIMIT_DATA, &all);
		skip();
	}
	return all;
}

/* Likewise where the system has the limit: the target takes no memory. */
static void system_limit_not_passed_by_what_moves(void **state)
{
	const size_t old = 1024 * GRANULE, new = old + 16 * GRANULE;
	struct rlimit all = limit_data(new + 64 * GRANULE);
	char *p = os_map(NULL, old), *target = p != NULL ? os_map_target(new, GRANULE, old) : NULL;
	enum os_move_result result = target != NULL ? os_move(p, old, new, target, false) : MOVE_REFUSED;

	assert_int_equal(setrlimit(RLIMIT_DATA, &all), 0);
	assert_non_null(p);
	assert_non_null(target);
	assert_int_equal(result, MOVE_DONE);
	memset(target, 1, new);
	assert_true(os_unmap(target, new));
}

/* The next try for as much waits, but for the last that can be made. */
static void move_refused_by_the_system_waits_unless_it_must(void **state)
{
	const size_t old = 64 * GRANULE, new = 1024 * GRANULE;
	struct rlimit all = limit_data(2 * old);
	char *p = os_map(NULL, old), *target = p != NULL ? os_map_target(new, GRANULE, old) : NULL;
	enum os_move_result result = target != NULL ? os_move(p, old, new, target, false) : MOVE_REFUSED;

	assert_int_equal(setrlimit(RLIMIT_DATA, &all), 0);
	assert_int_equal(result, MOVE_TARGET_LOST);
	target = os_map_target(new, GRANULE, old);
	assert_int_equal(os_move(p, old, new, target, false), MOVE_REFUSED);
	assert_int_equal(os_move(p, old, new, target, true), MOVE_DONE);
	assert_true(os_unmap(target, new));
}

static void move_refused_leaves_both_counted(void **state)
{
	char *p = os_map(NULL, GRANULE);
	char *target = os_map_target(2 * GRANULE, GRANULE, GRANULE);

	assert_true(p != NULL && target != NULL);
	/* An address amid a page is found out before anything is done. */
	assert_int_equal(os_move(p + 1, GRANULE, 2 * GRANULE, target, false), MOVE_REFUSED);
	os_target_stays(GRANULE);
	assert_int_equal(os_mapped() - before, 3 * GRANULE);
	assert_true(os_unmap(p, GRANULE));
	assert_true(os_unmap(target, 2 * GRANULE));
}

/* An emulator looks for room behind what it mapped last. */
static bool system_goes_on_and_on(void)
{
	enum { ROUNDS = 64 };
	uintptr_t low = UINTPTR_MAX, high = 0;

	for (int i = 0; i < ROUNDS; i++) {
		void *p = mmap(NULL, HAK_MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		low = min_size(low, (uintptr_t)p);
		high = max_size(high, (uintptr_t)p);
		munmap(p, HAK_MIB);
	}
	return high - low >= (ROUNDS - 1) * HAK_MIB;
}

/* Mappings that come and go stay where they are: what describes addresses must not grow with time. Each may have an
   alignment to itself. */
static void unmapped_addresses_used_again_at(size_t align, unsigned least, unsigned rounds)
{
	enum { LIVE = 8 };
	char *live[LIVE];
	size_t sizes[LIVE], most = 0;
	uintptr_t low = UINTPTR_MAX, high = 0;

	if (system_goes_on_and_on())
		skip();
	for (unsigned i = 0; i < LIVE; i++) {
		sizes[i] = 20 * least / 8 * GRANULE;
		assert_non_null(live[i] = os_map_aligned(sizes[i], align));
	}
	for (unsigned i = 0; i < rounds; i++) {
		unsigned at = i * 5 % LIVE;
		assert_true(os_unmap(live[at], sizes[at]));
		sizes[at] = (least + i * 7 % 24 * least / 8) * GRANULE;
		live[at] = os_map_aligned(sizes[at], align);
		assert_non_null(live[at]);
		assert_int_equal((uintptr_t)live[at] % align, 0);
		low = min_size(low, (uintptr_t)live[at]);
		high = max_size(high, (uintptr_t)live[at]);
		most = max_size(most, sizes[at]);
	}
	for (unsigned j = 0; j < LIVE; j++)
		assert_true(os_unmap(live[j], sizes[j]));
	assert_true(high - low < 16 * LIVE * max_size(most, align));
}

static void unmapped_addresses_used_again(void **state)
{
	unmapped_addresses_used_again_at(GRANULE, 8, 20000);
}

static void unmapped_addresses_used_again_where_aligned_more(void **state)
{
	unmapped_addresses_used_again_at(2 * HAK_MIB, 4096, 5000);
}

static void unmapped_addresses_used_again_where_shorter_than_aligned(void **state)
{
	if (on_memcheck())
		skip(); /* what is trimmed to be aligned it puts far from the rest */
	unmapped_addresses_used_again_at(HAK_MIB, 8, 5000);
	unmapped_addresses_used_again_at(2 * HAK_MIB, 1, 5000);
	unmapped_addresses_used_again_at(64 * HAK_MIB, 1, 5000);
}

/* The limit holds whoever asks, and once all is given back nothing is left counted. */
static void use_and_give_back(unsigned index)
{
	for (int round = 0; round < 2000; round++) {
		char *p = os_map(NULL, 20 * GRANULE);
		CHECK(os_mapped() >= before);
		CHECK(p == NULL || os_unmap(p, 20 * GRANULE));
	}
}

static void limit_contended_balances(void **state)
{
	hak_settings.limit = before + MANY * GRANULE;
	run_threads(4, use_and_give_back);
	hak_settings.limit = 0;
}

/* Nor does a request that is too large make others fail that are not. */
static void ask_too_much_or_little(unsigned index)
{
	for (int round = 0; round < 20000; round++)
		if (index == 0) {
			CHECK(os_map(NULL, 4 * MANY * GRANULE) == NULL);
		} else {
			char *p = os_map(NULL, GRANULE);
			CHECK(p != NULL && os_unmap(p, GRANULE));
		}
}

static void limit_passed_by_one_kept_by_others(void **state)
{
	hak_settings.limit = before + MANY * GRANULE;
	run_threads(3, ask_too_much_or_little);
	hak_settings.limit = 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, note_mapped, lift_limit)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(mapped_any_call_counted),
		TEST(mapped_refused_by_system_not_counted),
		TEST(refused_to_be_unmapped_counted),
		TEST(limit_passed_refused),
		TEST(limit_passed_by_what_moves),
		TEST(system_limit_not_passed_by_what_moves),
		TEST(move_refused_by_the_system_waits_unless_it_must),
		TEST(move_refused_leaves_both_counted),
		TEST(limit_contended_balances),
		TEST(limit_passed_by_one_kept_by_others),
		TEST(unmapped_addresses_used_again),
		TEST(unmapped_addresses_used_again_where_aligned_more),
		TEST(unmapped_addresses_used_again_where_shorter_than_aligned),
	};

	return UNIT_RUN(tests);
}
