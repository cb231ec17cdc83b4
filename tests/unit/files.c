/* SPDX-License-Identifier: MIT */
/* Files that the library writes: whoever may make links in the folder cannot lead it elsewhere. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/report.h"
#include "common.h"
#include "os/os.h"

static char folder[] = "/tmp/hakmem-files-XXXXXX";

static int enter(void **state)
{
	return mkdtemp(folder) != NULL && chdir(folder) == 0 ? 0 : -1;
}

static int leave(void **state)
{
	return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

static size_t size_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return (size_t)st.st_size;
}

static void file_made_and_emptied(void **state)
{
	for (int i = 0; i < 2; i++) {
		int fd = os_file_create("file");
		assert_true(fd >= 0);
		assert_int_equal(size_of("file"), 0);
		assert_int_equal(report_write(fd, "words", 5), 0);
		os_file_close(fd);
	}
	assert_int_equal(size_of("file"), 5);
	unlink("file");
}

static void failed_write_says_why(void **state)
{
	int fd = open("/dev/full", O_WRONLY);

	assert_true(fd >= 0);
	assert_int_equal(report_write(fd, "words", 5), ENOSPC);
	close(fd);
	assert_int_equal(report_write(fd, "words", 5), EBADF);
}

static bool is_pending(int number)
{
	sigset_t pending;

	assert_int_equal(sigpending(&pending), 0);
	return sigismember(&pending, number);
}

/* Of a pipe that nobody reads, and of a file as large as it may be. */
static void failed_write_sends_no_signal(void **state)
{
	struct rlimit before, none;
	sigset_t pipe_only;
	int ends[2], fd = os_file_create("file");

	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	assert_int_equal(report_write(ends[1], "words", 5), EPIPE);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	int error = report_write(fd, "words", 5);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(error, EFBIG);
	assert_false(is_pending(SIGPIPE) || is_pending(SIGXFSZ));
	/* Nor later, where it is blocked, as in a handler. What was sent before stays. */
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	assert_int_equal(sigprocmask(SIG_BLOCK, &pipe_only, NULL), 0);
	assert_int_equal(report_write(ends[1], "words", 5), EPIPE);
	assert_false(is_pending(SIGPIPE));
	raise(SIGPIPE);
	assert_int_equal(report_write(ends[1], "words", 5), EPIPE);
	assert_true(is_pending(SIGPIPE));
	assert_int_equal(sigtimedwait(&pipe_only, NULL, &(struct timespec){0}), SIGPIPE);
	assert_int_equal(sigprocmask(SIG_UNBLOCK, &pipe_only, NULL), 0);
	close(ends[1]);
	os_file_close(fd);
	unlink("file");
}

static void link_not_followed(void **state)
{
	int fd = open("other", O_WRONLY | O_CREAT, 0600);

	assert_int_equal(write(fd, "kept", 4), 4);
	close(fd);
	assert_int_equal(symlink("other", "file"), 0);
	assert_int_equal(os_file_create("file"), -ELOOP);
	assert_true(os_file_append("file") < 0);
	assert_int_equal(size_of("other"), 4);
	unlink("file");
	unlink("other");
}

static void fifo_without_reader_not_waited_for(void **state)
{
	assert_int_equal(mkfifo("file", 0600), 0);
	assert_int_equal(os_file_create("file"), -ENXIO);
	assert_true(os_file_append("file") < 0);
	unlink("file");
}

/* /dev/stderr is a link, too. */
static void system_links_followed(void **state)
{
	char path[64];
	int file = open("file", O_WRONLY | O_CREAT, 0600);

	assert_int_equal(write(file, "kept", 4), 4);
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	int fd = os_file_create(path);
	assert_true(fd >= 0);
	assert_int_equal(size_of("file"), 0);
	os_file_close(fd);
	close(file);
	unlink("file");
}

/* Where anybody may make links, whatever the folder is called. */
static void links_in_shared_memory_not_followed(void **state)
{
	char path[] = "/dev/shm/hakmem-files-XXXXXX";

	if (mkdtemp(path) == NULL)
		skip();
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(symlink("/nonexistent", path), 0);
	assert_int_equal(os_file_create(path), -ELOOP);
	unlink(path);
}

/* What the caller has open he cannot have emptied, or appended to, by a program that may more than he. */
static void privileged_program_does_not_open_the_callers_files(void **state)
{
	char path[64];
	bool secure = os_facts.secure;
	mode_t mask = umask(0);
	struct stat st;
	int file = open("file", O_WRONLY | O_CREAT, 0600);

	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	os_facts.secure = true;
	assert_int_equal(os_file_create(path), -ELOOP);
	assert_true(os_file_append(path) < 0);
	unlink("file");
	os_file_close(os_file_create("file"));
	os_facts.secure = secure;
	umask(mask);
	assert_int_equal(stat("file", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	close(file);
	unlink("file");
}

/* Neighbours in number, as those made one after the other mostly are. */
static void files_are_told_apart(void **state)
{
	enum { FILES = 8 };
	uint64_t identity[FILES];

	for (int i = 0; i < FILES; i++) {
		char name[] = {(char)('a' + i), '\0'};
		int fd = os_file_create(name);

		assert_true(fd >= 0);
		identity[i] = os_file_identity(fd);
		assert_int_not_equal(identity[i], 0);
		assert_true(os_file_identity(fd) == identity[i]);
		for (int j = 0; j < i; j++)
			assert_true(identity[j] != identity[i]);
		os_file_close(fd);
		assert_true(os_file_identity(fd) == 0);
	}
	for (int i = 0; i < FILES; i++)
		unlink((char[]){(char)('a' + i), '\0'});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_made_and_emptied),
		cmocka_unit_test(failed_write_says_why),
		cmocka_unit_test(failed_write_sends_no_signal),
		cmocka_unit_test(files_are_told_apart),
		cmocka_unit_test(link_not_followed),
		cmocka_unit_test(fifo_without_reader_not_waited_for),
		cmocka_unit_test(system_links_followed),
		cmocka_unit_test(links_in_shared_memory_not_followed),
		cmocka_unit_test(privileged_program_does_not_open_the_callers_files),
	};

	return cmocka_run_group_tests(tests, enter, leave);
}
