/*
 * purge.pml - granules that are purged while slabs come, go and are adopted, and a fork amid all
 * that.
 *
 * Models: slab_new, slab_delete, take_descriptor, put_descriptor, slab_rebuild (src/slab/slab.c),
 * pool_publish, pool_adopt, pool_reap (src/slab/pool.c), span_alloc, span_free (src/space/span.c),
 * superslab_take, superslab_put, superslab_rebuild (src/space/superslab.c), purge_superslab,
 * purge_enqueue, purge_tick, purge_after_free_locked, purge_after_fork (src/space/purge.c). One
 * SuperSlab; the purger drops the space lock around each system call. The child repairs what it
 * finds as in fork_child (src/abi/lifecycle.c).
 *
 * Abstracted: sequentially consistent memory; a slab has one granule, and one block that is with
 * the program from the moment it is carved; whether the rules of purge.c ask for a purge is left
 * open, so is whether the system refuses one. Remote lists and owners are in adopt.pml and
 * fork.pml.
 *
 * Checked:
 *   - only granules that hold nothing are purged, also while the lock is dropped: a slab that is
 *     handed out or adopted has its granule to itself, and what was written to it stays there;
 *   - memory that is said to read as zero does;
 *   - a slab is in the pool's list at most once, and in use while it is there;
 *   - whenever the space lock is free: clean is part of free, `dirty` counts what is free and not
 *     clean, and the SuperSlab is in the dirty queue if there is any;
 *   - in a child, the same after its repair; descriptors are in use or on the free list; nobody
 *     purges; a granule is neither with a slab nor free only if a thread was stopped that had it in
 *     its hands: inside slab_new or slab_delete. What was being purged is free.
 *
 * Bounds: two granules, two descriptors, THREADS threads. With FORK the child exists and every
 * store is a step; without, a section under a lock is one.
 *
 * BUG_* macros break one rule each; the checks must then fail (run.sh).
 */

#ifndef THREADS
#define THREADS 2
#endif
#define N 2 /* granules, and descriptors */

/* The space layer. */
bit space_lock, purging, ss_queued;
bit taken[N]; /* what the purger takes away, or has */
bit free[N], zero[N];
byte dirty;

/* Descriptors. */
bit slab_lock, pool_lock;
bit in_use[N], listed[N]; /* listed: on the list of free ones */
bit linked[N], published[N];
bit fresh_is_zero[N];
byte granule[N];
bit carved[N];
byte owner[N]; /* 0: nobody; else a thread's number + 1 */

/* Ghosts */
bit forked, ready;
bit out[N];      /* the slab's block is with the program */
bit written[N];  /* the granule's memory is not all zero */
byte holder[N];  /* who has the granule: */
#define NOBODY 0
#define HANDS 1  /* a thread in slab_new or slab_delete */
#define PURGER 2
#define SLAB(D) (3 + (D))

#define acquire(lock) atomic { !lock -> lock = 1 }

/* With a fork, every store under a lock is a step; without, nobody can see those in between. */
#ifdef FORK
#define section
#else
#define section atomic
#endif

inline check_space()
{
	assert(!zero[0] || free[0]);
	assert(!zero[1] || free[1]);
	assert(!zero[0] || !written[0]);
	assert(!zero[1] || !written[1]);
	assert(!free[0] || holder[0] == NOBODY);
	assert(!free[1] || holder[1] == NOBODY);
	assert(dirty == (free[0] && !zero[0]) + (free[1] && !zero[1]));
	assert(dirty == 0 || ss_queued)
}
inline release_space() { d_step { check_space(); space_lock = 0 } }

/* superslab_put of one granule. */
inline put(G, is_dirty)
{
	d_step { free[G] = 1; holder[G] = NOBODY }
	if
	:: !(is_dirty) -> zero[G] = 1
	:: else -> dirty++; ss_queued = 1
	fi
}

/* purge_superslab: all dirty granules. The space lock is held, and is dropped meanwhile. */
inline purge_begin()
{
	purging = 1;
	d_step { mask[0] = free[0] && !zero[0]; mask[1] = free[1] && !zero[1] }
#ifndef BUG_TAKEN_AFTER
	d_step { taken[0] = mask[0]; taken[1] = mask[1] }
#endif
	ss_queued = 0;
	d_step { /* one store of the mask */
#ifndef BUG_PURGE_LEAVES_FREE
		free[0] = free[0] && !mask[0];
		free[1] = free[1] && !mask[1];
#endif
		holder[0] = (mask[0] -> PURGER : holder[0]);
		holder[1] = (mask[1] -> PURGER : holder[1])
	}
#ifdef BUG_TAKEN_AFTER
	d_step { taken[0] = mask[0]; taken[1] = mask[1] }
#endif
	dirty = dirty - mask[0] - mask[1];
	space_lock = 0
}
inline purge_granule(G)
{
	if
	:: mask[G] -> d_step { assert(holder[G] == PURGER); written[G] = 0; clean[G] = 1 }
	:: mask[G] /* the system refuses */
	:: else
	fi
}
inline put_purged(G)
{
	if
#ifdef BUG_REFUSED_IS_CLEAN
	:: mask[G] -> put(G, false)
#else
	:: mask[G] -> put(G, !clean[G])
#endif
	:: else
	fi
}
inline purge_end()
{
	purge_granule(0);
	purge_granule(1);
	section {
		acquire(space_lock);
		put_purged(0);
		put_purged(1);
		d_step { taken[0] = 0; taken[1] = 0 }
		purging = 0;
		d_step { mask[0] = 0; mask[1] = 0; clean[0] = 0; clean[1] = 0; purges = 0 }
		release_space()
	}
}

/* Does somebody who holds the space lock purge? If not, the lock is released. */
inline purge_or_release()
{
	if
	:: !purging && ss_queued -> purge_begin(); purges = 1
	:: true -> release_space()
	fi
}
inline purge_rest()
{
	if
	:: purges -> purge_end()
	:: else
	fi
}

inline put_descriptor(D)
{
	section { acquire(slab_lock); in_use[D] = 0; listed[D] = 1; slab_lock = 0 }
}

inline leave_slab(D)
{
	section {
		assert(in_use[D] && !out[D] && holder[granule[D]] == SLAB(D));
		d_step { g = granule[D]; holder[g] = HANDS }
#ifdef BUG_TOUCHED_IS_CARVED
		is_dirty = carved[D] /* as if memory that was not carved were always clean */
#else
		is_dirty = carved[D] || !fresh_is_zero[D]
#endif
	}
}
inline put_span()
{
	section {
		acquire(space_lock);
		put(g, is_dirty);
		g = 0; is_dirty = 0;
		purge_or_release()
	}
	purge_rest()
}

inline slab_delete(D)
{
	leave_slab(D);
	put_descriptor(D);
	put_span()
}

inline slab_new()
{
	section {
		acquire(slab_lock);
		if
		:: listed[0] -> listed[0] = 0; d = 0; in_use[0] = 1
		:: listed[1] -> listed[1] = 0; d = 1; in_use[1] = 1
		:: else -> d = N
		fi;
		slab_lock = 0
	}
	if
	:: d < N ->
		section {
			acquire(space_lock);
			d_step { /* dirty granules first */
				if
				:: free[0] && !zero[0] -> g = 0
				:: free[1] && !zero[1] -> g = 1
				:: else -> g = (free[0] -> 0 : (free[1] -> 1 : N))
				fi
			}
			if
			:: g < N ->
				is_zero = zero[g];
				dirty = dirty - !is_zero;
				d_step { assert(holder[g] == NOBODY); holder[g] = HANDS; free[g] = 0 }
#ifndef BUG_ZERO_KEPT
				zero[g] = 0
#endif
			:: else
			fi;
			purge_or_release() /* more is in use now */
		}
		purge_rest();
		if
		:: g < N ->
			d_step {
				assert(!is_zero || !written[g]);
				assert(!linked[d]);
				granule[d] = g; fresh_is_zero[d] = is_zero; published[d] = 0; carved[d] = 0;
				owner[d] = _pid + 1; holder[g] = SLAB(d)
			}
			if /* carve, and the program writes; or not */
			:: true -> d_step { written[g] = 1; carved[d] = 1; out[d] = 1 }
			:: true
			fi
		:: else -> put_descriptor(d) /* out of memory */
		fi
	:: else
	fi;
	d_step { d = 0; g = 0; is_zero = 0 }
}

#define is_mine(D) (in_use[D] && owner[D] == _pid + 1)
#define is_linked(D) (linked[D] && published[D] && out[D])
#define some_slab(COND) if :: COND(0) -> d = 0 :: COND(1) -> d = 1 fi

active [THREADS] proctype thread() provided (ready && !forked)
{
	byte d, g;
	bit mask[N], clean[N], is_dirty, is_zero, purges;

	do
	:: slab_new()

	:: section { some_slab(is_mine); out[d] -> /* publish: its block is still out */
		owner[d] = 0;
		acquire(pool_lock);
		d_step { assert(in_use[d] && !linked[d]); published[d] = 1 }
		linked[d] = 1;
		pool_lock = 0;
		d = 0
	   }

	:: atomic { some_slab(is_mine); out[d] = 0; owner[d] = 0 } /* the owner frees the block */
	   slab_delete(d);
	   d = 0

	:: atomic { some_slab(is_linked); out[d] = 0 } /* the last block comes home: reap */
#ifdef BUG_DELETE_BEFORE_UNLINK
	   leave_slab(d);
	   put_descriptor(d);
#endif
	   section {
		acquire(pool_lock);
		d_step { assert(linked[d]); linked[d] = 0 }
		pool_lock = 0
	   }
#ifdef BUG_DELETE_BEFORE_UNLINK
	   put_span();
#else
	   slab_delete(d);
#endif
	   d = 0

	:: section { pool_lock == 0 && (is_linked(0) || is_linked(1)) -> /* adopt */
		acquire(pool_lock);
		if
		:: d_step { is_linked(0) -> d = 0; published[0] = 0 }
		:: d_step { is_linked(1) -> d = 1; published[1] = 0 }
		:: else -> d = N
		fi;
		if
		:: d < N -> linked[d] = 0
		:: else
		fi;
		pool_lock = 0;
		if
		:: d < N -> d_step {
			assert(in_use[d] && out[d] && owner[d] == 0 && !linked[d]);
			assert(holder[granule[d]] == SLAB(d) && !free[granule[d]]);
			assert(written[granule[d]]);
			owner[d] = _pid + 1
		   }
		:: else
		fi;
		d = 0
	   }

	:: section { !space_lock && !purging && ss_queued -> /* purge_tick */
		acquire(space_lock);
		purge_or_release()
	   }
	   purge_rest()
	od
}

/* What a child finds, and its repair. */
#ifdef FORK
active proctype child() provided (ready)
{
	byte d;

	atomic {
		forked = 1;
		if
		:: slab_lock -> slab_lock = 0;
			listed[0] = !in_use[0];
			listed[1] = !in_use[1]
		:: else
		fi;
		if
		:: space_lock -> space_lock = 0;
#ifndef BUG_NO_REBUILD
			ss_queued = 0;
			zero[0] = zero[0] && free[0];
			zero[1] = zero[1] && free[1];
			dirty = (free[0] && !zero[0]) + (free[1] && !zero[1]);
			ss_queued = (dirty != 0)
#endif
		:: else
		fi;
#ifndef BUG_PURGING_KEPT
		purging = 0;
#endif
#ifndef BUG_PURGED_LOST
		do
#ifdef BUG_PUT_BACK_TWICE
		:: d < N && taken[d] -> taken[d] = 0; put(d, true)
#else
		:: d < N && taken[d] && !free[d] -> put(d, true)
#endif
		:: d < N && !(taken[d] && !free[d]) -> d++
		:: else -> break
		od;
		d = 0;
#endif
		check_space();
		assert(!purging);
		assert(listed[0] == !in_use[0] && listed[1] == !in_use[1]);
		do
		:: d < N ->
			assert(free[d] || (holder[d] != NOBODY && holder[d] != PURGER)); /* else it is lost */
			assert(!out[d] || (in_use[d] && holder[granule[d]] == SLAB(d) && written[granule[d]]));
			d++
		:: else -> break
		od
	}
}
#endif

init { d_step {
	free[0] = 1; free[1] = 1; zero[0] = 1; zero[1] = 1; listed[0] = 1; listed[1] = 1; ready = 1
} }
