/* SPDX-License-Identifier: MIT */
/*
 * Nobody changes the allocator of a privileged program through the environment: a real program, made
 * setuid, setgid or given a capability, run by somebody else.
 * Usage: secure_driver PROGRAM; exit status 77 if this machine cannot have such programs.
 */
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "../death/child.h"

enum { NOBODY = 65534, OBEYED = 0, NOT_OBEYED = 1, SECURE = 2 };

static char *self, *program;
static char folder[64], copy[80];
static struct child_result result;

static int become_nobody_and_run(char *path)
{
	if (setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0)
		execv(path, (char *[]){path, NULL});
	perror(path);
	return 126;
}

/* The program's exit status when nobody runs it; what it said is in `result`. */
static int run_as_nobody(void)
{
	char *argv[] = {self, (char[]){"--as-nobody"}, copy, NULL};

	child_run(&result, NULL, argv, 60);
	for (int status = 0; status < 128; status++)
		if (child_exited(&result, status))
			return status;
	child_print(&result);
	return -1;
}

static void copy_program(mode_t mode, uid_t owner, gid_t group)
{
	char bytes[65536];
	ssize_t n;
	int from = open(program, O_RDONLY), to = open(copy, O_WRONLY | O_CREAT | O_TRUNC, 0755);

	assert_true(from >= 0 && to >= 0);
	while ((n = read(from, bytes, sizeof bytes)) > 0)
		assert_true(write(to, bytes, (size_t)n) == n);
	assert_int_equal(fchown(to, owner, group), 0);
	assert_int_equal(fchmod(to, mode), 0);
	close(from);
	close(to);
}

/* Tells a machine that ignores the bits from an allocator that ignores AT_SECURE. */
static void assert_environment_left_alone(void)
{
	int status = run_as_nobody();

	if ((status & SECURE) == 0 && status >= 0) {
		print_message("the system runs such programs without privileges\n");
		skip();
	}
	assert_int_equal(status, SECURE + NOT_OBEYED);
	assert_string_equal(result.err.text, "");
}

static void environment_of_plain_program_obeyed(void **state)
{
	copy_program(0755, 0, 0);
	assert_int_equal(run_as_nobody(), OBEYED);
	assert_non_null(strstr(result.err.text, "hakmem: disable = 1 (environment)"));
}

static void environment_of_setuid_program_left_alone(void **state)
{
	copy_program(04755, 0, 0);
	assert_environment_left_alone();
}

static void environment_of_setuid_to_lesser_user_left_alone(void **state)
{
	copy_program(04755, 12345, 0);
	assert_environment_left_alone();
}

static void environment_of_setgid_program_left_alone(void **state)
{
	copy_program(02755, 0, 0);
	assert_environment_left_alone();
}

static void environment_with_file_capability_left_alone(void **state)
{
	struct vfs_cap_data data = {.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE};

	copy_program(0755, 0, 0);
	data.data[0].permitted = 1u << CAP_NET_BIND_SERVICE;
	if (setxattr(copy, "security.capability", &data, sizeof data, 0) != 0) {
		print_message("no capabilities of files here\n");
		skip();
	}
	assert_environment_left_alone();
}

/* A folder where setuid counts and anybody may come. */
static bool make_folder(void)
{
	static const char *const places[] = {"/var/tmp", "/tmp", "/run", "/dev/shm"};

	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		struct statvfs fs;
		if (statvfs(places[i], &fs) != 0 || (fs.f_flag & (ST_NOSUID | ST_NOEXEC)) != 0)
			continue;
		snprintf(folder, sizeof folder, "%s/hakmem-secure-XXXXXX", places[i]);
		if (mkdtemp(folder) != NULL && chmod(folder, 0755) == 0) {
			snprintf(copy, sizeof copy, "%s/program", folder);
			return true;
		}
	}
	return false;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(environment_of_plain_program_obeyed),
		cmocka_unit_test(environment_of_setuid_program_left_alone),
		cmocka_unit_test(environment_of_setuid_to_lesser_user_left_alone),
		cmocka_unit_test(environment_of_setgid_program_left_alone),
		cmocka_unit_test(environment_with_file_capability_left_alone),
	};
	int failed;

	if (argc == 3 && strcmp(argv[1], "--as-nobody") == 0)
		return become_nobody_and_run(argv[2]);
	if (argc != 2) {
		fprintf(stderr, "usage: secure_driver PROGRAM\n");
		return 2;
	}
	self = argv[0];
	program = argv[1];
	if (getuid() != 0 || !make_folder()) {
		puts("skipped: only root can make setuid programs, and only where the file system lets it");
		return CHILD_SKIPPED;
	}
	setenv("HAKMEM_DISABLE", "1", 1);
	setenv("HAKMEM_VERBOSE", "1", 1);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(copy);
	rmdir(folder);
	return failed;
}
