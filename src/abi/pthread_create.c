/* SPDX-License-Identifier: MIT */
/*
 * pthread_create and thrd_create, to see threads end: the thread runs in a frame of ours, which gives
 * its heap up when the start routine returns, calls pthread_exit or is cancelled.
 *
 * The alternatives were tried. A pthread key takes one of those the program may use up.
 * __cxa_thread_atexit_impl takes the loader's lock, so a thread started by a library's constructor
 * that waits for it hangs at its first allocation; it remains the way for threads that come to be
 * without us, libc's own for example (lifecycle.c).
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <threads.h>

#include "abi/entry.h"
#include "abi/fork.h"
#include "abi/lifecycle.h"
#include "abi/next.h"
#include "observe/profile.h"

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int thrd_create_fn(thrd_t *, thrd_start_t, void *);

/* What the new thread is to run; the creator allocates it, the thread frees it. */
struct start {
	void *(*routine)(void *);
	thrd_start_t c11_routine; /* instead of `routine` */
	void *arg;
};

/* Of libc, looked up by who makes threads: one of them may not take the loader's lock, and what a library refers to is
   looked up at the start of every program. */
static struct {
	_Atomic(void *) set_cancel_type, register_cancel, unregister_cancel, unwind_next;
} libc;
#define LIBC(function) atomic_load_explicit(&libc.function, memory_order_relaxed) /* as in next_cached */

#ifdef __GLIBC__
/* What pthread_cleanup_push and pthread_cleanup_pop are made of. */
typedef void cancel_fn(__pthread_unwind_buf_t *);
#define __pthread_register_cancel(frame) ((cancel_fn *)LIBC(register_cancel))(frame)
#define __pthread_unregister_cancel(frame) ((cancel_fn *)LIBC(unregister_cancel))(frame)
#define __pthread_unwind_next(frame) ((cancel_fn *)LIBC(unwind_next))(frame)
#endif

HAK_EVERYDAY static void look_up(void) {
	HAK_EVERYDAY_CONST static const char set_cancel_type[] = "pthread_setcanceltype";
	next_cached(&libc.set_cancel_type, set_cancel_type);
#ifdef __GLIBC__
	HAK_EVERYDAY_CONST static const char register_cancel[] = "__pthread_register_cancel";
	HAK_EVERYDAY_CONST static const char unregister_cancel[] = "__pthread_unregister_cancel";
	HAK_EVERYDAY_CONST static const char unwind_next[] = "__pthread_unwind_next";
	next_cached(&libc.register_cancel, register_cancel);
	next_cached(&libc.unregister_cancel, unregister_cancel);
	next_cached(&libc.unwind_next, unwind_next);
#endif
}

/* Out of line: it is called once a thread. */
HAK_EVERYDAY HAK_NOINLINE static void release(struct start *start) {
	entry_release(start);
}

HAK_EVERYDAY static void ended(void *unused) {
	lifecycle_thread_exit();
}

HAK_EVERYDAY static struct start take(void *arg) {
	struct start start = *(struct start *)arg;
	release(arg);
	hak_tcache.exit_is_seen = true;
	return start;
}

/* The routine may have returned with cancellation at any instruction allowed; not in what follows. */
HAK_EVERYDAY static void defer_cancellation(void) {
	int (*set)(int, int *), before;
	*(void **)&set = LIBC(set_cancel_type);
	if (set != NULL)
		set(PTHREAD_CANCEL_DEFERRED, &before);
}

HAK_EVERYDAY static void *run(void *arg) {
	struct start start = take(arg);
	void *result;
	pthread_cleanup_push(ended, NULL);
	result = start.routine(start.arg);
	defer_cancellation();
	pthread_cleanup_pop(1);
	return result;
}

static int run_c11(void *arg) {
	struct start start = take(arg);
	int result;
	pthread_cleanup_push(ended, NULL);
	result = start.c11_routine(start.arg);
	defer_cancellation();
	pthread_cleanup_pop(1);
	return result;
}

HAK_EVERYDAY static struct start *new_start(struct start start) {
	look_up();
	fork_repair_if_due();
	/* Loads a library, which an allocation may not once there are threads. */
	if (profile_is_due())
		profile_begin(NULL);
	struct start *s = entry_malloc(sizeof *s);
	if (s != NULL)
		*s = start;
	return s;
}

HAK_EXPORT HAK_EVERYDAY int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                              void *(*routine)(void *), void *arg) {
	HAK_EVERYDAY_CONST static const char name[] = "pthread_create";
	static _Atomic(void *) cached;
	create_fn *real = (create_fn *)next_cached(&cached, name);
	int saved = errno;
	struct start *start = new_start((struct start){ .routine = routine, .arg = arg });
	errno = saved;
	if (start == NULL || real == NULL)
		return EAGAIN;
	int error = real(thread, attr, run, start);
	if (error != 0)
		release(start);
	return error;
}

HAK_EXPORT int thrd_create(thrd_t *thread, thrd_start_t routine, void *arg) {
	static _Atomic(void *) cached;
	thrd_create_fn *real = (thrd_create_fn *)next_cached(&cached, "thrd_create");
	struct start *start = new_start((struct start){ .c11_routine = routine, .arg = arg });
	if (start == NULL || real == NULL)
		return thrd_nomem;
	int error = real(thread, run_c11, start);
	if (error != thrd_success)
		release(start);
	return error;
}
