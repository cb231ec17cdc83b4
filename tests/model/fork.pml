/*
 * fork.pml - fork at any point of what other threads do to a slab and to heap structs, and the
 * child's repair.
 *
 * Models: heap_acquire, put_idle, heap_retire, fresh_slab, delete_slab, heap_drain_inbox,
 * retire_broken, disown_broken, route_lost, heap_repair_after_fork, heap_registry_reset
 * (src/front/heap.c), remote_post, remote_route, remote_collect, remote_unqueue, remote_disown
 * (src/slab/remote.c), pool_publish, pool_adopt, pool_reap, pool_reset, pool_repair
 * (src/slab/pool.c), slab_new, slab_delete (src/slab/slab.c), emptied_make, emptied_forget (src/slab/emptied.c), relieve
 * (src/front/sleepers.c), settle_unfinished (src/front/heap_fork.c), the flag `busy` (src/abi/entry.c,
 * src/abi/lifecycle.c) and fork_child.
 *
 * Threads open heaps, allocate, free, drain, adopt and exit as in adopt.pml, but here every store
 * that a child can tell from the next one is a step of its own, also under a lock. A looker takes the
 * slab out of inboxes, and empties it if all blocks have come home (LOOKS times at most). At any moment
 * one thread that is between two operations, with or without a heap, forks: the others stop for
 * ever where they are, and the child repairs what it finds. Then it frees all blocks the program
 * still has, adopts, and drains.
 *
 * Abstracted: sequentially consistent memory; one slab, so an inbox holds it or is empty; blocks
 * have no identity; bins and outboxes are the own list and the thread's hands; the half-done
 * insertion into a list under a lock is in fork_list.pml; the locks of slab descriptors and of
 * granules are in purge.pml. The interrupted call of a forking signal handler does not go on.
 *
 * Checked:
 *   - a heap is retired by the child as one in order only if its thread was in no slow path;
 *   - no block is in two places: own list, remote list, program;
 *   - blocks are lost only in the hands of a stopped thread and on the own list of a slab whose
 *     owner was stopped inside a slow path (retire_broken), a slab only inside slab_new and
 *     slab_delete;
 *   - after the repair QUEUED <=> the slab is in the pool or in the inbox of the one living heap,
 *     and not in both; nothing belongs to a dead thread; a slab without owner that has blocks to
 *     give is queued; a slab that lost nothing and whose blocks are all home is no longer there;
 *   - the same when the child has freed everything: a slab that lost nothing is deleted, once;
 *   - a slab's granule is freed once, also one that was being emptied, and the page map not written to for it after that;
 *   - no lock stays held; no heap is both idle and in use; no closed inbox is taken for a list.
 *
 * Bounds: THREADS threads, one more that may fork and the looker, HEAPS heap structs, one slab of PER_SLAB
 * blocks.
 *
 * BUG_* macros break one rule each; the checks must then fail (run.sh).
 */

#ifndef PER_SLAB
#define PER_SLAB 2
#endif
#ifndef THREADS
#define THREADS 2 /* or 3 */
#endif
#define HEAPS 2
#ifndef LOOKS
#define LOOKS 0
#endif

#define NOBODY 0
#define NEW (HEAPS + 1) /* the heap a child without one gets */
#define HEAPLESS 254
#define EMPTY 0  /* inbox: open, the slab is not in it; 1: it is */
#define CLOSED 2

bit in_use; /* the descriptor */
byte owner, tag, of_heap;
byte own, used; /* own: the own list and what is not carved yet */
byte listed, count;
bit queued, published, emptied, disowned;
bit linked; /* in the pool's list */
bit granule; /* the slab has it, by the page map */

byte inbox[HEAPS + 2] = CLOSED;
bit bins[HEAPS + 2], busy[HEAPS + 2], taken[HEAPS + 2]; /* taken: not on the list of idle heaps */
bit pool_lock, registry_lock;

/* Ghosts */
bit forked;
byte out;               /* blocks with the program */
byte hand[THREADS + 1]; /* blocks in a thread's hands, in no list; the last is the child's */
#define in_hands (hand[0] + hand[1] + (THREADS > 2 -> hand[2] : 0))
bit slow[HEAPS + 2];    /* the heap's thread is inside a slow path */
bit vanishing;          /* the slab is inside slab_new or slab_delete */

#define acquire(lock) atomic { assert(!forked || !lock); !lock -> lock = 1 }
#define enter() if :: h != NOBODY -> d_step { busy[h] = 1; slow[h] = 1 } :: else fi
#define leave() if :: h != NOBODY -> d_step { busy[h] = 0; slow[h] = 0 } :: else fi

inline slab_delete()
{
	d_step {
		assert(in_use && granule && !linked && !emptied && out == 0 && in_hands == 0);
		vanishing = 1; listed = 0; count = 0; queued = 0; published = 0; disowned = 0
	}
	owner = NOBODY;
	d_step { in_use = 0; granule = 0; tag = NOBODY; own = 0; used = 0; vanishing = 0 }
}

inline write_tag(value) { d_step { assert(granule); tag = value } }

inline free_granule() { d_step { assert(in_use && granule && out == 0 && in_hands == 0); granule = 0; tag = NOBODY } }

inline emptied_forget()
{
	assert(in_use && emptied && !granule && !linked && own == 0 && listed == 0);
#ifdef BUG_WORD_BEFORE_OWNER
	d_step { emptied = 0; disowned = 0; queued = 0; count = 0 }
	owner = NOBODY;
#else
	owner = NOBODY;
	d_step { emptied = 0; disowned = 0; queued = 0; count = 0 }
#endif
	d_step { in_use = 0; used = 0 }
}

/* Precondition: QUEUED is set, this thread is the only router, and the slab has no owner. */
inline pool_publish()
{
	acquire(pool_lock);
	d_step {
		assert(in_use && queued && !published && owner == NOBODY);
		if
		:: count == used -> fate = 1
		:: count != used && (own > 0 || count > 0) -> published = 1; disowned = 0; count = used - count; fate = 2
		:: else -> queued = 0; disowned = 0
		fi
	}
	if
	:: fate == 2 -> d_step { assert(!linked); linked = 1 }
	:: else
	fi;
	pool_lock = 0;
	if
	:: fate == 1 && emptied -> emptied_forget()
	:: fate == 1 && !emptied -> slab_delete()
	:: else
	fi;
	fate = 0
}

inline unpublish() { published = 0; count = used - count }

inline pool_reap()
{
	acquire(pool_lock);
	d_step { assert(linked && published && owner == NOBODY); linked = 0 }
	pool_lock = 0;
	slab_delete()
}

inline route()
{
	do
	:: o = owner;
	   if
	   :: o == NOBODY -> pool_publish(); break
	   :: else ->
		if
		:: d_step { inbox[o] == EMPTY -> inbox[o] = 1 }
		   break
		:: d_step { inbox[o] != EMPTY -> assert(inbox[o] == CLOSED && !forked) }
		fi
	   fi
	od;
	o = 0
}

inline remote_disown()
{
	d_step { claim = (own > 0 || listed > 0); was_emptied = emptied; disowned = 1 }
	if
	:: !was_emptied -> write_tag(NOBODY)
	:: else
	fi;
	was_emptied = 0;
	if
	:: claim -> d_step { claim = !queued; queued = 1 }
	:: else
	fi;
	owner = NOBODY;
	if
	:: claim -> pool_publish()
	:: else
	fi;
	claim = 0
}

/* The slab has just been taken out of a queue; its owner is h. */
inline collect_or_unqueue()
{
	if
	:: emptied -> of_heap = NOBODY; emptied_forget()
	:: !emptied ->
		d_step { hand[_pid] = listed; listed = 0; count = 0; queued = 0 }
		d_step { own = own + hand[_pid]; used = used - hand[_pid]; hand[_pid] = 0 }
	:: !emptied && own > 0 -> queued = 0
	fi
}

#define all_home (!queued && count == used)

inline delete_slab()
{
	of_heap = NOBODY;
	slab_delete()
}

/* Free one block that this thread has in its hands and that is not its own. */
inline post()
{
	d_step {
		assert(in_use && !emptied && hand[_pid] == 1);
		hand[_pid] = 0;
		old_queued = queued; queued = 1;
		listed++;
		count = (published -> count - 1 : count + 1);
		last = (published && count == 0)
	}
	if
	:: last -> pool_reap()
	:: !last && !old_queued -> route()
	:: else
	fi;
	d_step { last = 0; old_queued = 0 }
}

/* The inbox was taken; it may have been pushed here for an earlier life of this heap. */
inline drain(new)
{
	d_step { assert(inbox[h] != CLOSED); L = inbox[h]; inbox[h] = new }
	if
	:: L == 1 && owner != h -> route()
	:: L == 1 && owner == h -> collect_or_unqueue()
	:: else
	fi;
	L = 0
}

inline put_idle()
{
	/* In this order: a heap that has a thread and is not busy is in order. */
#ifdef BUG_BUSY_BEFORE_BINS
	busy[h] = 0;
#endif
	acquire(registry_lock);
	bins[h] = 0;
#ifndef BUG_BUSY_AFTER_IDLE
	busy[h] = 0;
#endif
	d_step { assert(taken[h]); slow[h] = 0; taken[h] = 0 }
	registry_lock = 0;
#ifdef BUG_BUSY_AFTER_IDLE
	busy[h] = 0;
#endif
}

inline retire()
{
	drain(EMPTY);
	if
	:: of_heap == h && all_home -> delete_slab()
	:: else
	fi;
	if
	:: of_heap == h -> of_heap = NOBODY; remote_disown()
	:: else
	fi;
	drain(CLOSED);
	put_idle()
}

inline adopt()
{
	acquire(pool_lock);
	if
	:: d_step { linked && count > 0 -> assert(published); unpublish() }
		linked = 0;
		L = 1
	:: else
	fi;
	pool_lock = 0;
	if
	:: L == 1 ->
		owner = h;
		write_tag(h);
		collect_or_unqueue();
		of_heap = h
	:: else
	fi;
	L = 0
}

active [THREADS] proctype thread() provided (!forked)
{
	byte h, o, fate, L;
	bit claim, old_queued, last, was_emptied;

	do
	:: h == NOBODY -> /* open a heap struct, fresh or used before */
		acquire(registry_lock);
		if
		:: !taken[1] -> h = 1
		:: !taken[2] -> h = 2
		:: else
		fi;
		if
		:: h != NOBODY -> d_step { taken[h] = 1; slow[h] = 1 }
		:: else
		fi;
		registry_lock = 0;
		if
		:: h != NOBODY ->
#ifndef BUG_ACQUIRED_NOT_BUSY
			busy[h] = 1;
#endif
			bins[h] = 1;
			inbox[h] = EMPTY;
			leave()
		:: else
		fi

	:: atomic { h != NOBODY && !in_use -> in_use = 1; vanishing = 1; busy[h] = 1; slow[h] = 1 }
	   d_step { own = PER_SLAB; used = 0; granule = 1 }
	   d_step { owner = h; vanishing = 0 }
	   write_tag(h);
	   of_heap = h;
	   leave()

	:: d_step { h != NOBODY && of_heap == h && own > 0 -> own--; used++; out++ } /* malloc */

	:: atomic { out > 0 -> out--; hand[_pid] = 1 } /* free */
	   if
	   :: d_step { tag == (h == NOBODY -> HEAPLESS : h) ->
		assert(in_use && owner == h && of_heap == h && !published);
		own++; used--; hand[_pid] = 0 }
	   :: else ->
		enter();
		post();
		leave()
	   fi

	:: atomic { h != NOBODY && of_heap == h && listed > 0 -> busy[h] = 1; slow[h] = 1 } /* refill */
	   d_step {
		if
		:: listed > 0 -> hand[_pid] = listed; listed = 0; count = 0
		:: else /* EMPTIED this moment */
		fi
	   }
	   d_step { own = own + hand[_pid]; used = used - hand[_pid]; hand[_pid] = 0 }
	   leave()

	:: atomic { h != NOBODY && of_heap == h && all_home -> busy[h] = 1; slow[h] = 1 }
	   delete_slab();
	   leave()

	:: atomic { h != NOBODY && inbox[h] == 1 -> busy[h] = 1; slow[h] = 1 }
	   drain(EMPTY);
	   leave()

	:: atomic { h != NOBODY && linked -> busy[h] = 1; slow[h] = 1 }
	   adopt();
	   leave()

	:: atomic { h != NOBODY -> busy[h] = 1; slow[h] = 1 } /* exit */
	   retire();
	   h = NOBODY
	od
}

/* ---- the child ---- */

inline repair_pool()
{
	if
	:: pool_lock ->
		pool_lock = 0;
		linked = 0;
		if
		:: in_use && published && count > 0 -> unpublish()
		:: else
		fi
	:: else
	fi
}

inline retire_broken(H)
{
	if
	:: H != mine && bins[H] && busy[H] ->
		if
		:: in_use && owner == H ->
#ifndef BUG_BROKEN_TRUSTED
			own = 0; used = PER_SLAB;
#endif
			of_heap = NOBODY;
			remote_disown()
		:: else
		fi;
		bins[H] = 0;
		inbox[H] = CLOSED
	:: else
	fi
}

/* What was being emptied, deleted or forgotten. */
inline settle()
{
	if
#ifndef BUG_GRANULE_KEPT
	:: in_use && emptied && granule -> free_granule()
#endif
#ifndef BUG_NOT_FORGOTTEN
	:: in_use && owner == NOBODY && !queued && !published && !emptied && !disowned && count == 0 && !linked && !granule ->
		d_step { in_use = 0; own = 0; used = 0; vanishing = 0 }
#endif
	:: else
	fi
}

#define in_inbox(H) (inbox[H] == 1)
#ifdef BUG_LOST_BY_OWNER
#define in_some_inbox (owner != NOBODY && in_inbox(owner))
#else
/* Also in one that is not its owner's: there it waits for an earlier life of that heap. */
#define in_some_inbox (in_inbox(1) || in_inbox(2))
#endif

inline route_lost()
{
	if
#ifndef BUG_REAPER_FORGOTTEN
	:: in_use && published && linked && count == 0 -> pool_reap()
#endif
#ifndef BUG_NO_POOL_REPAIR
	:: in_use && published && !linked ->
		if
		:: count > 0 -> unpublish(); pool_publish()
		:: else -> slab_delete()
		fi
#endif
#ifndef BUG_NO_ROUTE_LOST
	:: in_use && queued && !published && !linked && !in_some_inbox -> route()
#endif
	:: else
	fi
}

inline retire_orderly(H)
{
	if
	:: H != mine && bins[H] ->
		assert(!slow[H]);
		h = H;
		retire();
		h = NOBODY
	:: else
	fi
}

inline check()
{
	assert(!pool_lock && !registry_lock);
	assert((taken[1] || !bins[1]) && (taken[2] || !bins[2]));
	if
	:: in_use && !vanishing ->
		assert(hand[THREADS] == 0 && own + listed + out <= PER_SLAB);
		lost = (emptied -> 0 : PER_SLAB - own - listed - out);
		assert(granule == !emptied);
		assert(lost <= may_lose);
		assert(owner == NOBODY || owner == mine);
		assert((emptied || tag == owner) && of_heap == owner);
		assert(used == PER_SLAB - own);
		assert(count == (published -> used - listed : (emptied -> PER_SLAB : listed)));
		assert(linked == published);
		assert(in_inbox(1) + in_inbox(2) + in_inbox(NEW) + linked == queued);
		assert(!queued || linked || in_inbox(mine));
		assert(owner != NOBODY || own + listed == 0 || queued);
		assert(owner != NOBODY || out > 0 || lost > 0 || in_inbox(mine))
	:: else -> assert(!linked && !in_inbox(1) && !in_inbox(2) && !in_inbox(NEW))
	fi
}

active proctype child()
{
	byte h, o, fate, L, mine, may_lose, lost;
	bit claim, old_queued, last, was_emptied;

	atomic {
		if
		:: true -> skip /* another thread forks, one without a heap */
		:: bins[1] && !slow[1] -> mine = 1
		:: bins[2] && !slow[2] -> mine = 2
		fi;
		forked = 1;
		may_lose = in_hands + ((owner != NOBODY && slow[owner]) -> own : 0);
		hand[0] = 0; hand[1] = 0; hand[THREADS - 1] = 0;

		repair_pool();
		if
		:: registry_lock -> registry_lock = 0; taken[1] = 1; taken[2] = 1
		:: else
		fi;
		retire_broken(1);
		retire_broken(2);
		settle();
		route_lost();
		retire_orderly(1);
		retire_orderly(2);
		check()
	}
	/* The program goes on: if the forking thread has no heap, it gets one. */
	atomic {
		if
		:: mine == NOBODY -> mine = NEW; bins[NEW] = 1; inbox[NEW] = EMPTY
		:: else
		fi;
		h = mine;
		if
		:: adopt()
		:: true
		fi;
		do
		:: out > 0 ->
			out--; hand[_pid] = 1;
			if
			:: tag == h -> own++; used--; hand[_pid] = 0
			:: else -> post()
			fi
		:: else -> break
		od;
		check();
		drain(EMPTY);
		adopt();
		if
		:: of_heap == h && all_home -> delete_slab()
		:: else
		fi;
		check();
		assert(!in_use || vanishing || lost > 0)
	}
}

/* ---- who looks after sleepers ---- */

active proctype looker() provided (!forked)
{
	byte o, fate, looks;
	bit seen;

	do
	:: looks < LOOKS ->
		if
		:: d_step { inbox[1] == 1 -> inbox[1] = EMPTY }
		:: d_step { inbox[2] == 1 -> inbox[2] = EMPTY }
		fi;
		d_step { assert(in_use && queued && !published); seen = (count == PER_SLAB && listed == count && !disowned) }
		if
		:: seen ->
			if
			:: d_step { count == PER_SLAB && listed == count && !disowned && !emptied -> emptied = 1; listed = 0 }
				free_granule()
			:: else
			fi
		:: else
		fi;
		route();
		looks++
	od
}
