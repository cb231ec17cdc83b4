/* SPDX-License-Identifier: MIT */
#include "os/vdso.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/auxv.h>
#include <time.h>

#include "common.h"
#include "os/os.h"

enum { ODD_ERRNO = 4242 };

static bool is_hidden;

/* Instead of libc's: with is_hidden, the kernel gives no vDSO, as under valgrind and some sandboxes. */
unsigned long getauxval(unsigned long type)
{
	unsigned long (*next)(unsigned long type);

	if (type == AT_SYSINFO_EHDR && is_hidden) {
		errno = ENOENT;
		return 0;
	}
	*(void **)&next = dlsym(RTLD_NEXT, "getauxval");
	return next(type);
}

static uint64_t ms_of_system(void)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC_COARSE, &ts), 0);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void clock_is_asked(void)
{
	uint64_t before = ms_of_system(), now, after;

	errno = ODD_ERRNO;
	now = os_now_ms();
	assert_int_equal(errno, ODD_ERRNO);
	after = ms_of_system();
	assert_in_range(now, before, after);
}

/* First in the program: the clock has never been looked at. */
static void no_vdso_time_from_kernel_errno_kept(void **state)
{
	is_hidden = true;
	errno = ODD_ERRNO;
	assert_null(vdso_find("__vdso_clock_gettime"));
	assert_int_equal(errno, ODD_ERRNO);
	clock_is_asked();
	is_hidden = false;
	clock_is_asked();
}

static void function_unknown_none(void **state)
{
	errno = ODD_ERRNO;
	assert_null(vdso_find("__vdso_no_such_function"));
	assert_null(vdso_find(""));
	assert_int_equal(errno, ODD_ERRNO);
}

static void clock_found_tells_time(void **state)
{
	int (*clock)(clockid_t clock, struct timespec *ts);
	uint64_t before = ms_of_system();
	struct timespec ts;

	*(void **)&clock = vdso_find("__vdso_clock_gettime");
	if (clock == NULL)
		*(void **)&clock = vdso_find("__kernel_clock_gettime");
	if (getauxval(AT_SYSINFO_EHDR) == 0)
		skip();
	assert_non_null(clock);
	assert_int_equal(clock(CLOCK_MONOTONIC_COARSE, &ts), 0);
	assert_in_range((uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000, before, ms_of_system());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_vdso_time_from_kernel_errno_kept),
		cmocka_unit_test(function_unknown_none),
		cmocka_unit_test(clock_found_tells_time),
	};

	return UNIT_RUN(tests);
}
