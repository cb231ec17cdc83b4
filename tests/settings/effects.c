/* SPDX-License-Identifier: MIT */
/*
 * Every setting changes something that can be seen from outside the process.
 * Usage: effects PROBE LIBRARY
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../death/child.h"

extern char **environ;

static char *program;
static const char *library;
static struct child_result result;

/* What the build says must not matter, nor what the caller's environment says. */
static void set_base(void)
{
	for (char **at = environ; *at != NULL;) {
		char name[64];
		if (strncmp(*at, "HAKMEM_", 7) != 0 || strncmp(*at, "HAKMEM_TEST", 11) == 0) {
			at++;
			continue;
		}
		snprintf(name, sizeof name, "%.*s", (int)strcspn(*at, "="), *at);
		unsetenv(name);
		at = environ;
	}
	setenv("HAKMEM_WRAP_TINY", "1", 1);
	setenv("HAKMEM_TINY_USE_SUPERSLAB", "1", 1);
	setenv("HAKMEM_BIGCACHE_L25", "1", 1);
}

/* The value that the action prints, under these settings: "name=value name=value". */
static long value_of(const char *settings, const char *action, const char *argument)
{
	char text[256], *rest = text, *word;

	set_base();
	snprintf(text, sizeof text, "%s", settings);
	while ((word = strtok_r(rest, " ", &rest)) != NULL) {
		char name[64];
		char *value = strchr(word, '=');
		assert_non_null(value);
		snprintf(name, sizeof name, "HAKMEM_%.*s", (int)(value - word), word);
		setenv(name, value + 1, 1);
	}
	char *argv[] = {program, (char *)(uintptr_t)action, (char *)(uintptr_t)argument, NULL};
	child_run(&result, library, argv, 60);
	if (!child_exited(&result, 0)) {
		child_print(&result);
		fail();
	}
	return atol(result.out.text);
}

/* A line of malloc_info. */
static long total_of(const char *name)
{
	char line[64];
	const char *at;

	snprintf(line, sizeof line, "<total type=\"%s\" ", name); /* then size="..." or count="..." */
	at = strstr(result.out.text, line);
	assert_non_null(at);
	return atol(strchr(at + strlen(line), '"') + 1);
}

/* Blocks with the program or in caches of threads. */
static long used_blocks(void)
{
	return total_of("live_blocks") + total_of("cached_blocks");
}

static void disable_hands_all_to_libc(void **state)
{
	assert_int_equal(value_of("", "owns", "64"), 1);
	assert_int_equal(value_of("", "owns", "100000"), 1);
	assert_int_equal(value_of("DISABLE=1", "owns", "64"), 0);
	assert_int_equal(value_of("DISABLE=1", "owns", "100000"), 0);
}

static void wrap_tiny_off_hands_tiny_to_libc(void **state)
{
	assert_int_equal(value_of("WRAP_TINY=0", "owns", "1024"), 0);
	assert_int_equal(value_of("WRAP_TINY=0", "owns", "1025"), 1);
}

static void superslab_off_maps_slabs_alone(void **state)
{
	value_of("", "use_small", "100");
	assert_int_equal(total_of("mapped") % (2 << 20), 0);
	value_of("TINY_USE_SUPERSLAB=0", "use_small", "100");
	assert_in_range(total_of("mapped"), 100000, (2 << 20) - 1);
}

static void adopt_off_leaves_slabs_of_the_dead(void **state)
{
	assert_true(value_of("", "reuse", "600") > 200);
	assert_int_equal(value_of("TINY_SS_ADOPT=0", "reuse", "600"), 0);
}

static void tiny_cache_bounds_free_blocks(void **state)
{
	long least, most, by_itself;

	value_of("TINY_CACHE=8", "free_many", "4000");
	least = used_blocks();
	value_of("TINY_CACHE=4096", "free_many", "4000");
	most = used_blocks();
	value_of("", "free_many", "4000");
	by_itself = used_blocks();
	assert_true(least < 500 && least < by_itself && by_itself < most && most > 3000);
}

static void bigcache_keeps_what_it_may(void **state)
{
	value_of("", "free_mibs", "6");
	assert_true(total_of("bigcache") >= 6 << 20);
	value_of("BIGCACHE_L25=0", "free_mibs", "6");
	assert_int_equal(total_of("bigcache"), 0);
	value_of("BIGCACHE_MAX=2M", "free_mibs", "6");
	assert_in_range(total_of("bigcache"), 1 << 20, 2 << 20);
	value_of("BIGCACHE_MAX=0", "free_mibs", "6");
	assert_int_equal(total_of("bigcache"), 0);
}

static void purge_delay_zero_gives_back_at_once(void **state)
{
	assert_true(value_of("PURGE_DELAY=-1", "free_burst", "100") > 90 << 10);
	assert_true(value_of("PURGE_DELAY=60s", "free_burst", "100") < 70 << 10);
	assert_true(value_of("PURGE_DELAY=60s", "free_burst", "100") > 5 << 10);
	assert_true(value_of("PURGE_DELAY=0", "free_burst", "100") < 3 << 10);
	value_of("PURGE_DELAY=0", "free_mibs", "6");
	assert_int_equal(total_of("bigcache"), 0);
}

static void purge_delay_over_gives_back_as_it_goes(void **state)
{
	assert_true(value_of("PURGE_DELAY=100", "go_on", "30") < 3 << 10);
	assert_true(value_of("PURGE_DELAY=60s", "go_on", "30") > 5 << 10);
}

static void thp_asks_for_huge_pages(void **state)
{
	if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0)
		skip();
	assert_true(value_of("THP=always", "huge", "1") > 0);
	assert_int_equal(value_of("THP=auto", "huge", "1"), 0);
	assert_true(value_of("THP=auto", "huge", "100") > 0);
	assert_int_equal(value_of("THP=never", "huge", "100"), 0);
}

static void limit_bounds_what_can_be_had(void **state)
{
	static const struct {
		const char *size;
		long least; /* blocks of 40000 bytes take 64 KiB each; the probe stops at 65536 blocks */
	} cases[] = {{"100", 6}, {"1000", 24}, {"40000", 16}, {"1048576", 28}, {"3000000", 28}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		long mib = value_of("LIMIT=32M", "exhaust", cases[i].size);
		assert_true(mib >= cases[i].least && mib <= 32);
	}
	assert_int_equal(value_of("LIMIT=none", "exhaust", "1000"), 65536000 / (1 << 20));
}

static void limit_lets_one_block_grow(void **state)
{
	long mib = value_of("LIMIT=32M", "grow", "1000000");

	assert_true(mib <= 32 && mib >= 24);
}

static void profile_does_as_its_settings(void **state)
{
	value_of("PROFILE=LEAN", "free_many", "4000");
	assert_true(used_blocks() < 500);
	assert_true(value_of("PROFILE=lean", "free_burst", "100") < 3 << 10);
	assert_true(value_of("PROFILE=lean PURGE_DELAY=60s", "free_burst", "100") > 5 << 10);
	assert_true(value_of("PROFILE=throughput", "go_on", "30") > 5 << 10);
	assert_string_equal(result.err.text, "");
}

static void stats_report_at_exit(void **state)
{
	value_of("", "owns", "64");
	assert_string_equal(result.err.text, "");
	value_of("STATS=1", "owns", "64");
	assert_memory_equal(result.err.text, "hakmem: statistics of probe[", 28);
	assert_non_null(strstr(result.err.text, "\n  metadata "));
}

static void verbose_says_what_holds(void **state)
{
	static const char *const expected[] = {
		"hakmem: ignored: 'HAKMEM_TINY_CACHE=4097' is out of bounds in probe[",
		"hakmem: ignored: 'HAKMEM_TYPO=1' names no setting in probe[",
		"hakmem: tiny_cache = 8 (profile) in probe[",
		"hakmem: verbose = 1 (environment) in probe[",
	};

	value_of("VERBOSE=1 PROFILE=lean TINY_CACHE=4097 TYPO=1", "owns", "64");
	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
		assert_non_null(strstr(result.err.text, expected[i]));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(disable_hands_all_to_libc),
		cmocka_unit_test(wrap_tiny_off_hands_tiny_to_libc),
		cmocka_unit_test(superslab_off_maps_slabs_alone),
		cmocka_unit_test(adopt_off_leaves_slabs_of_the_dead),
		cmocka_unit_test(tiny_cache_bounds_free_blocks),
		cmocka_unit_test(bigcache_keeps_what_it_may),
		cmocka_unit_test(purge_delay_zero_gives_back_at_once),
		cmocka_unit_test(purge_delay_over_gives_back_as_it_goes),
		cmocka_unit_test(thp_asks_for_huge_pages),
		cmocka_unit_test(limit_bounds_what_can_be_had),
		cmocka_unit_test(limit_lets_one_block_grow),
		cmocka_unit_test(profile_does_as_its_settings),
		cmocka_unit_test(stats_report_at_exit),
		cmocka_unit_test(verbose_says_what_holds),
	};

	if (argc != 3) {
		fprintf(stderr, "usage: effects PROBE LIBRARY\n");
		return 2;
	}
	program = argv[1];
	library = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
