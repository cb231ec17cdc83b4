/* SPDX-License-Identifier: MIT */
/*
 * Policy: how many blocks a bin may hold, and how many slabs of a class wait for their next use.
 *
 * Bins start small and double when they turn out too small. In all they may grow by so many bytes per
 * heap, so it matters who gets them. Tiny classes are grouped in bands C1 .. C7, Ck holding blocks of up
 * to 8 * 2^k bytes; larger ones are no band. Per heap each band is scored, every few hundred bin misses:
 *
 *   score = score / 2 + misses of its bins + 4 * slabs that had to come from where locks are
 *
 * `auto` promotes C7 and the two others with the highest score; one that is promoted is replaced only by
 * one that is a quarter better. Promoted bands may use all of the bytes and keep one more slab warm; the
 * others three quarters; some each has for itself. A band that is hardly used any longer loses what its bins have
 * grown by, and so does one that has more than its own while a needier promoted one goes without. The other profiles
 * promote once and for all.
 *
 * A heap's policy is its thread's, touched on slow paths only.
 */
#ifndef HAK_FRONT_POLICY_H
#define HAK_FRONT_POLICY_H

#include "base/bits.h"
#include "slab/size_class.h"

enum { POLICY_BANDS = 8 }; /* [0]: classes above Tiny */

struct policy {
	uint16_t misses[POLICY_BANDS], locks[POLICY_BANDS]; /* since the last scoring */
	uint32_t score[POLICY_BANDS];
	uint32_t grown[POLICY_BANDS]; /* bytes by which bins exceed their first capacity */
	uint16_t events;  /* misses since the last scoring */
	uint8_t promoted; /* bands, as bits */
	uint8_t refused;  /* bands that could not grow for want of bytes since the last scoring */
};

enum { POLICY_EVENTS = 1024 };

void policy_init(struct policy *p);

/* The band of a class; 0: none. */
HAK_INLINE unsigned policy_band(unsigned sc) {
	return sc_band(sc) % POLICY_BANDS;
}

/* A bin of the class was found empty. True: policy_rescore is due. */
HAK_INLINE bool policy_note_miss(struct policy *p, unsigned sc) {
	p->misses[policy_band(sc)]++;
	return ++p->events >= POLICY_EVENTS;
}

/* A slab of the class came from the shared pool or is fresh. */
HAK_INLINE void policy_note_lock(struct policy *p, unsigned sc) {
	p->locks[policy_band(sc)]++;
}

/* Scores all bands; `owner` is the heap's number, for the log. The bands whose bins have to shrink to their
   first capacity, as bits. */
unsigned policy_rescore(struct policy *p, unsigned owner);

/* Slabs with free blocks of a class that are kept though they are empty. */
unsigned policy_warm_slabs(const struct policy *p, unsigned sc);

/* Blocks a bin of class `sc` may hold at first, and at most. */
unsigned policy_initial_capacity(unsigned sc);
unsigned policy_max_capacity(unsigned sc);

/* Entries of the array for a bin of class `sc` that outgrew the one it had, now that it may hold `capacity` blocks. */
unsigned policy_array_length(unsigned sc, unsigned capacity);

/* Blocks to add to a bin that is too small; they count as grown. */
unsigned policy_growth(struct policy *p, unsigned sc, unsigned capacity);

/* They could not be added. */
void policy_take_back(struct policy *p, unsigned sc, unsigned more);

/* Blocks to carve at a time, of those that are wanted: a page, or where the next `resident` bytes are, what a bin wants
   that has not grown. (The thread need not be the one for which it grew.) */
unsigned policy_carve(unsigned sc, unsigned wanted, size_t resident);

#endif
