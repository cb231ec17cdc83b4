/* SPDX-License-Identifier: MIT */
#include "front/background.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings.h"
#include "common.h"
#include "os/os.h"
#include "space/purge.h"

bool __wrap_os_thread_start(struct os_thread *thread);

static unsigned starts;
static bool is_refused;
static volatile sig_atomic_t is_interrupted;
static volatile pid_t child = -1;

/* Comes amid the first start, if not held off until after it. */
bool __wrap_os_thread_start(struct os_thread *thread)
{
	if (is_interrupted) {
		is_interrupted = 0;
		CHECK(raise(SIGUSR1) == 0);
	}
	starts++;
	return !is_refused;
}

static void fork_now(int signal)
{
	child = fork();
	if (child == 0) {
		background_after_fork();
		starts = 0; /* what it is to count is its own */
	}
}

static int want_thread(void **state)
{
	starts = 0;
	hak_settings.background = true;
	hak_settings.purge_delay_ms = 1000;
	background_init();
	return 0;
}

static void child_returns_amid_start_starts_one(void **state)
{
	int status = -1;

	assert_ptr_not_equal(signal(SIGUSR1, fork_now), SIG_ERR);
	is_interrupted = 1;
	background_poke();
	background_poke();
	if (child == 0)
		_exit(starts == 1 && background_has_thread() ? 0 : 1);
	assert_int_equal(starts, 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void refused_asks_once(void **state)
{
	background_after_fork();
	is_refused = true;
	background_poke();
	background_poke();
	assert_int_equal(starts, 1);
	assert_null(hak_purge_waits);
	assert_false(background_has_thread());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(child_returns_amid_start_starts_one, want_thread),
		cmocka_unit_test_setup(refused_asks_once, want_thread),
	};

	return UNIT_RUN(tests);
}
