/* SPDX-License-Identifier: MIT */
/* hakmem.h's functions that look inside: what they tell is what is there. */
#include "common.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem.h"

enum { COUNT = 1000 };
static void *blocks[COUNT];

static const struct hak_stats_class *class_of(const struct hak_stats *stats, size_t size)
{
	for (size_t sc = 1; sc < stats->classes; sc++)
		if (stats->by_class[sc].size >= size)
			return &stats->by_class[sc];
	fail();
	return NULL;
}

static struct hak_stats get(void)
{
	struct hak_stats stats;

	assert_int_equal(hak_stats_get(&stats, sizeof stats), 0);
	assert_int_equal(stats.size, sizeof stats);
	return stats;
}

static void take(size_t size)
{
	for (unsigned i = 0; i < COUNT; i++)
		assert_non_null(blocks[i] = malloc(size));
}

static void give_back(void)
{
	for (unsigned i = 0; i < COUNT; i++)
		free(blocks[i]);
}

static void stats_small_blocks_exact(void **state)
{
	static const size_t classes[] = {2000, 4000, 30000};

	for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
		struct hak_stats before = get();
		take(classes[i]);
		struct hak_stats full = get();
		give_back();
		struct hak_stats after = get();
		size_t size = class_of(&full, classes[i])->size;
		assert_int_equal(class_of(&full, size)->live - class_of(&before, size)->live, COUNT);
		assert_int_equal(full.live - before.live, COUNT * size);
		assert_int_equal(full.live_blocks - before.live_blocks, COUNT);
		assert_int_equal(after.live, before.live);
		assert_int_equal(after.live_blocks, before.live_blocks);
	}
}

static void stats_large_blocks_by_band(void **state)
{
	struct hak_stats before = get();
	/* The rest of the last page is room for what level 2 writes behind a block. */
	void *large = malloc(100 * KIB - 1000), *l25 = malloc(600 * KIB - 1000), *l2 = malloc(3 * MIB - 1000);
	struct hak_stats full = get();

	assert_true(large && l25 && l2);
	assert_int_equal(full.large_blocks - before.large_blocks, 1);
	assert_int_equal(full.large - before.large, 100 * KIB);
	assert_int_equal(full.l25 - before.l25, 600 * KIB);
	assert_int_equal(full.l2 - before.l2, 3 * MIB);
	assert_true(full.unused - before.unused >= 3 * 900);
	free(large);
	free(l25);
	free(l2);
	struct hak_stats after = get();
	assert_int_equal(after.live_blocks, before.live_blocks);
	assert_true(after.bigcache >= before.bigcache);
}

static void *free_all(void *arg)
{
	free(malloc(2000)); /* so that it has a heap */
	give_back();
	return arg;
}

static void stats_freed_by_another_thread_not_live(void **state)
{
	pthread_t thread;
	struct hak_stats before = get();

	take(3000);
	assert_int_equal(pthread_create(&thread, NULL, free_all, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	struct hak_stats after = get();
	size_t size = class_of(&after, 3000)->size;
	assert_int_equal(class_of(&after, size)->live, class_of(&before, size)->live);
	if (has_stats())
		/* The first few of a size may be the nursery's, which is no thread's. */
		assert_in_range(after.remote_blocks - before.remote_blocks, COUNT - 4, COUNT);
}

/* In such an order that the thread collects them by slab and in messages, and has not sent all when it looks. */
static void *free_mixed_and_look(void *arg)
{
	free(malloc(4000));
	for (unsigned i = 0; i < COUNT; i++)
		free(blocks[i * 377 % COUNT]);
	*(struct hak_stats *)arg = get();
	assert_int_equal(hak_check(), 0);
	return NULL;
}

static void stats_freed_by_living_thread_not_live(void **state)
{
	pthread_t thread;
	struct hak_stats before = get(), after;

	take(4000);
	assert_int_equal(pthread_create(&thread, NULL, free_mixed_and_look, &after), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	size_t size = class_of(&after, 4000)->size;
	assert_int_equal(class_of(&after, size)->live, class_of(&before, size)->live);
}

static void stats_shorter_structure_filled_no_further(void **state)
{
	struct hak_stats stats;
	size_t size = offsetof(struct hak_stats, live_blocks);

	memset(&stats, 0xaa, sizeof stats);
	assert_int_equal(hak_stats_get(&stats, size), 0);
	assert_int_equal(stats.size, size);
	assert_true(stats.live > 0 && stats.live < 1 << 30);
	assert_true(stats.live_blocks == (uint64_t)0xaaaaaaaaaaaaaaaa);
	errno = 0;
	assert_int_equal(hak_stats_get(&stats, 8), -1);
	assert_int_equal(errno, EINVAL);
}

static void stats_json_cut_where_told(void **state)
{
	static char whole[65536], part[100];
	size_t length = hak_stats_json(whole, sizeof whole);

	assert_int_equal(length, strlen(whole));
	assert_true(length > 1000 && whole[0] == '{' && whole[length - 1] == '\n');
	assert_true(hak_stats_json(NULL, 0) > 1000);
	assert_true(hak_stats_json(part, sizeof part) > 1000);
	assert_int_equal(strlen(part), sizeof part - 1);
	assert_memory_equal(part, whole, 40);
}

static void ignore(void *arg, const char *text, size_t length)
{
}

static void stats_write_unknown_format_refused(void **state)
{
	struct hak_stats stats = get();

	errno = 0;
	assert_int_equal(hak_stats_write(&stats, (enum hak_stats_format)99, ignore, NULL), -1);
	assert_int_equal(errno, EINVAL);
}

static int secure_level(void)
{
	return getenv("HAKMEM_SECURE") != NULL ? atoi(getenv("HAKMEM_SECURE")) : 0;
}

static void mallinfo2_agrees_with_stats(void **state)
{
	enum { BIG = 4 << 20 };
	free(calloc(1, BIG)); /* BigCache keeps it, or a quarantine */
	struct mallinfo2 info = mallinfo2();
	struct hak_stats stats = get();

	assert_true(stats.bigcache >= BIG || secure_level() >= 2);
	assert_true(info.uordblks + info.fordblks <= info.arena);
	assert_int_equal(info.arena + info.hblkhd, stats.committed);
	assert_int_equal(info.uordblks + info.hblkhd, stats.live);
	assert_int_equal(info.hblkhd, stats.l25 + stats.l2);
	assert_int_equal(info.hblks, stats.l25_blocks + stats.l2_blocks);
	assert_int_equal(info.fordblks, stats.cached + stats.slab_free + stats.slab_fresh + stats.mosaic_free +
	                 stats.retained);
	assert_int_equal(info.keepcost, stats.dirty);
}

struct sum {
	size_t blocks, bytes, other_sizes;
	void *wanted;
	int found;
};

static int add(const struct hak_area *area, void *arg)
{
	struct sum *sum = arg;

	if (area->kind == HAK_AREA_SLAB)
		return 0;
	sum->blocks++;
	sum->bytes += area->size;
	sum->other_sizes += area->size != hak_usable_size(area->start);
	sum->found += area->start == sum->wanted;
	return 0;
}

static void visit_agrees_with_stats(void **state)
{
	take(1777);
	for (unsigned i = 0; i < COUNT; i += 3) {
		free(blocks[i]);
		blocks[i] = NULL;
	}
	struct sum sum = {.wanted = blocks[1]}, freed = {.wanted = malloc(1777)};
	free(freed.wanted);
	struct hak_stats stats = get();
	int level = secure_level();
	assert_int_equal(hak_heap_visit(add, &sum), 0);
	assert_int_equal(sum.blocks, stats.live_blocks);
	assert_int_equal(sum.other_sizes, 0);
	if (level >= 2) /* what blocks end with counts as live, but is not the program's */
		assert_true(sum.bytes <= stats.live);
	else
		assert_int_equal(sum.bytes, stats.live);
	assert_int_equal(sum.found, 1);
	assert_int_equal(hak_heap_visit(add, &freed), 0);
	assert_int_equal(freed.found, 0);
	assert_int_equal(hak_check(), 0);
	give_back();
	assert_int_equal(hak_check(), 0);
}

/* What is freed on and on, here and there, empties the thread's bin at once in the end; the few that stay are live. */
static void survivors_of_a_burst_live(void **state)
{
	enum { MANY = 100000, STAY = 500 };
	static void *many[MANY];
	uint64_t random = 1;
	struct hak_stats before = get(), after;

	for (unsigned i = 0; i < MANY; i++)
		assert_non_null(many[i] = malloc(100));
	for (unsigned i = MANY - 1; i > 0; i--) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		unsigned other = (unsigned)(random >> 33) % (i + 1);
		void *block = many[i];
		many[i] = many[other];
		many[other] = block;
	}
	for (unsigned i = STAY; i < MANY; i++)
		free(many[i]);
	after = get();
	size_t size = class_of(&after, hak_usable_size(many[0]))->size;
	assert_int_equal(class_of(&after, size)->live - class_of(&before, size)->live, STAY);
	for (unsigned i = 0; i < STAY; i++)
		free(many[i]);
	after = get();
	assert_int_equal(class_of(&after, size)->live, class_of(&before, size)->live);
}

enum { STOP = 7 };

/* Ends at the tenth block. */
static int stop_at_tenth(const struct hak_area *area, void *arg)
{
	unsigned *seen = arg;

	return area->kind == HAK_AREA_BLOCK && ++*seen == 10 ? STOP : 0;
}

/* Its own blocks come and go, of many sizes; one of ours in so many goes. */
static int allocate_and_free(const struct hak_area *area, void *arg)
{
	unsigned *seen = arg;
	void *small = malloc(*seen % 5000 + 1), *large = *seen % 50 == 0 ? malloc(100000) : NULL;

	assert_non_null(small);
	if (area->kind == HAK_AREA_BLOCK && ++*seen % 3 == 0 && *seen / 3 < COUNT) {
		free(blocks[*seen / 3]);
		blocks[*seen / 3] = NULL;
	}
	free(small);
	free(large);
	return 0;
}

static void visit_stopped_where_told(void **state)
{
	unsigned seen = 0;

	take(2000);
	errno = ODD_ERRNO;
	assert_int_equal(hak_heap_visit(stop_at_tenth, &seen), STOP);
	assert_int_equal(seen, 10);
	assert_int_equal(errno, ODD_ERRNO);
	give_back();
}

static void visitor_may_allocate_and_free(void **state)
{
	unsigned seen = 0;

	take(2000);
	assert_int_equal(hak_heap_visit(allocate_and_free, &seen), 0);
	assert_true(seen >= COUNT / 2);
	assert_int_equal(hak_check(), 0);
	give_back();
	assert_int_equal(hak_check(), 0);
}

static void profile_calls_refuse_what_they_say(void **state)
{
	enum { LONGEST = 511 };
	char path[LONGEST + 2];

	/* Of short names, in folders that are not there. */
	for (unsigned i = 0; i < sizeof path; i++)
		path[i] = i % 8 == 0 ? '/' : 'x';
	path[LONGEST] = '\0';
	errno = ODD_ERRNO;
	assert_int_equal(hak_profile_start(0), EINVAL);
	assert_int_equal(hak_profile_start(GIB + 1), EINVAL);
	assert_int_equal(hak_profile_write("/dev/null"), ENODATA);
	if (secure_level() == 0) {
		assert_int_equal(hak_profile_start(GIB), 0);
		assert_int_equal(hak_profile_start(4096), EBUSY);
		assert_int_equal(hak_profile_write("/dev/null"), 0);
		assert_int_equal(hak_profile_write("/nowhere/profile"), ENOENT);
		assert_int_equal(hak_profile_write(path), ENOENT);
		path[LONGEST] = 'x';
		path[LONGEST + 1] = '\0';
		assert_int_equal(hak_profile_write(path), ENAMETOOLONG);
		hak_profile_stop();
		assert_int_equal(hak_profile_write("/dev/null"), 0);
	} else {
		assert_int_equal(hak_profile_start(4096), ENOTSUP);
	}
	assert_int_equal(errno, ODD_ERRNO);
}

static unsigned mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned lines = 0;

	assert_non_null(maps);
	for (int c; (c = getc(maps)) != EOF;)
		lines += c == '\n';
	fclose(maps);
	return lines;
}

/* What is larger than any address space, or than the machine's memory unless the system lends what it has not, is refused
   before anybody gives something back for it. */
static void impossible_request_caches_kept(void **state)
{
	static const size_t impossible[] = {(size_t)1 << 46, (size_t)1 << 47, (size_t)1 << 48, (size_t)1 << 57,
		(size_t)1 << 62};
	void *small = malloc(100), *large = malloc(5 * MIB), *lent = malloc(hidden(impossible[0]));
	hak_heap_t *heap = hak_heap_new();
	void *of_heap = hak_heap_malloc(heap, 100);

	free(lent);
	assert_true(small && large && of_heap);
	fill(small, 100, 1);
	fill(large, 5 * MIB, 2);
	take(2000);
	give_back();
	free(malloc(3 * MIB));
	unsigned before_mappings = mappings();
	struct hak_stats before = get();
	for (size_t i = lent != NULL; i < sizeof impossible / sizeof *impossible; i++) {
		size_t size = hidden(impossible[i]);
		errno = 0;
		assert_true(!malloc(size) && errno == ENOMEM);
		errno = 0;
		assert_true(!calloc(size / 8, 8) && errno == ENOMEM);
		errno = 0;
		assert_true(!realloc(small, size) && errno == ENOMEM);
		errno = 0;
		assert_true(!realloc(large, size) && errno == ENOMEM);
		errno = 0;
		assert_true(!aligned_alloc(4096, size) && errno == ENOMEM);
		errno = 0;
		assert_true(i == 0 || (!hak_aligned_alloc(size, 100) && errno == ENOMEM)); /* such an address there may be */
		errno = 0;
		assert_true(!hak_heap_malloc(heap, size) && errno == ENOMEM);
		errno = 0;
		assert_true(!hak_heap_calloc(heap, size / 8, 8) && errno == ENOMEM);
		errno = 0;
		assert_true(!hak_heap_realloc(heap, of_heap, size) && errno == ENOMEM);
		errno = 0;
		assert_true(i == 0 || (!hak_heap_aligned_alloc(heap, size, 100) && errno == ENOMEM));
	}
	struct hak_stats after = get();
	assert_in_range(mappings(), 0, before_mappings + 20); /* nor is a page map made for it */
	assert_int_equal(after.cached, before.cached);
	assert_int_equal(after.bigcache, before.bigcache);
	assert_int_equal(after.home_blocks, before.home_blocks);
	assert_true(is_filled(small, 100, 1) && is_filled(large, 5 * MIB, 2));
	hak_heap_destroy(heap);
	free(small);
	free(large);
}

static void check_heaps_and_threads_all_well(void **state)
{
	pthread_t thread;
	hak_heap_t *heap = hak_heap_new();

	assert_non_null(heap);
	for (unsigned i = 0; i < COUNT; i++)
		assert_non_null(hak_heap_malloc(heap, i * 40));
	take(2000);
	assert_int_equal(pthread_create(&thread, NULL, free_all, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(hak_check(), 0);
	hak_heap_destroy(heap);
	assert_int_equal(hak_check(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stats_small_blocks_exact),
		cmocka_unit_test(stats_large_blocks_by_band),
		cmocka_unit_test(stats_freed_by_another_thread_not_live),
		cmocka_unit_test(stats_freed_by_living_thread_not_live),
		cmocka_unit_test(stats_shorter_structure_filled_no_further),
		cmocka_unit_test(stats_json_cut_where_told),
		cmocka_unit_test(stats_write_unknown_format_refused),
		cmocka_unit_test(mallinfo2_agrees_with_stats),
		cmocka_unit_test(visit_agrees_with_stats),
		cmocka_unit_test(survivors_of_a_burst_live),
		cmocka_unit_test(impossible_request_caches_kept),
		cmocka_unit_test(check_heaps_and_threads_all_well),
		cmocka_unit_test(visit_stopped_where_told),
		cmocka_unit_test(visitor_may_allocate_and_free),
		cmocka_unit_test(profile_calls_refuse_what_they_say),
	};

	return RUN_TESTS(tests);
}
