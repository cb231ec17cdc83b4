/* SPDX-License-Identifier: MIT */
/*
 * Purging: giving memory that holds nothing back to the system, without a thread of our own.
 *
 * Two rules, both applied on slow paths only:
 *   - amount: free dirty memory may be at most an allowance at any moment;
 *   - age: what has been dirty for longer than the decay (HAKMEM_PURGE_DELAY) goes.
 * The allowance is max(PURGE_FLOOR, live / 4). Regret keeps it from hurting programs that breathe: using
 * memory again that was purged less than a second ago doubles it, as long as live and dirty memory
 * together stay below PURGE_CEILING; a quiet second halves it. If it was wanted again for blocks of the same size,
 * the program does the same again and again; if three quarters of all had been freed before, it works in stages. Then
 * both together may be as much as was live at most in the last second, up to PURGE_BREATH, as long as each second all
 * but the floor of what is dirty is used again: what does not serve again goes as that which is live grows. Meanwhile,
 * what blocks leave unused of dirty spans goes when these are handed out, if it is much of the span, and of all (not less
 * than 1/8 of what is in use, nor than PURGE_HEAP): with sizes that differ it would add up. In a second no more of it goes
 * than is in use, or, where there are threads, than takes little of the time. What the last block did not touch is not
 * counted as dirty here (hak_space.hollow).
 *
 * What the system refuses to take, as it does locked pages, is passed over, and tried again a second later.
 *
 * No madvise at all in a heap smaller than PURGE_HEAP, unless the program asks for memory to be given back:
 * small processes run in sandboxes that forbid it.
 *
 * The dirty queue holds SuperSlabs with dirty granules, the longest dirty first. All under the space
 * lock unless the name says otherwise; the purge itself drops the lock around each system call,
 * holding the granules as if they were in use.
 */
#ifndef HAK_SPACE_PURGE_H
#define HAK_SPACE_PURGE_H

#include <stdatomic.h>

#include "space/superslab.h"

#define PURGE_FLOOR ((size_t)8 << 20)
#define PURGE_CEILING ((size_t)64 << 20)
#define PURGE_BREATH ((size_t)256 << 20)
#define PURGE_HEAP ((size_t)16 << 20)
/* ms: what was given back less than this ago was given back too early, and so long regret lasts. BigCache
   goes by it as well. */
#define PURGE_REGRET_MS 1000

/* These granules of the SuperSlab are dirty now. Its age is that of the oldest. */
void purge_enqueue(struct superslab *ss, uint32_t dirty);

/* The SuperSlab is about to be unmapped: none of its granules is dirty any longer. */
void purge_forget(struct superslab *ss);

/* Empties the queue. */
void purge_reset(void);

/* Around fork, where nothing else goes on. */
bool purge_is_going_on(void);

/* In a fork child: whoever was purging is gone, or was interrupted and goes on if the handler that forked returns. The
   space lock has been repaired if the first is so. */
void purge_after_fork(bool purger_is_gone);

/* Was some of the SuperSlab given back so short a time ago that using it again is to be regretted? Looks
   at the clock if so. Under the lock. */
bool purge_was_lately(const struct superslab *ss);

/* Clean granules of a SuperSlab that was once purged are used again. */
void purge_regret(struct superslab *ss);

/* And for blocks of the size that was there before. Under the lock. */
void purge_note_breath(void);

/* More memory is in use than before: where a program breathes, less may be kept beside it. Under the lock, which it may
   drop meanwhile. */
void purge_after_growth_locked(void);

/* Is more kept than usual, since it will be used again? Under the lock. */
bool purge_breathes(void);

/* Applies both rules; looks at the clock now and then only. */
void purge_after_free_locked(void);

/* Applies the rule of amount: memory that was just mapped elsewhere leaves less room for what is dirty. Takes
   the space lock. */
void purge_excess(void);

/* Applies the age rule. Takes the space lock. */
void purge_tick(void);

/* Purges until at most `keep` bytes are dirty; `unmaps`: unmaps what is wholly free. Takes the space lock, and waits for
   another purger, though not for long. True if anything was given back. */
bool purge_down_to(size_t keep, bool unmaps);
HAK_INLINE bool purge_all(size_t keep) {
	return purge_down_to(keep, keep == 0);
}

/* For when the system has no more address space, which purging would not help. To have waited for another purger does: what
   that had is free. */
HAK_INLINE bool purge_release_empty(void) {
	return purge_down_to(SIZE_MAX, true);
}

/*
 * Bursts: so much was freed that the rule of amount gave some of it back, or would if the program did not breathe. The
 * rest is due when the decay is over, but a program may come by no slow path by then (front/watch.h).
 */
struct purge_bursts {
	_Atomic uint32_t count;   /* not counted while one is no older than half the decay */
	_Atomic uint64_t last_ms; /* by os_now_ms */
};
extern HAK_HIDDEN struct purge_bursts hak_purge_bursts;

/* It happens now. With any lock, or none. */
void purge_note_burst(void);

/* Is the heap still so small that nothing is to be dropped by madvise? */
bool purge_is_discreet(void);
/* When the age rule has to be applied next, by os_now_ms, or PURGE_NEVER. Takes the space lock. */
#define PURGE_NEVER UINT64_MAX
uint64_t purge_due(void);

/* Called with locks held, if it is set, or was a moment ago: there is memory that will be due one day. */
extern void (*hak_purge_waits)(void);

/* Calls it, unless nothing will be purged. With any lock, or none. */
void purge_poke(void);

/* Is there anything dirty? Approximate, without the lock. */
bool purge_pending(void);

#endif
