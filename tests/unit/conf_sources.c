/* SPDX-License-Identifier: MIT */
/* The sources of settings: which one wins, and which are not to be trusted. */
#include "abi/conf.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings.h"
#include "common.h"
#include "os/os.h"

static char folder[] = "/tmp/hakmem-conf-XXXXXX", path[64];
static struct settings fresh;

static int make_folder(void **state)
{
	settings_init();
	os_init(NULL);
	fresh = hak_settings;
	if (mkdtemp(folder) == NULL)
		return -1;
	snprintf(path, sizeof path, "%s/conf", folder);
	return 0;
}

static int remove_folder(void **state)
{
	return rmdir(folder);
}

static int remove_path(void **state)
{
	os_init(NULL);
	return remove(path);
}

static void write_file(const char *contents)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(contents, file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, 0644), 0);
}

/* Settings by the file and these variables; NULL: none. No descriptor may stay open. */
static const struct settings *load(const char *first, const char *second)
{
	char *env[] = {(char[]){"PATH=/bin"}, (char *)(uintptr_t)first, (char *)(uintptr_t)second, NULL};
	int before = dup(0), after;

	close(before);
	hak_settings = fresh;
	conf_load_from(path, env);
	after = dup(0);
	close(after);
	assert_int_equal(after, before);
	return &hak_settings;
}

static bool file_is_ignored(void)
{
	return memcmp(load(NULL, NULL), &fresh, sizeof fresh) == 0;
}

/* ---- which one wins ---- */

static void environment_wins_over_file(void **state)
{
	write_file("purge_delay = 5\nthp = never\nTHP = always\n");
	assert_int_equal(load("HAKMEM_PURGE_DELAY=7", NULL)->purge_delay_ms, 7);
	assert_int_equal(hak_settings.thp, THP_ALWAYS);
	assert_int_equal(load("HAKMEM_PURGE_DELAY=7", "HAKMEM_PURGE_DELAY=8")->purge_delay_ms, 8);
	assert_int_equal(load("HAKMEM_PURGE_DELAY=x", NULL)->purge_delay_ms, 5);
}

static void profile_in_file_yields_to_its_lines(void **state)
{
	write_file("purge_delay = 5\nprofile = lean\ntiny_cache = 9\n");
	assert_int_equal(load(NULL, NULL)->purge_delay_ms, 5);
	assert_int_equal(hak_settings.cache_blocks, 9);
	assert_int_equal(hak_settings.thp, THP_NEVER);
	assert_int_equal(load("HAKMEM_THP=always", NULL)->thp, THP_ALWAYS);
	assert_int_equal(hak_settings.cache_blocks, 9);
}

static void profile_in_environment_wins_over_file(void **state)
{
	write_file("purge_delay = 5\nprofile = throughput\nbigcache_max = 3M\n");
	assert_int_equal(load("HAKMEM_PROFILE=LEAN", "HAKMEM_TINY_CACHE=33")->purge_delay_ms, 0);
	assert_int_equal(hak_settings.thp, THP_NEVER);
	assert_int_equal(hak_settings.cache_blocks, 33);
	assert_int_equal(hak_settings.bigcache_max, 3 * HAK_MIB);
	assert_int_equal(load("HAKMEM_TINY_CACHE=33", "HAKMEM_PROFILE=LEAN")->cache_blocks, 33);
}

static void profile_default_undoes_the_files(void **state)
{
	write_file("profile = lean\nbigcache_max = 3M\n");
	assert_int_equal(load("HAKMEM_PROFILE=default", NULL)->thp, fresh.thp);
	assert_int_equal(hak_settings.cache_blocks, fresh.cache_blocks);
	assert_int_equal(hak_settings.bigcache_max, 3 * HAK_MIB);
	assert_int_equal(load("HAKMEM_PROFILE=unheard-of", NULL)->thp, THP_NEVER);
}

static void profile_named_twice_last_counts(void **state)
{
	write_file("profile = lean\nprofile = throughput\n");
	assert_int_equal(load(NULL, NULL)->thp, THP_ALWAYS);
	assert_int_equal(hak_settings.purge_delay_ms, 10000);
}

static void secure_execution_leaves_environment_alone(void **state)
{
	write_file("thp = never\n");
	os_facts.secure = true;
	assert_int_equal(load("HAKMEM_PURGE_DELAY=7", "HAKMEM_PROFILE=throughput")->thp, THP_NEVER);
	assert_int_equal(hak_settings.purge_delay_ms, fresh.purge_delay_ms);
	assert_int_equal(hak_settings.profile, 0);
}

/* ---- files that are none ---- */

static void file_absent_or_odd_ignored(void **state)
{
	char elsewhere[64];

	assert_true(file_is_ignored());
	assert_int_equal(mkdir(path, 0755), 0);
	assert_true(file_is_ignored());
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(symlink("conf", path), 0);
	assert_true(file_is_ignored());
	assert_int_equal(remove(path), 0);
	assert_int_equal(symlink("/dev/zero", path), 0);
	assert_true(file_is_ignored());
	assert_int_equal(remove(path), 0);
	snprintf(elsewhere, sizeof elsewhere, "%s/none", folder);
	assert_int_equal(symlink(elsewhere, path), 0);
	assert_true(file_is_ignored());
	assert_int_equal(load("HAKMEM_PURGE_DELAY=7", NULL)->purge_delay_ms, 7);
}

/* Without writer and with one: neither may be waited for. */
static void file_fifo_not_waited_for(void **state)
{
	int fd;

	assert_int_equal(mkfifo(path, 0644), 0);
	alarm(20);
	assert_true(file_is_ignored());
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_true(write(fd, "thp = never\n", 12) == 12);
	assert_true(file_is_ignored());
	alarm(0);
	close(fd);
}

static void file_linked_followed(void **state)
{
	char target[64];

	write_file("purge_delay = 5");
	snprintf(target, sizeof target, "%s/target", folder);
	assert_int_equal(rename(path, target), 0);
	assert_int_equal(symlink("target", path), 0);
	assert_int_equal(load(NULL, NULL)->purge_delay_ms, 5);
	assert_int_equal(remove(target), 0);
}

static void file_writable_by_all_ignored(void **state)
{
	write_file("purge_delay = 5\n");
	for (int privileged = 0; privileged < 2; privileged++) {
		os_facts.privileged = privileged;
		assert_int_equal(chmod(path, 0646), 0);
		assert_true(file_is_ignored());
	}
}

static void file_of_another_user_ignored_when_privileged(void **state)
{
	write_file("purge_delay = 5\n");
	if (getuid() == 0 && chown(path, 12345, 0) != 0)
		skip();
	os_facts.privileged = true;
	assert_true(file_is_ignored());
	os_facts.privileged = false;
	assert_int_equal(load(NULL, NULL)->purge_delay_ms, 5);
}

static void file_writable_by_its_group_ignored_when_privileged(void **state)
{
	write_file("purge_delay = 5\n");
	assert_int_equal(chmod(path, 0664), 0);
	os_facts.privileged = true;
	assert_true(file_is_ignored());
	os_facts.privileged = false;
	assert_int_equal(load(NULL, NULL)->purge_delay_ms, 5);
}

static void file_unreadable_ignored(void **state)
{
	enum { NO_OTHER_USER = 77 };
	int status;
	pid_t child;

	write_file("purge_delay = 5\n");
	assert_int_equal(chmod(path, 0), 0);
	child = fork();
	if (child == 0)
		_exit(getuid() == 0 && setuid(12345) != 0 ? NO_OTHER_USER : !file_is_ignored());
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_OTHER_USER)
		skip();
	assert_int_equal(status, 0);
}

/* ---- what is said ---- */

static const char *said(const char *first, const char *second)
{
	static char text[32768];
	size_t length = 0;
	ssize_t n;
	int ends[2], status;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		load(first, second);
		_exit(0);
	}
	close(ends[1]);
	while ((n = read(ends[0], text + length, sizeof text - 1 - length)) > 0)
		length += (size_t)n;
	close(ends[0]);
	text[length] = '\0';
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	return text;
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)) != NULL; text += strlen(what))
		n++;
	return n;
}

static void nothing_said_unless_asked(void **state)
{
	write_file("nonsense\nthp=maybe\n[exe\nverbose=0");
	assert_string_equal(said("HAKMEM_NONSENSE=1", "HAKMEM_THP="), "");
}

static void verbose_names_setting_value_and_source(void **state)
{
	const char *text;

	write_file("profile = lean\npurge_delay = 5\nverbose = 1\n");
	text = said("HAKMEM_BIGCACHE_MAX=2k", NULL);
	assert_int_equal(count(text, "hakmem: verbose = 1 (file) in "), 1);
	assert_int_equal(count(text, "hakmem: profile = lean (file) in "), 1);
	assert_int_equal(count(text, "hakmem: thp = never (profile) in "), 1);
	assert_int_equal(count(text, "hakmem: purge_delay = 5 (file) in "), 1);
	assert_int_equal(count(text, "hakmem: bigcache_max = 2048 (environment) in "), 1);
	assert_int_equal(count(text, "hakmem: disable = 0 (default) in "), 1);
	assert_int_equal(count(text, "ignored"), 0);
}

static void verbose_names_what_is_not_understood(void **state)
{
	const char *text;
	char expected[256];

	write_file("# first\nnonsense\ncolour = 3\nthp = \x1b[31m\ntiny_cache = 7\n[exe\nthp=never\n");
	text = said("HAKMEM_VERBOSE=1", "HAKMEM_THP=maybe");
	snprintf(expected, sizeof expected, "hakmem: ignored: %s:2: 'nonsense' has no '=' in ", path);
	assert_int_equal(count(text, expected), 1);
	assert_int_equal(count(text, ":3: 'colour = 3' names no setting in "), 1);
	assert_int_equal(count(text, ":4: 'thp = ?[31m' has a value of the wrong kind in "), 1);
	assert_int_equal(count(text, ":5: 'tiny_cache = 7' is out of bounds in "), 1);
	assert_int_equal(count(text, ":6: '[exe' is no [exe:PROGRAM] in "), 1);
	assert_int_equal(count(text, "hakmem: ignored: 'HAKMEM_THP=maybe' has a value of the wrong kind in "), 1);
	assert_int_equal(count(text, "ignored"), 6);
	assert_int_equal(count(text, "hakmem: thp = auto (default) in "), 1);
}

static void verbose_file_of_noise_said_briefly(void **state)
{
	char noise[2001];

	for (size_t i = 0; i < sizeof noise; i++)
		noise[i] = i % 2 == 0 ? 'x' : '\n';
	noise[sizeof noise - 1] = '\0';
	write_file(noise);
	assert_int_equal(count(said("HAKMEM_VERBOSE=1", NULL), "'x' has no '='"), 19);
	assert_int_equal(count(said("HAKMEM_VERBOSE=1", NULL), "hakmem: more is ignored in "), 1);
}

static void verbose_says_why_file_is_ignored(void **state)
{
	assert_int_equal(count(said("HAKMEM_VERBOSE=1", NULL), "ignored"), 0);
	write_file("purge_delay = 5\n");
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(count(said("HAKMEM_VERBOSE=1", NULL), "/conf may be written by others in "), 1);
	assert_int_equal(remove(path), 0);
	assert_int_equal(symlink("conf", path), 0);
	assert_int_equal(count(said("HAKMEM_VERBOSE=1", NULL), "/conf cannot be read in "), 1);
	assert_int_equal(remove(path), 0);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(count(said("HAKMEM_VERBOSE=1", NULL), "/conf is no file in "), 1);
}

#define TEST(name) cmocka_unit_test_teardown(name, remove_path)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(environment_wins_over_file),
		TEST(profile_in_file_yields_to_its_lines),
		TEST(profile_in_environment_wins_over_file),
		TEST(profile_default_undoes_the_files),
		TEST(profile_named_twice_last_counts),
		TEST(secure_execution_leaves_environment_alone),
		TEST(file_absent_or_odd_ignored),
		TEST(file_fifo_not_waited_for),
		TEST(file_linked_followed),
		TEST(file_writable_by_all_ignored),
		TEST(file_of_another_user_ignored_when_privileged),
		TEST(file_writable_by_its_group_ignored_when_privileged),
		TEST(file_unreadable_ignored),
		TEST(nothing_said_unless_asked),
		TEST(verbose_names_setting_value_and_source),
		TEST(verbose_names_what_is_not_understood),
		TEST(verbose_file_of_noise_said_briefly),
		TEST(verbose_says_why_file_is_ignored),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
