/*
 * adopt.pml - thread exit, orphan slabs, adoption, and heap structs that live again.
 *
 * Models: heap_acquire, heap_retire (src/front/heap_registry.c), heap_drain_inbox, heap_delete_if_empty
 * (src/front/heap_slabs.c), remote_post, remote_route, remote_collect, remote_unqueue, remote_all_home, remote_disown
 * (src/slab/remote.c), pool_publish, pool_adopt, pool_reap (src/slab/pool.c), and free's choice between a local and a
 * remote free by the owner tag in the page map. Each thread opens a heap and exits again any number of times, at any
 * point of another thread's remote free, so heap structs and their ids are reused; while it has no heap it still frees
 * blocks. A fork at any of these points is in fork.pml.
 *
 * The word `remote` of a slab is {list, count, QUEUED, PUBLISHED}:
 *   neither flag      nobody but the owner, or a thread that holds one of its blocks, may touch the slab; the
 *                     owner may have left blocks on the list (remote_unqueue), since it had others
 *   QUEUED            the slab is in one inbox, or in the hands of one thread that routes it
 *   QUEUED+PUBLISHED  the slab is on the pool's list; `count` is then not the length of the list but the
 *                     number of blocks still out, so the poster that brings it to 0 knows that it is the
 *                     last one, and nobody else may remove the slab: it unlinks and releases it (reap)
 *
 * Abstracted: sequentially consistent memory; blocks of a slab have no identity, only their numbers
 * count (links are the business of remote_inbox.pml); a CAS loop is one step; so is a section under the pool
 * lock, as each holds one access to `remote` that a thread without the lock can see (BUG_PUBLISH_UNLOCKED
 * shows that the lock matters). One size class. A slab's page-map tags are one variable.
 *
 * Checked, over all interleavings and runs of any length:
 *   - owner-private fields are touched only by the owner, and a free that believes itself local is so;
 *   - no slab is in two queues; none is released while it is queued, while a block is out, or while
 *     another thread will still touch it (so none is touched after it was reused);
 *   - routing ends: it looks at most twice at the owner;
 *   - a slab that is adopted has a block to give;
 *   - whenever no thread is in the middle of an operation: QUEUED <=> the slab is in the inbox of an open heap or
 *     published; a free block is in a slab that is owned or queued; blocks are neither lost nor doubled; no slab
 *     without an owner has all of its blocks home;
 *   - no deadlock, and the same at the end when all threads have gone.
 *
 * Bounds: THREADS threads, HEAPS heap structs, SLABS slabs of PER_SLAB blocks; batches of one and two blocks.
 *
 * BUG_* macros break one rule each; the checks must then fail (run.sh).
 */

#ifndef SLABS
#define SLABS 1
#endif
#ifndef PER_SLAB
#define PER_SLAB 2
#endif
#ifndef HEAPS
#define HEAPS 2
#endif
#ifndef THREADS
#define THREADS 3
#endif

#define NOBODY 0
#define EMPTY 0    /* inbox: open, no slab in it */
#define CLOSED 255 /* inbox: nobody will drain it */
#define POOL 100   /* where_queued: the pool's published list */

/* The id a thread without a heap compares with tags. It must differ from the tag of a slab without an owner. */
#ifdef BUG_HEAPLESS_IS_NOBODY
#define HEAPLESS NOBODY
#else
#define HEAPLESS 254
#endif

/* Slabs and heaps count from 1; element 0 is not used. */
byte owner[SLABS + 1];
byte tag[SLABS + 1];
byte unused[SLABS + 1];  /* owner-private: blocks on the own list or not yet carved */
byte used[SLABS + 1];    /* owner-private: PER_SLAB - unused */
byte listed[SLABS + 1];  /* blocks on the remote list */
byte count[SLABS + 1];
bit queued[SLABS + 1];
bit published[SLABS + 1];
byte inbox_next[SLABS + 1];
byte of_heap[SLABS + 1]; /* the heap that has the slab on its list of slabs */

byte inbox[HEAPS + 1] = CLOSED;
bit taken[HEAPS + 1]; /* not on the list of free heap structs */

/* Ghosts */
bit live[SLABS + 1];
byte out[SLABS + 1];          /* blocks in use by the program */
byte where_queued[SLABS + 1]; /* 0, a heap whose inbox holds it, or POOL */
byte touchers[SLABS + 1];     /* threads that hold no block but will touch the slab */
byte busy;                    /* threads in the middle of an operation */

inline begin() { busy++ }

inline check(S)
{
	if
	:: live[S] ->
		assert(unused[S] + listed[S] + out[S] == PER_SLAB);
		assert(unused[S] + used[S] == PER_SLAB);
		assert(count[S] == (published[S] -> out[S] : listed[S]));
		assert(touchers[S] == 0);
		assert(queued[S] == (where_queued[S] != 0));
		assert(published[S] == (where_queued[S] == POOL));
		assert(listed[S] == 0 || queued[S] || owner[S] != NOBODY);
		if
		:: owner[S] != NOBODY ->
			assert(taken[owner[S]] && tag[S] == owner[S] && of_heap[S] == owner[S]);
			assert(!queued[S] || where_queued[S] == owner[S])
		:: else ->
#ifndef BUG_TAG_KEPT
			assert(tag[S] == NOBODY);
#endif
			assert(of_heap[S] == NOBODY);
			/* No free block is out of reach: published, or in the inbox of a heap that will pass it on. */
			assert(queued[S] || out[S] == PER_SLAB);
			assert(!queued[S] || published[S] || inbox[where_queued[S]] != CLOSED);
			/* The last block that comes home releases the slab. */
			assert(!published[S] || out[S] > 0)
		fi
	:: else ->
		assert(out[S] == 0 && touchers[S] == 0 && where_queued[S] == 0)
	fi
}

/* The end of an operation. When no other one is under way, look at the whole. */
inline end()
{
	busy--;
	if
	:: busy == 0 ->
		check(1)
#if SLABS > 1
		; check(2)
#endif
	:: else
	fi
}

inline release(S)
{
	assert(live[S] && out[S] == 0);
	assert(where_queued[S] == 0 && touchers[S] == 0);
	live[S] = 0; owner[S] = NOBODY; tag[S] = NOBODY; of_heap[S] = NOBODY;
	unused[S] = 0; used[S] = 0;
	listed[S] = 0; count[S] = 0; queued[S] = 0; published[S] = 0; inbox_next[S] = 0
}

/* The owner takes the remote list home. Leaves QUEUED as it is. */
inline collect(S)
{
	assert(live[S] && owner[S] == h && of_heap[S] == h && !published[S]);
	assert(count[S] == listed[S] && used[S] >= count[S]);
	unused[S] = unused[S] + listed[S];
	used[S] = used[S] - count[S];
	listed[S] = 0; count[S] = 0
}

/* The owner has just taken the slab out of a queue, and leaves the remote list. */
inline unqueue(S)
{
#ifdef BUG_UNQUEUE_DROPS
	listed[S] = 0; count[S] = 0;
#endif
	queued[S] = 0
}

/* Likewise, but takes the remote list if its own is empty; blocks not carved yet do not count for that, and `unused`
   does not tell them from the own list. */
inline collect_or_unqueue(S)
{
	if
	:: true -> collect(S); queued[S] = 0
	:: unused[S] > 0 -> unqueue(S)
	fi
}

/* Precondition: QUEUED is set, this thread is the only router, and the slab has no owner. */
inline publish(S)
{
	assert(live[S] && queued[S] && !published[S] && owner[S] == NOBODY);
#ifdef BUG_PUBLISH_UNLOCKED
	d_step {
		if
		:: count[S] == used[S] -> touchers[S]--; release(S)
		:: unused[S] == 0 && count[S] == 0 -> touchers[S]--; queued[S] = 0
		:: else -> published[S] = 1; count[S] = used[S] - count[S]; mine = 1
		fi
	}
	if
	:: mine -> d_step { where_queued[S] = POOL; touchers[S]--; mine = 0 }
	:: else
	fi
#else
	d_step {
		touchers[S]--;
		if
#ifndef BUG_PUBLISH_UNCOUNTED
		:: count[S] == used[S] -> release(S) /* every block is home */
#endif
#ifndef BUG_PUBLISH_FULL
		:: unused[S] == 0 && count[S] == 0 ->
			/* Nothing to adopt. The next poster becomes the router. */
			queued[S] = 0
#endif
		:: else ->
			assert(where_queued[S] == 0);
			published[S] = 1; count[S] = used[S] - count[S];
			where_queued[S] = POOL
		fi
	}
#endif
}

/* Precondition: QUEUED is set and this thread is the only router. */
inline route(S)
{
	assert(live[S] && queued[S]);
	looks = 0;
	do
	:: o = owner[S];
	   looks++;
	   assert(looks <= 2);
	   if
	   :: o == NOBODY -> publish(S); break
	   :: else ->
		if
		:: d_step { /* the push: a CAS loop */
			inbox[o] != CLOSED ->
			assert(live[S] && where_queued[S] == 0);
			inbox_next[S] = inbox[o]; inbox[o] = S; where_queued[S] = o;
			touchers[S]--
		   }
		   break
		:: d_step { inbox[o] == CLOSED -> skip } /* the owner exits: it has disowned the slab */
		fi
	   fi
	od;
	o = 0; looks = 0
}

/* Some slab that satisfies a condition; the caller cannot go on if there is none. */
#if SLABS == 1
#define some_slab(COND) if :: COND(1) -> s = 1 fi
#else
#define some_slab(COND) if :: COND(1) -> s = 1 :: COND(2) -> s = 2 fi
#endif
#define is_unmapped(S) (h != NOBODY && !live[S])
#define has_unused(S) (h != NOBODY && of_heap[S] == h && unused[S] > 0)
#define has_out(S) (out[S] > 0)
#define has_listed(S) (h != NOBODY && of_heap[S] == h && listed[S] > 0)
#ifdef BUG_RELEASE_QUEUED
#define is_all_home(S) (h != NOBODY && of_heap[S] == h && used[S] == count[S])
#else
#define is_all_home(S) (h != NOBODY && of_heap[S] == h && used[S] == count[S] && !queued[S])
#endif
/* count 0: its last poster is about to reap it */
#ifdef BUG_ADOPT_TAKES_REAPED
#define is_adoptable(S) (h != NOBODY && where_queued[S] == POOL)
#else
#define is_adoptable(S) (h != NOBODY && where_queued[S] == POOL && count[S] > 0)
#endif

#ifdef BUG_LEFT_UNCLAIMED
#define gives(S) (unused[S] > 0)
#else
#define gives(S) (unused[S] > 0 || listed[S] > 0)
#endif

inline disown(S)
{
	claim = gives(S);
	/* Then the tag: a later thread has this id again, and after the next steps the slab is not ours. */
#ifndef BUG_TAG_KEPT
	tag[S] = NOBODY;
#endif
	/* Then QUEUED, while the slab still has an owner: without it, and without an owner, anyone may adopt and
	   release the slab, and we could not touch it again. If it was set, its router finds nobody.
	   A list that grows after the look at it is its poster's business, one left there before is ours. */
#ifdef BUG_CLAIM_AFTER
	d_step { claim = gives(S); touchers[S] = touchers[S] + claim; owner[S] = NOBODY; of_heap[S] = NOBODY }
	if
	:: claim -> d_step { old_queued = queued[S]; queued[S] = 1; touchers[S] = touchers[S] - old_queued }
	:: else -> old_queued = 1
	fi;
#else
	d_step {
		old_queued = 1;
		if
		:: claim -> old_queued = queued[S]; queued[S] = 1
		:: else /* nothing to adopt: the first poster will be the router */
		fi;
		touchers[S] = touchers[S] + !old_queued
	}
	d_step { of_heap[S] = NOBODY; owner[S] = NOBODY }
#endif
	if
	:: !old_queued -> publish(S)
	:: else /* not touched again */
	fi;
	old_queued = 0; claim = 0
}

active [THREADS] proctype thread()
{
	byte h, s, k, o, looks, L, next;
	bit old_queued, last, mine, claim;

	do
	:: h == NOBODY -> break /* the thread ends */

	:: atomic { /* open a heap struct, fresh or used before */
		if
		:: h == NOBODY && !taken[1] -> h = 1
		:: h == NOBODY && HEAPS > 1 && !taken[HEAPS] -> h = HEAPS
		fi;
		begin();
		taken[h] = 1
	   }
	   d_step { assert(inbox[h] == CLOSED); inbox[h] = EMPTY; end() }

	:: atomic { /* a fresh slab: the space layer gives it to one thread */
		some_slab(is_unmapped);
		live[s] = 1; owner[s] = h; tag[s] = h; of_heap[s] = h; unused[s] = PER_SLAB; s = 0
	   }

	:: atomic { /* malloc */
		some_slab(has_unused);
		assert(live[s] && owner[s] == h && tag[s] == h && !published[s]);
		unused[s]--; used[s]++; out[s]++; s = 0
	   }

	:: atomic { /* free: one block, or a batch */
		some_slab(has_out);
		if
		:: k = 1
		:: out[s] > 1 -> k = 2
		fi;
		out[s] = out[s] - k;
		begin()
	   }
	   mine = (tag[s] == (h == NOBODY -> HEAPLESS : h));
	   if
	   :: mine ->
		d_step {
			assert(live[s] && owner[s] == h && of_heap[s] == h && !published[s]);
			unused[s] = unused[s] + k; used[s] = used[s] - k;
			mine = 0; k = 0; s = 0;
			end()
		}
	   :: else ->
		/* post */
		d_step {
			assert(live[s]);
			old_queued = queued[s]; queued[s] = 1;
			listed[s] = listed[s] + k;
			if
			:: published[s] -> count[s] = count[s] - k; last = (count[s] == 0)
			:: else -> count[s] = count[s] + k; last = 0
			fi;
			touchers[s] = touchers[s] + (!old_queued || last);
#ifdef BUG_TOUCH_AFTER_POST
			touchers[s] = touchers[s] + (old_queued && !last);
#endif
			k = 0
		}
		if
		:: last -> /* reap, under the pool lock */
			d_step {
				assert(where_queued[s] == POOL && published[s] && owner[s] == NOBODY);
				where_queued[s] = 0; touchers[s]--;
				release(s)
			}
		:: !last && !old_queued -> route(s)
		:: else /* not touched again: it may be gone */
#ifdef BUG_TOUCH_AFTER_POST
			touchers[s]-- /* as if used and owner were read here */
#endif
		fi;
		atomic { old_queued = 0; last = 0; s = 0; end() }
	   fi

	:: atomic { /* refill takes the list and leaves QUEUED */
		some_slab(has_listed);
		collect(s); s = 0
	   }

	:: atomic { /* an empty slab goes back, now or after any other steps */
		some_slab(is_all_home);
		begin()
	   }
	   d_step { release(s); s = 0; end() }

	:: atomic { h != NOBODY && inbox[h] != EMPTY -> /* drain */
		begin();
		L = inbox[h]; inbox[h] = EMPTY
	   }
	   do
	   :: L != 0 ->
		d_step {
			assert(live[L] && queued[L] && where_queued[L] == h);
			next = inbox_next[L]; inbox_next[L] = 0;
			where_queued[L] = 0; touchers[L]++
		}
		if
#ifndef BUG_DRAIN_BLIND
		:: owner[L] != h -> route(L) /* pushed here for an earlier life of this heap */
#endif
		:: else -> atomic { unqueue(L); touchers[L]-- }
		fi;
		L = next; next = 0
	   :: else -> break
	   od;
	   atomic { end() }

	:: atomic { /* adopt: unlink under the pool lock; the slab is in our hands as in a router's */
		some_slab(is_adoptable);
		begin();
		assert(live[s] && queued[s] && published[s] && owner[s] == NOBODY);
		published[s] = 0; count[s] = used[s] - count[s];
		where_queued[s] = 0; touchers[s]++
	   }
	   /* The owner first: a thread that posts after QUEUED is clear must find the new inbox. */
#ifdef BUG_ADOPT_CLEARS_FIRST
	   queued[s] = 0;
#endif
	   owner[s] = h;
	   tag[s] = h;
	   atomic {
		of_heap[s] = h;
		collect_or_unqueue(s);
		touchers[s]--;
		assert(unused[s] > 0);
		s = 0;
		end()
	   }

	:: atomic { h != NOBODY -> begin(); s = 1 } /* exit */
#ifdef BUG_CLOSE_FIRST
	   d_step { L = inbox[h]; inbox[h] = CLOSED }
#endif
	   do
	   :: s <= SLABS ->
		if
		:: of_heap[s] == h ->
			if
			:: is_all_home(s) -> d_step { release(s) }
			:: else -> disown(s)
			fi
		:: else
		fi;
		s++
	   :: else -> break
	   od;
	   /* Close only now: whoever finds the inbox closed then finds no slab that names this heap. */
#ifndef BUG_CLOSE_FIRST
	   atomic { s = 0; L = inbox[h]; inbox[h] = CLOSED }
#endif
#ifdef BUG_NO_LAST_DRAIN
	   L = 0;
#endif
	   do
	   :: L != 0 ->
		d_step {
			assert(live[L] && queued[L] && where_queued[L] == h);
			next = inbox_next[L]; inbox_next[L] = 0;
			where_queued[L] = 0; touchers[L]++
		}
		route(L);
		L = next; next = 0
	   :: else -> break
	   od;
	   atomic { s = 0; taken[h] = 0; h = 0; end() }
	od
}
