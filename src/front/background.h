/* SPDX-License-Identifier: MIT */
/*
 * The purge thread (HAKMEM_BACKGROUND=1): gives back what is older than the purge delay also while the
 * program idles. There is none before there is something to give back, and it sleeps while there is
 * nothing; what it does is what others do on their slow paths (purge_tick, bigcache_tick, sleepers_relieve).
 *
 *   none -> awake <-> asleep          none again in a fork child; stopped at exit
 *
 * It is started amid malloc and free, maybe with a lock held, so the C library must not be involved: its
 * pthread_create allocates, and takes locks that a thread may hold which calls free. See os_thread_start
 * for what that asks of the code that runs in it.
 *
 * fork: the thread works under a lock of its own, which the forking thread takes, so that the child finds
 * nothing half done. It waits for a bounded time: it may be a signal handler in the way of what the thread
 * waits for. After that all that is left to the child is the granules of one SuperSlab that nobody has.
 */
#ifndef HAK_FRONT_BACKGROUND_H
#define HAK_FRONT_BACKGROUND_H

#include "base/compiler.h"

/* Once the settings are known. */
void background_init(void);

/* There is something that will have to be given back. Cheap; with locks held or not. */
void background_poke(void);

/* The process ends: the thread does nothing from here on. */
void background_stop(void);

/* Is there such a thread, and is it the caller? */
bool background_has_thread(void);
bool background_is_this(void);

/* Around fork, and where all is looked at that others must not change, by the thread that does it; one amid the other.
   background_hold: is there to be no such thread, or does it hold still, also if it is started meanwhile? */
enum background_patience { /* ms */
	BACKGROUND_CURT = 100, /* fork and exit: their caller may be in the way */
	BACKGROUND_PATIENT = 10000, /* who else looks: what the thread does at a time is over by then */
};
bool background_hold(enum background_patience most);
void background_release(void);
void background_after_fork(void);

#endif
