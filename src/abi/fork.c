/* SPDX-License-Identifier: MIT */
#include "abi/fork.h"

#include <sys/single_threaded.h>

#include "abi/lifecycle.h"
#include "front/background.h"
#include "front/bigcache.h"
#include "front/guard.h"
#include "front/large.h"
#include "front/locked_heap.h"
#include "front/misuse.h"
#include "front/quarantine.h"
#include "observe/crash.h"
#include "observe/sample.h"
#include "observe/stats.h"
#include "os/os.h"
#include "slab/mosaic.h"
#include "slab/pool.h"
#include "space/meta.h"
#include "space/pagemap.h"
#include "space/purge.h"
#include "space/superslab.h"

HAK_AT_START bool hak_fork_repair_due;
static bool was_threaded; /* there were other threads when fork was called, or there may have been */

static void repair(struct lock *l, void (*rebuild)(void)) {
	if (!lock_is_held(l))
		return;
	lock_reset(l);
	if (rebuild != NULL)
		rebuild();
}

/* Any lock but those of the purge thread and of fork itself. */
static bool holds_locks(void) {
	for (unsigned sc = 0; sc < SC_COUNT; sc++)
		if (lock_is_held(pool_lock(sc)))
			return true;
	return lock_is_held(slab_lock()) || lock_is_held(mosaic_lock()) || lock_is_held(space_lock()) ||
		lock_is_held(large_lock()) || lock_is_held(bigcache_lock()) || lock_is_held(quarantine_lock()) ||
		lock_is_held(guard_lock()) || lock_is_held(heap_registry_lock()) || lock_is_held(pagemap_lock()) ||
		lock_is_held(meta_lock()) || lock_is_held(stats_lock()) || lock_is_held(lifecycle_lock()) ||
		locked_heap_holds_locks() || sample_holds_locks();
}

/* `threads_are_gone`: who held the locks; else it was this thread's interrupted call. */
static void repair_shared(bool threads_are_gone) {
	for (unsigned sc = 0; sc < SC_COUNT; sc++)
		if (lock_is_held(pool_lock(sc))) {
			lock_reset(pool_lock(sc));
			pool_reset(sc);
		}
	repair(slab_lock(), slab_rebuild);
	repair(mosaic_lock(), mosaic_reset);
	repair(space_lock(), superslab_rebuild);
	purge_after_fork(threads_are_gone);
	repair(large_lock(), large_reset);
	repair(bigcache_lock(), bigcache_reset);
	repair(quarantine_lock(), quarantine_reset);
	repair(guard_lock(), guard_reset);
	repair(heap_registry_lock(), heap_registry_reset);
	repair(pagemap_lock(), NULL);
	repair(meta_lock(), meta_reset);
	repair(stats_lock(), NULL);
	repair(lifecycle_lock(), NULL);
	locked_heap_repair_after_fork();
	sample_after_fork();
}

/* Is there no other thread, but for `extra` of ours? libc says that there is once there was one, though it has ended;
   the system knows. */
static bool is_alone(unsigned extra) {
	return __libc_single_threaded || os_thread_count() == 1 + extra;
}

void fork_repair(void) {
	hak_fork_repair_due = false;
	/* Once the child has other threads it has left the handler, and the interrupted call has released its locks:
	   those that are held now are the threads'. */
	if (is_alone(0))
		repair_shared(false);
}

static bool is_in_slow_path(void) {
	return hak_tcache.heap != NULL && hak_tcache.heap->busy;
}

/* By the signal handler that calls fork, amid a call of ours. Not all of them mark the heap busy: those that
   resize a block where it is, or look inside, only take locks, which tells while there is no other thread. */
static bool is_interrupted(bool alone) {
	return is_in_slow_path() || (alone && holds_locks());
}

/* The purge thread is not one the C library knows of. If this very thread was interrupted, the other may be
   waiting for it: then it has nothing half done that matters. */
void fork_prepare(void) {
	bool held = background_hold() || is_interrupted(true);
	/* The system is asked only where it matters: a sandbox may mind. */
	bool alone = is_in_slow_path() ? is_alone(background_has_thread()) : __libc_single_threaded;
	was_threaded = !held || !alone;
}

void fork_child(void) {
	struct heap *mine = hak_tcache.heap;
	bool interrupted = is_interrupted(!was_threaded);
	hak_touch_era ^= 1;
	background_after_fork();
	misuse_after_fork();
	crash_after_fork();
	if (interrupted && mine != NULL)
		lifecycle_forsake_heap();
	if (was_threaded) {
		repair_shared(true);
		heap_repair_after_fork(mine);
	} else {
		/* A call that resizes a block marks no heap, and while it purges it holds no lock. */
		hak_fork_repair_due |= interrupted || purge_is_going_on();
	}
}
