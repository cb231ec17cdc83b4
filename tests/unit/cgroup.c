/* SPDX-License-Identifier: MIT */
/* Limits of control groups, in made-up hierarchies. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "common.h"
#include "os/os.h"

static char root[40], membership[64];

static int make_root(void **state)
{
	strcpy(root, "/tmp/hakmem-cgroup-XXXXXX");
	if (unit_setup(state) != 0 || mkdtemp(root) == NULL)
		return -1;
	snprintf(membership, sizeof membership, "%s/membership", root);
	return 0;
}

static int remove_root(void **state)
{
	char command[80];

	snprintf(command, sizeof command, "rm -rf %s", root);
	return system(command);
}

/* Also makes the folders. */
static void write_file(const char *path, const char *text)
{
	char full[256];
	int fd;

	snprintf(full, sizeof full, "%s%s", root, path);
	for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
		*slash = '\0';
		mkdir(full, 0755);
		*slash = '/';
	}
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static size_t limit_of(const char *lines)
{
	write_file("/membership", lines);
	return os_cgroup_limit(membership, root);
}

static void version_two_least_of_group_and_those_around(void **state)
{
	write_file("/a/b/memory.max", "max\n");
	assert_int_equal(limit_of("0::/a/b\n"), 0);
	write_file("/a/memory.max", "7340032\n");
	assert_int_equal(limit_of("0::/a/b\n"), 7340032);
	write_file("/a/b/memory.max", "6291456\n");
	assert_int_equal(limit_of("0::/a/b\n"), 6291456);
	assert_int_equal(limit_of("0::/a\n"), 7340032);
	write_file("/memory.max", "5242880\n");
	assert_int_equal(limit_of("0::/a/b\n"), 5242880);
	assert_int_equal(limit_of("0::/\n"), 5242880);
	assert_int_equal(limit_of("0::/not/here"), 5242880);
	write_file("/memory.max", "max\n");
}

static void version_one_memory_controller_counts(void **state)
{
	write_file("/memory/memory.limit_in_bytes", "9223372036854771712\n");
	write_file("/memory/c/memory.limit_in_bytes", "8388608\n");
	assert_int_equal(limit_of("5:cpu,cpuacct:/\n4:memory:/c\n0::/\n"), 8388608);
	assert_int_equal(limit_of("4:hugetlb,memory,cpu:/c/d\n"), 8388608);
	assert_int_equal(limit_of("4:memory:/\n"), 0);
	assert_int_equal(limit_of("4:memories:/c\n4:mem:/c\n4:name=memory:/c\n"), 0);
}

static void both_versions_least_counts(void **state)
{
	assert_int_equal(limit_of("4:memory:/c\n0::/a/b\n"), 6291456);
	assert_int_equal(limit_of("4:memory:/c\n0::/a\n"), 7340032);
}

static void membership_odd_gives_none(void **state)
{
	static const char *const odd[] = {"", "\n\n", "0", "0:", "0::", "0::\n", "0::a/b\n", ":::::\n", "0:/a/b\n",
		"\xff\xfe\n:memory:\n", "4:memory\n/a\n"};

	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
		assert_int_equal(limit_of(odd[i]), 0);
	assert_int_equal(os_cgroup_limit("/nonexistent", root), 0);
	assert_int_equal(os_cgroup_limit(root, root), 0);
}

static void limit_odd_gives_none(void **state)
{
	static const char *const odd[] = {"", "\n", "maximum", "-5", " 5", "99999999999999999999999999999999999\n",
		"1152921504606846976"};

	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		write_file("/odd/memory.max", odd[i]);
		assert_int_equal(limit_of("0::/odd\n"), 0);
	}
	write_file("/odd/memory.max", "4096");
	assert_int_equal(limit_of("0::/odd\n"), 4096);
}

/* What does not fit is the innermost folders: those around it still count. */
static void path_too_long_those_around_count(void **state)
{
	static char line[6000] = "0::/a";

	memset(line + 5, '/', 3000);
	memset(line + 3005, 'x', 2000);
	assert_int_equal(limit_of(line), 7340032);
	memset(line + 4, 'a', sizeof line - 5);
	assert_int_equal(limit_of(line), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_two_least_of_group_and_those_around),
		cmocka_unit_test(version_one_memory_controller_counts),
		cmocka_unit_test(both_versions_least_counts),
		cmocka_unit_test(membership_odd_gives_none),
		cmocka_unit_test(limit_odd_gives_none),
		cmocka_unit_test(path_too_long_those_around_count),
	};

	return cmocka_run_group_tests(tests, make_root, remove_root);
}
