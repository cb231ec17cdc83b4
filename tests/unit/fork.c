/* SPDX-License-Identifier: MIT */
/* A signal handler that forks amid a purge of the only thread's, which holds no lock then. */
#include "abi/fork.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/settings.h"
#include "common.h"
#include "os/os.h"
#include "space/pagemap.h"
#include "space/purge.h"

enum { SPANS = 40, SPAN = 4 }; /* 10 MiB in granules of 64 KiB */

/* Called amid the first purge, in the child. */
static void (*in_child)(void);
static pid_t child;

bool __wrap_os_purge(void *addr, size_t size);
bool __real_os_purge(void *addr, size_t size);
bool __wrap_os_purge(void *addr, size_t size)
{
	void (*call)(void) = in_child;

	if (call != NULL) {
		in_child = NULL;
		fork_prepare();
		child = fork();
		if (child == 0) {
			fork_child();
			call();
		}
	}
	return __real_os_purge(addr, size);
}

static void make_dirty(void)
{
	struct span spans[SPANS];

	for (int i = 0; i < SPANS; i++)
		assert_true(span_alloc(SPAN, SPAN_DENSE, 0, &spans[i]));
	for (int i = 0; i < SPANS; i++)
		span_free(&spans[i], SPAN * GRANULE);
	assert_int_equal(hak_space.dirty, SPANS * SPAN);
}

/* Exit status of the child, which runs `call` and may return from it into the purge. */
static int status_of_child(void (*call)(void))
{
	int status = -1;
	size_t live;

	hak_settings.purge_delay_ms = 60000;
	make_dirty();
	live = hak_space.live;
	in_child = call;
	purge_all(0);
	if (child == 0)
		_exit(hak_space.dirty == 0 && hak_space.live == live && superslab_check() == NULL ? 0 : 1);
	assert_int_equal(hak_space.dirty, 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

/* What a child finds resident it shares. Here libc calls the handlers, which are registered (abi/lifecycle.c). */
static void child_is_of_another_era(void **state)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(hak_touch_era);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), !hak_touch_era);
}

/* fork_repair_if_due: as whoever asks for memory does first. */
static void purge_and_end(void)
{
	size_t before;

	fork_repair_if_due();
	before = hak_space.dirty;
	_exit(before > 0 && purge_all(1) && hak_space.dirty < before ? 0 : 1);
}

static void return_at_once(void)
{
}

static void use_memory(void)
{
	struct span span;

	fork_repair_if_due();
	assert_true(span_alloc(SPAN, SPAN_DENSE, 0, &span));
	span_free(&span, SPAN * GRANULE);
}

static void purge_more(void)
{
	use_memory();
	if (!purge_all(GRANULE))
		_exit(2);
}

static void child_that_does_not_return_purges(void **state)
{
#ifdef __SANITIZE_THREAD__
	skip(); /* it starts a thread of its own in the child, which so is no longer alone */
#endif
	assert_int_equal(status_of_child(purge_and_end), 0);
}

static void child_that_returns_ends_the_purge(void **state)
{
	assert_int_equal(status_of_child(return_at_once), 0);
	assert_int_equal(status_of_child(use_memory), 0);
	assert_int_equal(status_of_child(purge_more), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(child_is_of_another_era),
		cmocka_unit_test(child_that_does_not_return_purges),
		cmocka_unit_test(child_that_returns_ends_the_purge),
	};

	return UNIT_RUN(tests);
}
