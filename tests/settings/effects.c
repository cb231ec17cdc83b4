/* SPDX-License-Identifier: MIT */
/*
 * Every setting changes something that can be seen from outside the process.
 * Usage: effects PROBE LIBRARY
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../death/child.h"

enum { GRANULE = 1 << 16 };

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

/* Under these settings: "name=value name=value". */
static void run_probe(const char *settings, const char *action, const char *argument)
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
	child_run(&result, library, argv, 150);
}

static long value_printed(void)
{
	if (!child_exited(&result, 0)) {
		child_print(&result);
		fail();
	}
	return atol(result.out.text);
}

/* The value that the action prints. */
static long value_of(const char *settings, const char *action, const char *argument)
{
	run_probe(settings, action, argument);
	return value_printed();
}

/* Does a small block fit a granule between two inaccessible pages (front/guard.h)? */
static bool can_guard(void)
{
	return 3 * sysconf(_SC_PAGESIZE) <= GRANULE;
}

/* How much of the mapping that has the address is in huge pages; 0 if that is not known. */
static unsigned long huge_kib_around(uintptr_t address)
{
	unsigned long low, high, kib = 0;
	bool is_it = false;
	char line[512];
	FILE *file = fopen("/proc/self/smaps", "re");

	while (file != NULL && kib == 0 && fgets(line, sizeof line, file) != NULL)
		if (sscanf(line, "%lx-%lx ", &low, &high) == 2)
			is_it = low <= address && address < high;
		else if (is_it)
			sscanf(line, "AnonHugePages: %lu", &kib);
	if (file != NULL)
		fclose(file);
	return kib;
}

/* Do programs that ask for huge pages get some? By a trial: there are settings for all, for each size and for a
   process, and memory may have no such piece left. */
static bool has_huge_pages(void)
{
	enum { HUGE_PAGE = 2 << 20, ROOM = 2 * HUGE_PAGE };
	char *room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool has = false;

	if (room == MAP_FAILED)
		return false;
	char *page = room + (-(uintptr_t)room & (HUGE_PAGE - 1));
	if (madvise(page, HUGE_PAGE, MADV_HUGEPAGE) == 0) {
		*(volatile char *)page = 1;
		has = huge_kib_around((uintptr_t)page) > 0;
	}
	munmap(room, ROOM);
	return has;
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
	assert_int_equal(value_of("DISABLE=1", "trim", "20000"), 1);
	assert_non_null(strstr(result.out.text, "<malloc version=\"1\">\n<heap nr=\"0\">")); /* libc's */
	assert_int_equal(value_of("DISABLE=1", "mallinfo", "100"), 0);
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

static long mapped_with(const char *settings, const char *ms)
{
	value_of(settings, "another_size", ms);
	return total_of("mapped");
}

static void empty_reuse_off_keeps_slabs_in_their_class(void **state)
{
	assert_true(mapped_with("", "0") < 14 << 20);
	assert_true(mapped_with("SS_EMPTY_REUSE=0 PURGE_DELAY=60s", "0") >= 16 << 20);
	assert_true(mapped_with("SS_EMPTY_REUSE=0 PURGE_DELAY=-1", "300") >= 16 << 20);
	assert_true(mapped_with("SS_EMPTY_REUSE=0 PURGE_DELAY=50", "300") < 14 << 20);
}

static void prefault_makes_superslabs_resident(void **state)
{
	long none = value_of("", "one_block", "64");
	long half = value_of("SS_PREFAULT=50", "one_block", "64"), all = value_of("SS_PREFAULT=100", "one_block", "64");

	assert_in_range(half - none, 600, 1400);
	assert_in_range(all - none, 1600, 2500);
	/* A tenth is less than the kernel's rounding. */
	value_of("PROFILE=throughput THP=never TINY_PAGEBOX_LOG=1", "one_block", "64");
	assert_non_null(strstr(result.err.text, " made resident, bytes "));
}

static void ready_off_takes_another_slab(void **state)
{
	assert_true(value_of("", "follow_ready", "120") > 110);
	assert_true(value_of("TINY_READY=0", "follow_ready", "120") < 70);
}

static void bind_c7_chooses_slab_and_carving(void **state)
{
	long one = 0, two = 0, mixed = 0;

	assert_true(value_of("", "prefer_dead", "200") < 10);
	assert_true(value_of("WARM_TLS_BIND_C7=1", "prefer_dead", "200") < 10);
	assert_true(value_of("WARM_TLS_BIND_C7=0", "prefer_dead", "200") > 100);
	for (int kib = 101; kib <= 104; kib++) {
		char text[8];
		snprintf(text, sizeof text, "%d", kib);
		value_of("WARM_TLS_BIND_C7=1", "use_small", text);
		one += used_blocks();
		value_of("WARM_TLS_BIND_C7=2", "use_small", text);
		two += used_blocks();
		value_of("PROFILE=MIXED_TINYV3_C7_SAFE", "use_small", text);
		mixed += used_blocks();
	}
	assert_int_equal(two - one, 0 + 1 + 2 + 3);
	assert_int_equal(one, mixed);
}

static void larson_guard_keeps_within_budget(void **state)
{
	long full, guarded;

	value_of("TINY_CACHE=256", "fill_bins", "20000");
	full = used_blocks();
	value_of("TINY_CACHE=256 TINY_PROFILE=larson_guard", "fill_bins", "20000");
	guarded = used_blocks();
	assert_true(full > 25000 && guarded < 21000);
	/* Part of that is a huge page, which otherwise is asked for only while they come quickly; 8.7 MiB are kept without. */
	if (has_huge_pages())
		assert_true(value_of("THP=always TINY_PROFILE=full PURGE_DELAY=60s", "free_burst", "100") > 9 << 10);
	else
		print_message("no huge pages here: what is kept with them is not looked at\n");
	assert_true(value_of("TINY_PROFILE=larson_guard PURGE_DELAY=60s", "free_burst", "100") < 6 << 10);
	assert_true(value_of("PROFILE=larson_guard PURGE_DELAY=60s", "free_burst", "100") < 6 << 10);
}

/* Blocks that stay cached when those of some size come and go by the thousand. */
static long cached_with(const char *policy, const char *size)
{
	char settings[64];

	snprintf(settings, sizeof settings, "TINY_POLICY_PROFILE=%s", policy);
	value_of(settings, "come_and_go", size);
	return used_blocks();
}

static void policy_profile_says_whose_bins_grow(void **state)
{
	enum { FEW = 300, MANY = 900 };

	assert_true(cached_with("legacy", "64") < FEW && cached_with("legacy", "1000") < FEW);
	assert_true(cached_with("c5_7_only", "64") < FEW && cached_with("c5_7_only", "1000") > MANY);
	assert_true(cached_with("tinyplus_all", "64") > MANY && cached_with("tinyplus_all", "1000") > MANY);
	assert_true(cached_with("auto", "64") > MANY && cached_with("auto", "1000") > MANY);
}

/* The size mix of a run changes half way. */
static void policy_log_tells_of_change(void **state)
{
	const char *first, *then, *shrunk;

	value_of("TINY_POLICY_LOG=1", "change_sizes", "2000");
	first = strstr(result.err.text, "hakmem: policy: heap 1 promotes C3, score ");
	then = strstr(result.err.text, "hakmem: policy: heap 1 promotes C5, score ");
	shrunk = strstr(result.err.text, "hakmem: policy: heap 1 shrinks C3, score ");
	assert_true(first != NULL && then > first && shrunk > then);
	assert_null(strstr(result.err.text, "shrinks C5"));
	value_of("TINY_POLICY_LOG=1 TINY_POLICY_PROFILE=legacy", "change_sizes", "2000");
	assert_string_equal(result.err.text, "");
}

static void warm_log_tells_of_slabs(void **state)
{
	value_of("TINY_WARM_LOG=1", "free_many", "4000");
	assert_non_null(strstr(result.err.text, "hakmem: slabs: heap 1, size 64: takes a fresh one in probe["));
	value_of("TINY_WARM_LOG=1", "follow_ready", "120");
	assert_non_null(strstr(result.err.text, "hakmem: slabs: heap 1, size 512: turns to one it has in probe["));
	value_of("TINY_WARM_LOG=1 SS_EMPTY_REUSE=0", "another_size", "0");
	assert_non_null(strstr(result.err.text, "size 1024: keeps an empty one in probe["));
	value_of("TINY_WARM_LOG=1", "another_size", "0");
	assert_non_null(strstr(result.err.text, "size 1024: gives one back in probe["));
	value_of("TINY_WARM_LOG=1", "prefer_dead", "640");
	assert_non_null(strstr(result.err.text, "size 1024: adopts one in probe["));
}

static void pagebox_log_tells_of_superslabs(void **state)
{
	value_of("TINY_PAGEBOX_LOG=1 SS_PREFAULT=10", "free_burst", "100");
	assert_non_null(strstr(result.err.text, "hakmem: SuperSlab 0x"));
	assert_non_null(strstr(result.err.text, " mapped in probe["));
	assert_non_null(strstr(result.err.text, " made resident, bytes 212992 in probe["));
	assert_non_null(strstr(result.err.text, " purged, bytes "));
}

static void bigcache_keeps_what_it_may(void **state)
{
	value_of("PURGE_DELAY=60s", "free_mibs", "3");
	assert_true(total_of("bigcache") >= 3 << 20);
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
	assert_true(value_of("PURGE_DELAY=0", "free_burst", "100") < 4 << 10);
	value_of("PURGE_DELAY=0", "free_mibs", "6");
	assert_int_equal(total_of("bigcache"), 0);
}

static void purge_delay_over_gives_back_as_it_goes(void **state)
{
	assert_true(value_of("PURGE_DELAY=100", "go_on", "30") < 3 << 10);
	assert_true(value_of("PURGE_DELAY=60s", "go_on", "30") > 5 << 10);
}

/* 5 % of 128 MiB that are live. */
enum { REST_MOST = 128 * 1024 / 20 };

static void burst_freed_given_back_while_program_goes_on(void **state)
{
	assert_true(value_of("", "burst_on", "0") <= REST_MOST);
}

/* Little may wait for the owner. */
static void what_others_free_is_given_back_though_owner_sleeps(void **state)
{
	assert_true(value_of("", "freed_by_another", "0") < 24 << 10);
	assert_true(value_of("", "freed_by_worker", "0") < 24 << 10);
	assert_true(value_of("", "freed_fast", "0") < 24 << 10);
	assert_true(value_of("", "freed_fast", "1") < 24 << 10);
	assert_true(value_of("PURGE_DELAY=0", "freed_by_another", "0") < 16 << 10);
	assert_true(value_of("PURGE_DELAY=-1", "freed_by_another", "0") > 240 << 10);
	assert_true(value_of("PURGE_DELAY=-1", "freed_by_another", "1") < 8 << 10);
}

/* As little as the program may do and still be one that goes on. */
static void burst_freed_given_back_whatever_goes_on(void **state)
{
	assert_true(value_of("", "burst_pairs", "0") <= REST_MOST);
	assert_true(value_of("", "burst_pairs", "1") <= REST_MOST);
	assert_true(value_of("", "burst_beside", "10") <= REST_MOST);
	assert_true(value_of("", "burst_before", "10") <= REST_MOST);
	assert_true(value_of("", "burst_large", "0") <= REST_MOST);
	assert_true(value_of("stats=ops", "burst_pairs", "0") <= REST_MOST);
}

static void background_gives_back_while_program_idles(void **state)
{
	assert_true(value_of("", "burst_idle", "0") > REST_MOST);
	assert_true(value_of("BACKGROUND=1", "burst_idle", "10") <= REST_MOST);
	assert_true(value_of("BACKGROUND=1 PURGE_DELAY=-1", "burst_idle", "0") > 900 << 10);
}

static void background_gives_back_what_sleepers_have(void **state)
{
	assert_true(value_of("", "freed_by_another", "2") > 8 << 10);
	assert_true(value_of("BACKGROUND=1", "freed_by_another", "3") < 6 << 10);
}

static void background_serves_fork_children(void **state)
{
	assert_true(value_of("BACKGROUND=1", "burst_child", "10") <= REST_MOST);
	assert_int_equal(value_of("BACKGROUND=1 PURGE_DELAY=5", "fork_amid", "100"), 0);
}

static void background_thread_comes_late_and_is_harmless(void **state)
{
	assert_int_equal(value_of("BACKGROUND=1", "purge_thread", "0"), 0);
	assert_int_equal(value_of("", "purge_thread", "0"), 2);
}

/* For longer than fork would wait. */
static void background_thread_keeps_still_while_all_is_looked_at(void **state)
{
	assert_int_equal(value_of("BACKGROUND=1 PURGE_DELAY=5", "visit_held", "400"), 0);
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

/* Of so little in all nobody looks at it before. */
static void limit_counts_no_memory_that_sleepers_have_back(void **state)
{
	assert_true(value_of("LIMIT=13M", "another_takes", "1000") >= 7);
}

static bool write_line(const char *path, const char *file, long value)
{
	char name[400], text[32];
	int fd;

	snprintf(name, sizeof name, "%s/%s", path, file);
	snprintf(text, sizeof text, "%ld\n", value);
	fd = open(name, O_WRONLY);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0;
}

/* A control group inside of ours, of either version, if we may make one. */
static bool make_group(char path[700], char outside[600], long limit)
{
	char line[300], own[300] = "";
	FILE *file = fopen("/proc/self/cgroup", "r");
	bool one = false;

	while (file != NULL && fgets(line, sizeof line, file) != NULL) {
		if (strstr(line, ":memory:") != NULL)
			one = sscanf(strstr(line, ":memory:"), ":memory:%250s", own) == 1;
		else if (strstr(line, "::") != NULL && !one)
			sscanf(strstr(line, "::"), "::%250s", own);
	}
	if (file != NULL)
		fclose(file);
	for (char *end = own + strlen(own); ; *end = '\0') {
		snprintf(outside, 600, "/sys/fs/cgroup%s%s", one ? "/memory" : "", own);
		if (access(outside, F_OK) == 0 || (end = strrchr(own, '/')) == NULL)
			break;
	}
	snprintf(path, 700, "%s/hakmem-test-%ld", outside, (long)getpid());
	return mkdir(path, 0755) == 0 &&
		write_line(path, one ? "memory.limit_in_bytes" : "memory.max", limit);
}

static void remove_group(const char *path)
{
	for (int i = 0; i < 100 && rmdir(path) != 0 && errno == EBUSY; i++)
		usleep(10000);
}

/* Goes into the group itself, for its children, and comes back out. It is a process apart, so that the group goes also if
   the test does not live to see that. `to` gets the result. */
static void run_in_group(const char *path, const char *outside, int to)
{
	int null = open("/dev/null", O_RDWR);
	bool is_inside;

	setpgid(0, 0);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	is_inside = write_line(path, "cgroup.procs", getpid());
	if (is_inside)
		run_probe("LIMIT=cgroup", "exhaust", "4000");
	write_line(outside, "cgroup.procs", getpid());
	remove_group(path);
	if (!is_inside)
		_exit(CHILD_SKIPPED);
	_exit(write(to, &result, sizeof result) != (ssize_t)sizeof result);
}

/* What run_in_group hands out; its exit status, -1 if it did not come to an end. */
static int result_in_group(const char *path, const char *outside)
{
	int ends[2], status = -1;
	size_t got = 0;
	ssize_t more;
	pid_t child;

	fflush(NULL);
	memset(&result, 0, sizeof result);
	if (pipe(ends) != 0)
		return -1;
	child = fork();
	if (child == 0) {
		close(ends[0]);
		run_in_group(path, outside, ends[1]);
	}
	close(ends[1]);
	while (got < sizeof result && (more = read(ends[0], (char *)&result + got, sizeof result - got)) > 0)
		got += (size_t)more;
	close(ends[0]);
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static void limit_cgroup_is_little_less_than_the_groups(void **state)
{
	char path[700], outside[600];
	int status = CHILD_SKIPPED;

	if (make_group(path, outside, 256 << 20))
		status = result_in_group(path, outside);
	remove_group(path); /* of a child that was killed, say, or one without a limit */
	if (status == CHILD_SKIPPED)
		skip();
	assert_int_equal(status, 0);
	assert_in_range(value_printed(), 200, 256 * 95 / 100);
}

static void bigcache_keeps_an_eighth_of_memory(void **state)
{
	value_of("PURGE_DELAY=60s", "free_of", "90");
	assert_true(total_of("bigcache") > 64 << 20);
	value_of("LIMIT=512M PURGE_DELAY=60s", "free_of", "90");
	assert_in_range(total_of("bigcache"), 56 << 20, 64 << 20);
}

static void limit_lets_one_block_grow(void **state)
{
	long mib = value_of("LIMIT=32M", "grow", "1000000");

	assert_true(mib <= 32 && mib >= 24);
}

static void limit_leaves_what_caches_have_to_realloc(void **state)
{
	assert_int_equal(value_of("LIMIT=80M", "regrow", "0"), 1);
	assert_int_equal(value_of("LIMIT=100M", "heap_regrow", "0"), 1);
}

static void secure_destroys_contents_with_the_heap(void **state)
{
	assert_true(value_of("PURGE_DELAY=-1", "destroyed", "3000") > 0);
	assert_int_equal(value_of("SECURE=1 PURGE_DELAY=-1", "destroyed", "3000"), 0);
	assert_int_equal(value_of("SECURE=3 PURGE_DELAY=-1", "destroyed", "3000"), 0);
}

/* Pages for guarded blocks that none has had yet are like any others that are not mapped. */
static void guard_rate_blames_no_block_for_a_wild_access(void **state)
{
	char behind[16];

	if (!can_guard())
		skip();
	snprintf(behind, sizeof behind, "%ld", 2 * sysconf(_SC_PAGESIZE));
	assert_int_equal(value_of("GUARD_RATE=1", "write_behind", "65536"), SIGSEGV);
	assert_string_equal(result.err.text, "");
	assert_int_equal(value_of("GUARD_RATE=1", "write_behind", behind), SIGABRT);
	assert_non_null(strstr(result.err.text, " behind "));
}

/* What BigCache keeps, and SuperSlabs that hold nothing, are not kept from what describes them. */
static void threads_and_heaps_begin_at_the_limit(void **state)
{
	static const char *const ways[] = {"fail_at_limit", "fail_when_free"};

	for (int i = 0; i < 2; i++) {
		run_probe("LIMIT=64M", ways[i], "300");
		if (child_exited(&result, CHILD_SKIPPED))
			skip(); /* so many threads there cannot be */
		assert_int_equal(value_printed(), 0);
	}
}

static void block_that_could_not_be_smaller_has_its_size(void **state)
{
	assert_int_equal(value_of("SECURE=1 LIMIT=24M", "shrink_at_limit", "100"), 1);
}

/* One in four: each begins anywhere between two guarded blocks, 100 in the mean. */
static void guard_rate_guards_in_children_by_chance(void **state)
{
	assert_int_equal(value_of("GUARD_RATE=0", "guarded_children", "50"), 0);
	if (!can_guard())
		skip();
	assert_in_range(value_of("GUARD_RATE=100", "guarded_children", "50"), 10, 120);
}

static void settings_leave_errno_to_main(void **state)
{
	assert_int_equal(value_of("STATS_SIGNAL=9", "errno", "0"), 0);
	assert_int_equal(value_of("SAMPLE_SIGNAL=9", "errno", "0"), 0);
}

static void stats_file_may_be_standard_output(void **state)
{
	value_of("STATS=1 STATS_FILE=/dev/stdout", "owns", "64");
	assert_non_null(strstr(result.out.text, "hakmem: statistics of probe["));
}

static void disable_samples_nothing(void **state)
{
	value_of("DISABLE=1 SAMPLE=512K SAMPLE_FILE=/dev/null", "reuse", "100");
	assert_string_equal(result.err.text, "");
}

static void profile_tells_no_other_file_than_standard_error(void **state)
{
	value_of("SAMPLE=512 SAMPLE_FILE=/dev/null", "owns", "64");
	assert_non_null(strstr(result.err.text, "hakmem: not freed: about "));
	value_of("SAMPLE=512 SAMPLE_FILE=/nonesuch/file", "owns", "64");
	assert_non_null(strstr(result.err.text, "hakmem: cannot write the heap profile: error 2 "));
	value_of("SAMPLE=512 SAMPLE_FILE=/dev/null", "leave_stderr", "1");
	assert_null(strstr(result.out.text, "hakmem: "));
	value_of("SAMPLE=512 SAMPLE_FILE=/nonesuch/file", "leave_stderr", "1");
	assert_null(strstr(result.out.text, "hakmem: "));
	/* Its reader need not wait. */
	assert_int_equal(value_of("SAMPLE=512 SAMPLE_FILE=/dev/null", "stderr_is_closed", "0"), 1);
}

static void profile_does_as_its_settings(void **state)
{
	value_of("PROFILE=LEAN", "free_many", "4000");
	assert_true(used_blocks() < 500);
	assert_true(value_of("PROFILE=lean", "free_burst", "100") < 3 << 10);
	assert_true(value_of("PROFILE=lean PURGE_DELAY=60s", "free_burst", "100") > 5 << 10);
	assert_true(value_of("PROFILE=throughput", "go_on", "30") > 5 << 10);
	assert_string_equal(result.err.text, "");
	value_of("PROFILE=DEBUG", "owns", "64");
	assert_non_null(strstr(result.err.text, "hakmem: stats = 1 (profile) in probe["));
	assert_non_null(strstr(result.err.text, "  metadata "));
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
		"hakmem: tiny_cache = 32 (profile) in probe[",
		"hakmem: verbose = 1 (environment) in probe[",
	};

	value_of("VERBOSE=1 PROFILE=lean TINY_CACHE=4097 TYPO=1", "owns", "64");
	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
		assert_non_null(strstr(result.err.text, expected[i]));
}

static void secure_keeps_sizes_apart(void **state)
{
	assert_int_equal(value_of("secure=0", "exact", "1000"), 0);
	assert_int_equal(value_of("secure=1", "exact", "1000"), 0);
	assert_int_equal(value_of("secure=2", "exact", "1000"), 1000);
	assert_int_equal(value_of("profile=secure", "exact", "1000"), 1000);
}

static void guard_rate_samples_blocks(void **state)
{
	assert_int_equal(value_of("guard_rate=off", "exact", "200000"), 0);
	if (!can_guard())
		skip();
	assert_in_range(value_of("guard_rate=10000", "exact", "200000"), 4, 60);
	assert_in_range(value_of("guard_rate=2000", "exact", "200000"), 30, 250);
}

static void on_error_report_says_so_and_goes_on(void **state)
{
	assert_int_equal(value_of("on_error=report", "free_twice", "48"), 48);
	assert_non_null(strstr(result.err.text, "double free of "));
	assert_int_equal(value_of("on_error=ignore", "free_twice", "48"), 48);
	assert_null(strstr(result.err.text, "double free of "));
}

static unsigned times_said(const char *text)
{
	unsigned times = 0;

	for (const char *at = result.err.text; (at = strstr(at, text)) != NULL; at++)
		times++;
	return times;
}

static void background_thread_tells_of_what_was_written_to(void **state)
{
	assert_int_equal(value_of("BACKGROUND=1 ON_ERROR=report VERBOSE=1", "written_on_their_way", "0"), 0);
	assert_true(times_said("hakmem: write after free to ") > 0);
	run_probe("BACKGROUND=1", "written_on_their_way", "0");
	assert_int_equal(times_said("hakmem: write after free to "), 1);
	assert_true(child_killed(&result, SIGABRT));
}

static void misuse_of_a_sized_free_is_said_once(void **state)
{
	value_of("on_error=report secure=1", "delete_twice", "48");
	assert_int_equal(times_said("double free of "), 1);
}

static void misuse_of_resizing_is_said_once_as_realloc(void **state)
{
	static const char *const sizes[] = {"48", "40000", "3000000"};

	for (int i = 0; i < 3; i++) {
		assert_int_equal(value_of("on_error=report", "resize_freed", sizes[i]), 3);
		assert_int_equal(times_said("hakmem: "), 3);
		assert_int_equal(times_said("hakmem: realloc of "), 3);
	}
}

static void overflow_of_a_block_that_is_resized_is_said_once(void **state)
{
	static const char *const settings[] = {"on_error=report secure=2", "on_error=report secure=3",
		"on_error=report guard_rate=1"};

	for (int i = 0; i < (can_guard() ? 3 : 2); i++) {
		assert_int_equal(value_of(settings[i], "overflow_resized", "100"), 100);
		assert_int_equal(times_said("write behind "), 1);
	}
}

static void misuse_is_said_in_a_child_forked_amid_a_report(void **state)
{
	assert_int_equal(value_of("on_error=report", "fork_amid_report", "48"), 1);
}

/* Of a process the first misuse is told with details, and as many as a log bears. */
static void children_tell_of_their_own_misuses(void **state)
{
	assert_int_equal(value_of("on_error=report secure=2", "free_twice_too_often", "100000"), 1);
	assert_int_equal(times_said("double free of "), 101);
	assert_int_equal(times_said("found by thread "), 2);
}

/* Whose heap the block is in, who freed it, and who found it. */
static void details_in_a_fork_child_name_its_thread(void **state)
{
	char name[64];

	snprintf(name, sizeof name, "thread %ld", value_of("on_error=report secure=2", "free_twice_in_child", "48"));
	assert_int_equal(times_said("thread "), 3);
	assert_int_equal(times_said(name), 3);
}

/* What lies before the first block of a slab is none. */
static void details_of_an_access_between_slabs_name_no_block(void **state)
{
	if (sysconf(_SC_PAGESIZE) > GRANULE / 8)
		skip(); /* a page between slabs would be too much of them */
	value_of("on_error=report secure=3", "write_slab_front", "48");
	assert_int_equal(times_said("between slabs"), 1);
	assert_int_equal(times_said("found by thread "), 1);
	assert_int_equal(times_said("is a block of "), 0);
}

static void details_of_an_access_name_its_place(void **state)
{
	enum { FUNCTION_MOST = 256 };
	long function = value_of("on_error=report secure=2", "read_freed", "3000000");
	const char *found = strstr(result.err.text, "found by thread ");

	assert_non_null(found);
	assert_non_null(found = strstr(found, "#0 "));
	assert_in_range(strtol(found + 3, NULL, 16), function, function + FUNCTION_MOST);
}

/* Not places of ours. */
static void details_name_places_of_the_program(void **state)
{
	enum { WAYS = 12, USES = 3, FUNCTION_MOST = 1024 };
	static const char *const actions[] = {"overrun_made_by", "overrun_found_by"},
		*const settings[] = {"on_error=report guard_rate=1 secure=2 limit=48M", "on_error=report secure=2"},
		*const heads[] = {"allocated by thread ", "found by thread "};

#ifdef WITHOUT_JUMPS
	skip();
#endif
	for (int i = can_guard() ? 0 : 1; i < 2; i++)
		for (int way = 0; way < (i == 0 ? WAYS : USES); way++) {
			char number[16];
			snprintf(number, sizeof number, "%d", way);
			long function = value_of(settings[i], actions[i], number);
			const char *found = strstr(result.err.text, heads[i]);
			assert_non_null(found);
			assert_non_null(found = strstr(found, "#0 "));
			assert_in_range(strtol(found + 3, NULL, 16), function, function + FUNCTION_MOST);
		}
}

static void verbose_tells_more_of_a_misuse(void **state)
{
	value_of("on_error=report verbose=1", "free_twice", "200000");
	assert_non_null(strstr(result.err.text, "found by thread "));
	value_of("on_error=report", "free_twice", "200000");
	assert_null(strstr(result.err.text, "found by thread "));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(disable_hands_all_to_libc),
		cmocka_unit_test(wrap_tiny_off_hands_tiny_to_libc),
		cmocka_unit_test(superslab_off_maps_slabs_alone),
		cmocka_unit_test(adopt_off_leaves_slabs_of_the_dead),
		cmocka_unit_test(tiny_cache_bounds_free_blocks),
		cmocka_unit_test(empty_reuse_off_keeps_slabs_in_their_class),
		cmocka_unit_test(prefault_makes_superslabs_resident),
		cmocka_unit_test(ready_off_takes_another_slab),
		cmocka_unit_test(bind_c7_chooses_slab_and_carving),
		cmocka_unit_test(larson_guard_keeps_within_budget),
		cmocka_unit_test(policy_profile_says_whose_bins_grow),
		cmocka_unit_test(policy_log_tells_of_change),
		cmocka_unit_test(warm_log_tells_of_slabs),
		cmocka_unit_test(pagebox_log_tells_of_superslabs),
		cmocka_unit_test(bigcache_keeps_what_it_may),
		cmocka_unit_test(purge_delay_zero_gives_back_at_once),
		cmocka_unit_test(purge_delay_over_gives_back_as_it_goes),
		cmocka_unit_test(burst_freed_given_back_while_program_goes_on),
		cmocka_unit_test(what_others_free_is_given_back_though_owner_sleeps),
		cmocka_unit_test(burst_freed_given_back_whatever_goes_on),
		cmocka_unit_test(background_gives_back_while_program_idles),
		cmocka_unit_test(background_gives_back_what_sleepers_have),
		cmocka_unit_test(background_serves_fork_children),
		cmocka_unit_test(background_thread_comes_late_and_is_harmless),
		cmocka_unit_test(background_thread_keeps_still_while_all_is_looked_at),
		cmocka_unit_test(background_thread_tells_of_what_was_written_to),
		cmocka_unit_test(thp_asks_for_huge_pages),
		cmocka_unit_test(limit_bounds_what_can_be_had),
		cmocka_unit_test(limit_counts_no_memory_that_sleepers_have_back),
		cmocka_unit_test(limit_lets_one_block_grow),
		cmocka_unit_test(limit_leaves_what_caches_have_to_realloc),
		cmocka_unit_test(secure_destroys_contents_with_the_heap),
		cmocka_unit_test(guard_rate_blames_no_block_for_a_wild_access),
		cmocka_unit_test(threads_and_heaps_begin_at_the_limit),
		cmocka_unit_test(block_that_could_not_be_smaller_has_its_size),
		cmocka_unit_test(guard_rate_guards_in_children_by_chance),
		cmocka_unit_test(settings_leave_errno_to_main),
		cmocka_unit_test(stats_file_may_be_standard_output),
		cmocka_unit_test(disable_samples_nothing),
		cmocka_unit_test(limit_cgroup_is_little_less_than_the_groups),
		cmocka_unit_test(bigcache_keeps_an_eighth_of_memory),
		cmocka_unit_test(profile_does_as_its_settings),
		cmocka_unit_test(profile_tells_no_other_file_than_standard_error),
		cmocka_unit_test(secure_keeps_sizes_apart),
		cmocka_unit_test(guard_rate_samples_blocks),
		cmocka_unit_test(on_error_report_says_so_and_goes_on),
		cmocka_unit_test(misuse_of_a_sized_free_is_said_once),
		cmocka_unit_test(misuse_of_resizing_is_said_once_as_realloc),
		cmocka_unit_test(overflow_of_a_block_that_is_resized_is_said_once),
		cmocka_unit_test(misuse_is_said_in_a_child_forked_amid_a_report),
		cmocka_unit_test(details_in_a_fork_child_name_its_thread),
		cmocka_unit_test(children_tell_of_their_own_misuses),
		cmocka_unit_test(details_of_an_access_between_slabs_name_no_block),
		cmocka_unit_test(details_of_an_access_name_its_place),
		cmocka_unit_test(details_name_places_of_the_program),
		cmocka_unit_test(verbose_tells_more_of_a_misuse),
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
