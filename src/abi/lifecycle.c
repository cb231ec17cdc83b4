/* SPDX-License-Identifier: MIT */
#include "abi/lifecycle.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "abi/conf.h"
#include "abi/descriptor.h"
#include "abi/fork.h"
#include "base/settings.h"
#include "front/alloc.h"
#include "front/background.h"
#include "front/bigcache.h"
#include "front/details.h"
#include "front/secure.h"
#include "front/sleepers.h"
#include "front/watch.h"
#include "observe/crash.h"
#include "observe/profile.h"
#include "observe/stats.h"
#include "os/alone.h"
#include "os/os.h"
#include "os/trace.h"

/* Registers a destructor for the end of the thread, without a pthread key: a process may use all of
   those itself. `dso` is any address in the library, here and below. */
int __cxa_thread_atexit_impl(void (*dtor)(void *), void *arg, void *dso);
#ifdef __GLIBC__
/* What pthread_atfork calls, which would be linked into the library, behind what few processes run. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);
#define pthread_atfork(prepare, parent, child) __register_atfork(prepare, parent, child, &process)
#endif

/* Who links a part of the archive has its malloc, too, whether or not it calls it by name: strdup does. */
__asm__(".globl malloc");

HAK_AT_START static struct {
	struct lock lock;         /* guards the making of what follows */
	_Atomic bool ready;
	bool settings_loaded;
	_Atomic bool has_fork_handlers;
	_Atomic(struct locked_heap *) late;
} process;

/* ---- process ---- */

HAK_COLD void lifecycle_forsake_heap(void) {
	struct tcache *t = &hak_tcache;
	heap_forsake(t->heap); /* which has emptied the bins */
	tcache_count_frees(NULL, TAG_MATCHES_NONE);
	if (t->forsaken == NULL)
		t->forsaken = t->heap;
	t->heap = NULL;
}

/* If hardening is on, what the loader allocated before came from a heap without it, which is left as it
   is. */
HAK_EVERYDAY static void load_settings(char *const *env) {
	if (process.settings_loaded)
		return;
	process.settings_loaded = true;
	conf_load(env);
	os_name_early_maps();
	background_init();
	secure_init();
	if (hak_settings.secure == 0 || hak_tcache.heap == NULL)
		return;
	lifecycle_forsake_heap();
}

/* At the first allocation of the process, so that in the child ours run before any handler that allocates, forks
   or starts a thread. Nor could a later allocation do it: libc may be amid one with its list of handlers locked. */
HAK_EVERYDAY static void register_fork_handlers(void) {
	/* Relaxed: once is enough, and no more than that. It comes first, since the page would be faulted in twice if it were
	   read before it is written to. */
	bool is_first = !atomic_exchange_explicit(&process.has_fork_handlers, true, memory_order_relaxed);
	os_ask_libc(); /* the handlers go by what it says */
	if (is_first)
		pthread_atfork(fork_prepare, background_release, fork_child);
}

/* `env`: as the kernel laid it down; NULL: not known where that is. */
HAK_EVERYDAY static void init_process(char *const *env) {
	register_fork_handlers();
	lock_acquire(&process.lock);
	if (!atomic_load_explicit(&process.ready, memory_order_relaxed)) {
		settings_init();
		os_init(env);
		key_init(os_facts.random);
		hak_tcache.exit_is_seen = os_thread_id() == os_process_id(); /* asked here, since a program may forbid it later */
		/* The loader allocates before libc knows the environment: then the constructor does it. */
		if (__environ != NULL)
			load_settings(__environ);
		descriptor_init();
		atomic_store_explicit(&process.ready, true, memory_order_release);
	}
	lock_release(&process.lock);
}

HAK_EVERYDAY void lifecycle_init(void) {
	/* Acquire: the key and everything else set below. */
	if (HAK_UNLIKELY(!atomic_load_explicit(&process.ready, memory_order_acquire)))
		init_process(NULL);
}

/* Linked with -z initfirst: runs before any other library's constructor, even libc's own, so libc does
   not know the environment yet; the loader hands it to constructors. Our fork handlers are thereby
   the first, too, unless the loader is older than the flag. */
HAK_EVERYDAY __attribute__((constructor(INIT_FIRST))) static void constructor(int argc, char **argv, char **env) {
	int saved = errno;
	init_process(env == argv + argc + 1 ? env : NULL); /* to a library loaded later the program's own may be handed */
	load_settings(env);
	if (HAK_UNLIKELY(os_facts.secure))
		conf_hide(env);
	bigcache_init();
	if (HAK_UNLIKELY(details_are_told()))
		trace_prepare();
	crash_init();
	profile_init();
	stats_begin();
	errno = saved; /* main must find 0, whatever a setting asked for */
}

/* Linked with -z initfirst, it also runs after the destructors of the other libraries. */
HAK_EVERYDAY __attribute__((destructor(INIT_FIRST))) static void destructor(void) {
	background_stop();
	if (hak_settings.stats != STATS_OFF || hak_settings.sample != 0)
		fork_repair_if_due();
	profile_end();
	if (hak_settings.stats != STATS_OFF)
		stats_end();
}

HAK_COLD struct locked_heap *lifecycle_late_heap(void) {
	struct locked_heap *lh = atomic_load_explicit(&process.late, memory_order_acquire);
	if (lh != NULL)
		return lh;
	lifecycle_init();
	lock_acquire(&process.lock);
	lh = atomic_load_explicit(&process.late, memory_order_relaxed);
	if (lh == NULL) {
		lh = locked_heap_new();
		/* Release: its fields. */
		atomic_store_explicit(&process.late, lh, memory_order_release);
	}
	lock_release(&process.lock);
	return lh;
}

/* ---- threads ---- */

static void leave_heap(void) {
	struct tcache *t = &hak_tcache;
	struct heap *h = t->heap;
	t->torn_down = true;
	/* While the bins are emptied a signal handler must free nothing into them: no block of slabs without an owner either,
	   whose tag is 0. */
	tcache_count_frees(NULL, TAG_MATCHES_NONE);
	t->heap = NULL;
	if (HAK_UNLIKELY(t->forsaken != NULL)) {
		heap_forget_bins(t->forsaken);
		memset(t->bin, 0, sizeof t->bin);
	}
	if (h == NULL)
		return;
	heap_enter(h);
	heap_retire(h);
}

HAK_EVERYDAY void lifecycle_thread_exit(void) {
	fork_repair_if_due();
	leave_heap();
	if (inboxes_wait())
		sleepers_relieve(true); /* the thread may have been the last to come by */
}

static void exit_hook(void *arg) {
	lifecycle_thread_exit();
}

/* Registers the exit hook for a thread that pthread_create.c does not watch. Registered first, it runs
   last. It takes the loader's lock, which is why it is not for all threads: a library's constructor
   may wait for a thread it has started while the loader holds it. libc allocates a node for it and
   aborts if it gets none, so a block of that size goes into the bin first. False: not registered, out of
   memory. */
HAK_EVERYDAY static bool register_exit(struct heap *h) {
	enum { NODE_BYTES = 4 * sizeof(void *) };
	void *p = alloc_block(h, NODE_BYTES, ALLOC_ALIGN, false);
	if (p == NULL)
		return false;
	if (!tcache_free(p, tcache_code(p)))
		free_block(h, p);
	return __cxa_thread_atexit_impl(exit_hook, NULL, &process) == 0;
}

/* A thread that could not be attached is as it was: it tries again the next time. */
static void detach(struct tcache *t) {
	struct heap *h = t->heap;
	tcache_count_frees(NULL, TAG_MATCHES_NONE); /* as in leave_heap */
	t->heap = NULL;
	heap_retire(h);
}

HAK_COLD struct lock *lifecycle_lock(void) {
	return &process.lock;
}

HAK_EVERYDAY HAK_NOINLINE static struct heap *attach(void) {
	struct tcache *t = &hak_tcache;
	struct heap *h;
	bool repaired;
	do { /* a signal handler may fork as soon as that is done */
		repaired = fork_repair_is_due() && fork_repair();
		h = t->heap; /* it stood aside: see put_off_heaps */
	} while (h == NULL && repaired);
	if (t->torn_down || h != NULL)
		return h;
	lifecycle_init();
	/* Hardened, every call is to be out of line. */
	bool inert = hak_settings.secure != 0 || t->forsaken != NULL;
	tcache_count_frees(NULL, TAG_MATCHES_NONE); /* till all of the heap is there */
	for (bool again = false; (h = heap_acquire(inert ? NULL : t->bin, false)) == NULL && !again; again = true) {
		release_unused(); /* which may take a while: */
		if (t->heap != NULL)
			return t->heap; /* a signal handler's */
	}
	if (h == NULL)
		return NULL;
	if (HAK_UNLIKELY(hak_settings.stats == STATS_OPS))
		heap_count_ops(h, h->bins);
	t->heap = h;
	heap_count_frees(h, NULL);
	watch_look(h);
	/* The thread must have its heap by now, since this allocates. */
	if (!t->exit_is_seen && !register_exit(h)) {
		heap_enter(h);
		detach(t);
		return NULL;
	}
	heap_leave(h);
	return h;
}

HAK_EVERYDAY struct heap *lifecycle_heap(void) {
	struct heap *h = hak_tcache.heap;
	return HAK_LIKELY(h != NULL) ? h : attach();
}
