/* SPDX-License-Identifier: MIT */
/*
 * fork, and what pthread_atfork calls, so that our handlers are registered only where they are needed, yet before
 * any others: in a process that never has a second thread or a handler of its own, to register them is a fifth of
 * what we cost it, and makes 64 KiB of libc resident that nothing else there reads. In such a process a fork
 * matters only to a signal handler's child that asks for memory amid an interrupted call of ours, so fork itself
 * does what the handlers would. (libc's own forks, daemon's and forkpty's, are not seen there.)
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

/* Async-signal-safe as far as libc's is: dlsym finds what there always is, and so allocates nothing. */
HAK_EXPORT pid_t fork(void) {
	static _Atomic(void *) cached;
	fork_fn *real = (fork_fn *)next_definition(&cached, "fork");
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
	atfork_fn *real = (atfork_fn *)next_definition(&cached, "__register_atfork");
	lifecycle_handle_forks(); /* comes back here */
	return real != NULL ? real(prepare, parent, child, dso) : ENOMEM;
}
#endif
