/* SPDX-License-Identifier: MIT */
/*
 * Nobody changes the allocator of a privileged program through the environment: a real program, made
 * setuid, setgid or given a capability, run by somebody else.
 * Usage: secure_driver PROGRAM; exit status 77 if this machine, or this root, cannot have such programs. The copies
 * of PROGRAM are gone after each case, and when a signal ends the test.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "../death/child.h"

enum { NOBODY = 65534, OBEYED = 0, NOT_OBEYED = 1, SECURE = 2 };

static char *self, *program;
static char folder[64], copy[80];
static struct child_result result;

static bool become_nobody(void)
{
	return setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0;
}

/* Root of a user namespace, or one that lacks the capabilities, cannot. */
static bool can_become_nobody(void)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(!become_nobody());
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static int become_nobody_and_run(char *path)
{
	if (become_nobody())
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
	int error = 0;
	int from = open(program, O_RDONLY), to = open(copy, O_WRONLY | O_CREAT | O_TRUNC, 0755);

	assert_true(from >= 0 && to >= 0);
	while ((n = read(from, bytes, sizeof bytes)) > 0)
		assert_true(write(to, bytes, (size_t)n) == n);
	if (fchown(to, owner, group) != 0 || fchmod(to, mode) != 0)
		error = errno;
	close(from);
	close(to);
	if (error == EPERM || error == EINVAL) { /* no such user here */
		print_message("this root may not make such programs\n");
		skip();
	}
	assert_int_equal(error, 0);
}

static int remove_copy(void **state)
{
	unlink(copy);
	return 0;
}

static void remove_all_and_end(int number)
{
	unlink(copy);
	rmdir(folder);
	raise(number); /* it is as it was before */
}

/* A program with privileges must not stay behind. */
static void remove_all_at_signals(void)
{
	static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGABRT};

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		sigaction(numbers[i], &(struct sigaction){.sa_handler = remove_all_and_end, .sa_flags = (int)SA_RESETHAND}, NULL);
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
	/* A program is not even run that cannot have all of its capabilities. */
	if (prctl(PR_CAPBSET_READ, CAP_NET_BIND_SERVICE) != 1 ||
			setxattr(copy, "security.capability", &data, sizeof data, 0) != 0) {
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
		cmocka_unit_test_teardown(environment_of_plain_program_obeyed, remove_copy),
		cmocka_unit_test_teardown(environment_of_setuid_program_left_alone, remove_copy),
		cmocka_unit_test_teardown(environment_of_setuid_to_lesser_user_left_alone, remove_copy),
		cmocka_unit_test_teardown(environment_of_setgid_program_left_alone, remove_copy),
		cmocka_unit_test_teardown(environment_with_file_capability_left_alone, remove_copy),
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
	remove_all_at_signals();
	if (getuid() != 0 || !can_become_nobody() || !make_folder()) {
		puts("skipped: only root with all rights can make setuid programs, and only where the file system lets it");
		return CHILD_SKIPPED;
	}
	setenv("HAKMEM_DISABLE", "1", 1);
	setenv("HAKMEM_VERBOSE", "1", 1);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(copy);
	rmdir(folder);
	return failed;
}
