/* SPDX-License-Identifier: MIT */
/* `hakmem preload` leaves alone what others have written since it read the file. */
#include "tool/preload.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/hakmem-preload.XXXXXX", file[sizeof root + sizeof "/etc/ld.so.preload"];

static struct bytes bytes_of(const char *text)
{
	return (struct bytes){ (char *)(uintptr_t)text, strlen(text) };
}

static void put(const char *text)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static bool is(const char *text)
{
	char now[100];
	int fd = open(file, O_RDONLY);
	ssize_t n = fd >= 0 ? read(fd, now, sizeof now) : -1;

	close(fd);
	return text == NULL ? n < 0 : n == (ssize_t)strlen(text) && memcmp(now, text, strlen(text)) == 0;
}

/* NULL: not there. */
static void begin(struct preload_file *f, const char *text)
{
	int folder = open(root, O_PATH | O_DIRECTORY);

	unlink(file);
	if (text != NULL)
		put(text);
	assert_int_equal(preload_file_open(f, folder, true), TOOL_OK);
}

/* As the command's end does, with the lock. */
static void end(struct preload_file *f)
{
	close(f->folder);
	close(f->root);
}

static void changes_of_others_stay(void **state)
{
	struct preload_file f;
	(void)state;

	begin(&f, "/opt/a.so\n");
	put("/opt/a.so\n/opt/b.so\n");
	assert_int_equal(preload_file_replace(&f, bytes_of("/opt/a.so\n/lib/libhakmem.so.1\n")), TOOL_FAILED);
	assert_true(is("/opt/a.so\n/opt/b.so\n"));
	assert_int_equal(preload_file_replace(&f, bytes_of("")), TOOL_FAILED);
	assert_true(is("/opt/a.so\n/opt/b.so\n"));
	end(&f);

	begin(&f, NULL);
	put("");
	assert_int_equal(preload_file_replace(&f, bytes_of("/lib/libhakmem.so.1\n")), TOOL_FAILED);
	assert_true(is(""));
	end(&f);

	begin(&f, "/opt/a.so\n");
	unlink(file);
	assert_int_equal(preload_file_replace(&f, bytes_of("/lib/libhakmem.so.1\n")), TOOL_FAILED);
	assert_true(is(NULL));
	end(&f);
}

static void its_own_changes_are_known(void **state)
{
	static const char *const texts[] = { "/opt/a.so\n", "", "/opt/a.so\n/opt/b.so\n", "" };
	struct preload_file f;
	(void)state;

	begin(&f, NULL);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		assert_int_equal(preload_file_replace(&f, bytes_of(texts[i])), TOOL_OK);
		assert_true(is(texts[i][0] != '\0' ? texts[i] : NULL));
	}
	end(&f);
}

static int make_root(void **state)
{
	char folder[sizeof root + sizeof "/etc"];
	(void)state;

	if (mkdtemp(root) == NULL)
		return -1;
	snprintf(folder, sizeof folder, "%s/etc", root);
	snprintf(file, sizeof file, "%s/etc/ld.so.preload", root);
	return mkdir(folder, 0755);
}

static int remove_root(void **state)
{
	char folder[sizeof root + sizeof "/etc"];
	(void)state;

	snprintf(folder, sizeof folder, "%s/etc", root);
	unlink(file);
	return rmdir(folder) != 0 || rmdir(root) != 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changes_of_others_stay),
		cmocka_unit_test(its_own_changes_are_known),
	};

	return cmocka_run_group_tests(tests, make_root, remove_root);
}
