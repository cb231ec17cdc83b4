/* SPDX-License-Identifier: MIT */
#include "abi/fork.h"

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
#include "os/alone.h"
#include "os/os.h"
#include "slab/mosaic.h"
#include "slab/pool.h"
#include "space/meta.h"
#include "space/pagemap.h"
#include "space/purge.h"
#include "space/superslab.h"

HAK_AT_START bool hak_fork_repair_due; /* set by the thread that forks, cleared by who repairs */
static struct {
	/* Who is at it; NULL: nobody. No lock: a handler between taking it and saying so would wait for its own thread. */
	struct tcache *repairs;
	bool call_was_cut;       /* locks may have to be reset, */
	bool heaps_are_due;      /* and heaps repaired; the forking thread's stands aside till then: */
	struct tcache *of;
	struct heap *aside;      /* NULL: it had none */
} child;
/* When fork was called: there were other threads, or there may have been; this one's call was interrupted, as far as
   can be told if there were none. */
static bool was_threaded, was_interrupted;

/* Pages that are shared with children, and with the parent, are not written to without need. */
static void set_flag(bool *flag, bool value) {
	if (*flag != value)
		*flag = value;
}

static void repair(struct lock *l, void (*rebuild)(void)) {
	if (!lock_is_held(l))
		return;
	lock_reset(l);
	if (rebuild != NULL)
		rebuild();
}

/* Any lock but the purge thread's. */
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
	return libc_is_alone() || os_thread_count() == 1 + extra;
}

/* A signal handler amid this finds the thread with a heap that is busy; another thread finds it with none, and waits. */
static void repair_heaps(void) {
	struct heap *mine = child.aside;
	if (mine == NULL) {
		heap_repair_after_fork(NULL);
		return;
	}
	heap_enter(mine);
	if (child.of == &hak_tcache)
		child.of->heap = mine;
	heap_repair_after_fork(mine);
	heap_leave(mine);
	/* Release: it may be another thread that goes on with it. */
	__atomic_store_n(&child.of->heap, mine, __ATOMIC_RELEASE);
}

bool fork_repair(void) {
	/* A signal handler amid this goes on as it is. Others wait, for a moment and once. Acquire: they see what was done. */
	for (struct tcache *at = NULL; !__atomic_compare_exchange_n(&child.repairs, &at, &hak_tcache, false,
			__ATOMIC_ACQUIRE, __ATOMIC_RELAXED); at = NULL) {
		if (at == &hak_tcache)
			return false;
		os_pause();
	}
	/* Once the child has other threads it has left the handler, and the interrupted call has released its locks:
	   those that are held now are the threads'. */
	if (child.call_was_cut && is_alone(0))
		repair_shared(false);
	child.call_was_cut = false;
	if (child.heaps_are_due)
		repair_heaps();
	child.heaps_are_due = false;
	/* Release: who does not wait finds all of it done. */
	__atomic_store_n(&hak_fork_repair_due, false, __ATOMIC_RELEASE);
	__atomic_store_n(&child.repairs, NULL, __ATOMIC_RELEASE);
	return true;
}

/* Most children of threads call exec next: the blocks that the threads had in their caches are not touched, so not
   copied, and not missed where the program keeps them from children (MADV_DONTFORK), until one needs the allocator's
   slow paths. They come here first, since the thread has no heap until then. */
static void put_off_heaps(void) {
	struct tcache *t = &hak_tcache;
	if (child.heaps_are_due && child.of == t)
		return; /* since an earlier fork */
	if (child.heaps_are_due && child.aside != NULL)
		heap_enter(child.aside); /* of a thread that is gone, too: it is taken for broken */
	child.of = t;
	child.aside = t->heap;
	hak_fork_repair_due = child.heaps_are_due = true;
	if (heap_note_left(t->heap))
		t->heap = NULL;
	else
		fork_repair();
}

static bool is_in_slow_path(void) {
	return hak_tcache.heap != NULL && hak_tcache.heap->busy;
}

/* By the signal handler that calls fork, amid a call of ours. Not all of them mark the heap busy: those that
   resize a block where it is, or look inside, only take locks, which tells while there is no other thread. */
static bool is_interrupted(void) {
	return is_in_slow_path() || holds_locks();
}

/* The purge thread is not one the C library knows of. If this very thread was interrupted, the other may be
   waiting for it: then it has nothing half done that matters. */
void fork_prepare(void) {
	bool is_held = background_hold(BACKGROUND_CURT);
	set_flag(&was_interrupted, is_interrupted());
	/* The system is asked only where it matters: a sandbox may mind. */
	bool alone = is_in_slow_path() ? is_alone(background_has_thread()) : libc_is_alone();
	set_flag(&was_threaded, !(is_held || was_interrupted) || !alone);
}

void fork_child(void) {
	struct heap *mine = hak_tcache.heap;
	/* Alone it holds what it held then. */
	bool interrupted = was_threaded ? is_in_slow_path() : was_interrupted;
	hak_touch_era ^= 1;
	background_after_fork();
	misuse_after_fork(was_threaded);
	/* Of a child's child it may stand aside still. */
	struct heap *seeded = mine == NULL && child.heaps_are_due && child.of == &hak_tcache ? child.aside : mine;
	if (seeded != NULL && (seeded->thread != 0 || hak_settings.guard_rate != 0)) {
		seeded->random = 0; /* else all children have the same blocks guarded, or none */
		heap_seed(seeded);
	}
	if (interrupted && mine != NULL)
		lifecycle_forsake_heap();
	if (was_threaded) {
		repair_shared(true);
		if (child.repairs != &hak_tcache) { /* else it goes on, if the handler that called fork returns */
			child.repairs = NULL;
			put_off_heaps();
		}
	} else if (interrupted || purge_is_going_on()) {
		/* A call that resizes a block marks no heap, and while it purges it holds no lock. */
		hak_fork_repair_due = child.call_was_cut = true;
	}
}
