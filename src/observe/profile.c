/* SPDX-License-Identifier: MIT */
#include "observe/profile.h"

#include <errno.h>
#include <unistd.h>

#include "base/report.h"
#include "base/settings.h"
#include "front/sampling.h"
#include "observe/sample.h"
#include "observe/stack.h"
#include "observe/stats.h"
#include "os/lock.h"
#include "os/os.h"

bool hak_profile_due;

static volatile bool is_asked; /* by a signal: sampling is switched on as soon as it can be */

/* With the lock, which it releases. */
static bool write_file(void) {
	int error = profile_write(hak_settings.sample_file);
	lock_release(sample_file_lock());
	if (error == 0)
		return true;
	if (!stats_stderr_is_there())
		return false;
	struct line l;
	line_begin(&l);
	line_str(&l, "cannot write the heap profile: error ");
	line_dec(&l, (uint64_t)error);
	line_write(&l);
	return false;
}

/* The first switches on, the next writes and switches off. A profile that something else began goes on. While another
   thread writes, that one's is enough. */
static void switch_over(void) {
	if (!sample_is_on()) {
		is_asked = true;
		if (sample_is_prepared())
			sample_on();
		return;
	}
	sample_off();
	if (lock_acquire_slow(sample_file_lock(), false)) /* which tries, too, and waits no longer than a moment */
		(void)write_file();
}

static void handle(int signal) {
	int saved = errno;
	switch_over();
	errno = saved;
}

HAK_EVERYDAY void profile_init(void) {
	if (hak_settings.disable)
		return;
	if (hak_settings.sample_signal != 0)
		os_handle_signal((int)hak_settings.sample_signal, handle);
	if (hak_settings.sample == 0 && hak_settings.sample_signal == 0)
		return;
	hak_profile_due = true;
	sampling_set(0); /* brings every thread by */
}

/* clearenv takes away the environment, but not the program's name. */
static bool libc_is_initialised(void) {
	if (__environ != NULL)
		return true;
	char *const *name = os_symbol("program_invocation_name");
	return name != NULL && **name != '\0';
}

void profile_begin(const void *caller) {
	/* Loading a library before libc is initialised would do that, without arguments and environment. Of
	   several threads one is the first. */
	if ((caller != NULL && !stack_may_prepare(caller)) || !libc_is_initialised())
		return;
	if (!__atomic_exchange_n(&hak_profile_due, false, __ATOMIC_ACQ_REL))
		return;
	int saved = errno;
	if (hak_settings.sample != 0)
		sample_start(hak_settings.sample, caller);
	else if (sample_prepare(caller) && is_asked && !sample_is_on())
		sample_on();
	errno = saved;
}

HAK_EVERYDAY void profile_end(void) {
	if (hak_settings.sample == 0 && hak_settings.sample_signal == 0)
		return; /* most processes; what follows lies on a page that they have no need of */
	if (sample_mean() == 0)
		return;
	lock_acquire(sample_file_lock()); /* another thread may be writing one */
	if (hak_settings.sample == 0)
		return; /* with the lock: it is too late for another one */
	sample_stop();
	bool is_written = write_file();
	if (stats_stderr_is_there())
		profile_report(is_written);
}
