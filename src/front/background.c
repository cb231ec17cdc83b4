/* SPDX-License-Identifier: MIT */
#include "front/background.h"

#include "base/bits.h"
#include "base/settings.h"
#include "front/bigcache.h"
#include "front/sleepers.h"
#include "front/tcache.h"
#include "os/alone.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/purge.h"

enum { NONE, AWAKE, ASLEEP, REFUSED, STOPPED };
enum { NAP_LEAST = 10 }; /* ms between two looks: what is due may be in other hands just now */

HAK_AT_START static struct {
	_Atomic uint32_t state;
	struct lock working; /* held by the thread while it works or holds any other lock, or by background_hold */
	struct os_thread thread;
} background;

static uint64_t next_due(void) {
	return min_size(sleepers_due(), min_size(purge_due(), bigcache_due()));
}

/* Works once. When it has to be done again; PURGE_NEVER: there is nothing. */
static uint64_t work(void) {
	lock_acquire(&background.working);
	uint64_t due = PURGE_NEVER;
	if (atomic_load_explicit(&background.state, memory_order_relaxed) != STOPPED) {
		purge_tick();
		bigcache_tick();
		if (inboxes_wait())
			sleepers_relieve(false);
		due = next_due();
	}
	lock_release(&background.working);
	return due;
}

static bool move(uint32_t from, uint32_t to) {
	/* Relaxed: what there is to do is seen under the locks that guard it. */
	return atomic_compare_exchange_strong_explicit(&background.state, &from, to, memory_order_relaxed,
	                                               memory_order_relaxed);
}

/* Whoever makes work after we have looked, under the locks that guard it, sees that we sleep. */
static void sleep_until_poked(void) {
	if (!move(AWAKE, ASLEEP))
		return;
	/* As in inboxes_count_whole. */
	atomic_thread_fence(memory_order_seq_cst);
	/* Takes locks, which fork must not find taken. */
	lock_acquire(&background.working);
	uint64_t due = next_due();
	lock_release(&background.working);
	if (due != PURGE_NEVER && move(ASLEEP, AWAKE))
		return;
	while (atomic_load_explicit(&background.state, memory_order_relaxed) == ASLEEP)
		os_wait(&background.state, ASLEEP);
}

static void run(void) {
	while (atomic_load_explicit(&background.state, memory_order_relaxed) != STOPPED) {
		uint64_t due = work(), now = os_now_ms();
		if (due == PURGE_NEVER)
			sleep_until_poked();
		else
			os_wait_ms(&background.state, AWAKE, due > now + NAP_LEAST ? due - now : NAP_LEAST);
	}
}

/* A signal handler may fork, and its child return into this: with signals blocked there either is no thread yet and
   nobody about to start one, or there is one, which the child has not. Else the child would start two, on one stack. */
static void start(void) {
	uint64_t before = os_block_signals();
	background.thread.run = run;
	background.thread.name = "hakmem-purge";
	/* Who refuses a thread once is not asked again. Then the program's threads see to it. */
	if (move(NONE, AWAKE) && !os_thread_start(&background.thread)) {
		move(AWAKE, REFUSED);
		__atomic_store_n(&hak_purge_waits, NULL, __ATOMIC_RELAXED); /* what it points to stays */
	}
	os_restore_signals(before);
}

void background_poke(void) {
	uint32_t state = atomic_load_explicit(&background.state, memory_order_relaxed);
	if (HAK_LIKELY(state == AWAKE))
		return;
	if (state == ASLEEP && move(ASLEEP, AWAKE))
		os_wake(&background.state);
	if (state == NONE)
		start();
}

HAK_EVERYDAY void background_init(void) {
	if (!hak_settings.background || hak_settings.purge_delay_ms <= 0)
		return;
	os_expect_thread();
	hak_purge_waits = background_poke;
}

HAK_EVERYDAY bool background_has_thread(void) {
	uint32_t state = atomic_load_explicit(&background.state, memory_order_relaxed);
	return state == AWAKE || state == ASLEEP;
}

bool background_is_this(void) {
	/* Relaxed: to the thread itself it is its own. */
	return __atomic_load_n(&background.thread.id, __ATOMIC_RELAXED) == os_thread_id();
}

/* ---- fork, and whoever looks at all there is ---- */

/* May the thread be at work, now or from the next call on that frees? */
static bool is_wanted(void) {
	return __atomic_load_n(&hak_purge_waits, __ATOMIC_RELAXED) != NULL;
}

static bool try_for_a_while(enum background_patience most) {
	static const uint32_t nobody_changes = 0;
	for (unsigned ms = most; ms != 0; ms--) {
		if (lock_try(&background.working))
			return true;
		os_wait_ms(&nobody_changes, 0, 1);
	}
	return false;
}

bool background_hold(enum background_patience most) {
	if (!is_wanted())
		return true;
	if (hak_tcache.background_holds == 0 && !try_for_a_while(most))
		return false;
	hak_tcache.background_holds++;
	return true;
}

void background_release(void) {
	if (hak_tcache.background_holds == 0 || --hak_tcache.background_holds != 0)
		return;
	lock_release(&background.working);
}

void background_after_fork(void) {
	if (!is_wanted())
		return;
	if (hak_tcache.background_holds == 0)
		purge_after_fork(false); /* nothing is put back yet: the space lock may be held by who is gone */
	hak_tcache.background_holds = 0;
	lock_reset(&background.working);
	background.thread.id = 0;
	atomic_store_explicit(&background.state, NONE, memory_order_relaxed);
}

/* ---- exit ---- */

HAK_EVERYDAY void background_stop(void) {
	if (!background_has_thread())
		return;
	atomic_store_explicit(&background.state, STOPPED, memory_order_relaxed);
	os_wake(&background.state);
	/* What it is doing it may finish. */
	if (background_hold(BACKGROUND_CURT))
		background_release();
}
