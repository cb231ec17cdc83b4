/* SPDX-License-Identifier: MIT */
/*
 * fork, and what pthread_atfork calls, so that our handlers are registered only where they are needed, yet before
 * any others: to register them takes some 3 us, and makes 64 KiB of libc resident. A process that never has a second
 * thread or a handler of its own needs none: there a fork matters only to a signal handler's child that asks for
 * memory amid an interrupted call of ours, so fork itself does what the handlers would. (libc's own forks, daemon's
 * and forkpty's, are not seen there.)
 */
#include "abi/fork.h"

#include <errno.h>
#include <unistd.h>

#include "abi/lifecycle.h"
#include "abi/next.h"
#include "front/background.h"

#ifdef __GLIBC__
typedef pid_t fork_fn(void);
typedef int atfork_fn(void (*)(void), void (*)(void), void (*)(void), void *);
atfork_fn __register_atfork;

/* dlsym waits for the loader's lock, whose holder may wait for the calling thread; but before there is a second
   thread this has been called. It finds what there always is, and so allocates nothing. */
static fork_fn *next_fork(void) {
	static _Atomic(void *) cached;
	return (fork_fn *)next_definition(&cached, "fork");
}

/* Async-signal-safe as far as libc's is. */
HAK_EXPORT pid_t fork(void) {
	fork_fn *real = next_fork();
	if (real == NULL) {
		errno = ENOSYS;
		return -1;
	}
	if (lifecycle_has_fork_handlers())
		return real();
	fork_prepare();
	pid_t child = real();
	if (child == 0)
		fork_child();
	else
		background_release();
	return child;
}

HAK_HIDDEN __attribute__((alias("fork"), nothrow)) pid_t hak_fork(void);

/* What pthread_atfork calls. */
HAK_EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso) {
	static _Atomic(void *) cached;
	next_fork();
	atfork_fn *real = (atfork_fn *)next_definition(&cached, "__register_atfork");
	lifecycle_handle_forks(); /* comes back here */
	return real != NULL ? real(prepare, parent, child, dso) : ENOMEM;
}
#endif
