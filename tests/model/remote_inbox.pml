/*
 * remote_inbox.pml - remote free and the inbox, block by block.
 *
 * Models: remote_post, remote_route, remote_take (src/slab/remote.c) and heap_drain_inbox
 * (src/front/heap.c) for one heap that lives for ever. Its owner thread hands blocks out, takes remote
 * lists directly on refill, drains its inbox, releases empty slabs and opens them again; the
 * other threads free blocks that they do not own. What happens when heaps end is in adopt.pml.
 *
 * The state is what the C code holds: the word `remote` of a slab (list head, count, QUEUED), the link
 * inside each block, the inbox word and the link inbox_next of each slab. Blocks have identities, so a
 * list that is cut, joined to another or closed into a ring is seen.
 *
 * Abstracted: memory is sequentially consistent (the release and acquire pairs are listed in remote.c);
 * the thread cache is left out, so a block is on its slab's own list, in use, or on its way home;
 * bump allocation is left out; the own list is a set, since only the owner touches it.
 *
 * Checked, over all interleavings and runs of any length:
 *   - a slab is in the inbox at most once, and the inbox holds no slab that was released;
 *   - no slab is released while a block is out, while it is queued, or while a thread still has to
 *     touch it; a slab that is opened again starts clean;
 *   - a remote list has the length its count says, ends, and holds only blocks on their way home to
 *     this slab, so none is handed out twice;
 *   - QUEUED <=> the slab is in the inbox or in the hands of the one thread that will push it;
 *   - when all threads have stopped, one drain brings every block home: none is lost;
 *   - no deadlock.
 *
 * BUG_* macros break one rule each; the checks must then fail (run.sh).
 */

#ifndef SLABS
#define SLABS 2
#endif
#ifndef PER_SLAB
#define PER_SLAB 2 /* blocks in a slab */
#endif
#ifndef POSTERS
#define POSTERS 2
#endif
#define MAX_BLOCKS 4 /* SLABS * PER_SLAB may not be more */
#define NONE 0 /* null pointer: end of a list; slabs and blocks count from 1 */
#define slab_of(b) (((b) - 1) / PER_SLAB + 1)

/* Where a block is: a ghost, the C code has no such field. */
#define HOME 0   /* on its slab's own list */
#define OUT 1    /* in use by the program */
#define HELD 2   /* freed by a thread that has not posted it yet */
#define REMOTE 3 /* on its slab's remote list */
byte where[MAX_BLOCKS + 1];
byte link[MAX_BLOCKS + 1];

/* The word `remote`: three variables, but every step below reads or writes them together. */
byte list[SLABS + 1];
byte count[SLABS + 1];
bit queued[SLABS + 1];

byte used[SLABS + 1];       /* owner-private: blocks not on the own list */
bit live[MAX_BLOCKS + 1];        /* ghost: taken from the space layer and not released */
byte in_inbox[SLABS + 1];   /* ghost: how often the slab is in the inbox */
byte touchers[SLABS + 1];   /* ghost: threads that posted and will touch the slab again */
byte inbox_next[SLABS + 1];
byte inbox;

bit stop;      /* the owner hands out no more blocks */
byte finished; /* posters that have ended */


/* Some block of a live slab in the given state, and some slab that satisfies a condition; the caller
   cannot go on if there is none. The bounds below them say how far the lists must go. */
#define is(X, state) (live[slab_of(X)] && where[X] == state)
inline select_block(state)
{
	if
	:: is(1, state) -> b = 1
	:: is(2, state) -> b = 2
	:: is(3, state) -> b = 3
	:: is(4, state) -> b = 4
	fi
}
#define none_in(state) (!is(1, state) && !is(2, state) && !is(3, state) && !is(4, state))

/* Append a list that was taken from the remote word to the own list of slab S. */
inline bring_home(S, first, k)
{
	n = k;
	b = first;
	do
	:: n > 0 ->
		assert(b != NONE && slab_of(b) == S);
		assert(where[b] == REMOTE); /* else it is handed out twice */
		where[b] = HOME;
		used[S]--;
		n--;
		first_end = b;
		b = link[first_end];
		link[first_end] = NONE
	:: else -> break
	od;
	assert(b == NONE); /* the list ends where its count says */
	n = 0; b = 0; first_end = 0
}

inline release(S)
{
	assert(live[S] && used[S] == 0);
	assert(in_inbox[S] == 0);
	assert(touchers[S] == 0);
	assert(list[S] == NONE && count[S] == 0 && !queued[S]);
	live[S] = 0
}

inline drain()
{
	atomic { L = inbox; inbox = NONE }
	do
	:: L != NONE ->
		/* The link must be read first: once QUEUED is clear, a poster may queue the slab again. */
#ifndef BUG_NEXT_AFTER
		next = inbox_next[L];
#endif
		d_step {
			assert(live[L] && in_inbox[L] == 1 && queued[L]);
			in_inbox[L]--;
			first = list[L]; k = count[L];
			list[L] = NONE; count[L] = 0;
#ifndef BUG_SEPARATE_FLAG
			queued[L] = 0;
#endif
		}
#ifdef BUG_SEPARATE_FLAG
		queued[L] = 0;
#endif
		atomic { bring_home(L, first, k); first = 0; k = 0 }
		if
		:: used[L] == 0 && !queued[L] -> d_step { release(L) }
		:: true /* keep it: current slab, or warm */
		fi;
#ifdef BUG_NEXT_AFTER
		next = inbox_next[L];
#endif
		L = next; next = 0
	:: else -> break
	od
}

active proctype owner()
{
	byte s, L, next, first, k, n, b, first_end;

	do
	:: d_step { !stop -> stop = 1 }
	:: stop -> break
	:: atomic { !stop && !none_in(HOME) -> /* malloc */
		select_block(HOME);
		where[b] = OUT; used[slab_of(b)]++; b = 0
	   }
	:: atomic { /* refill: take the list and leave QUEUED as it is (fetch_and) */
		if
		:: live[1] && list[1] != NONE -> s = 1
		:: SLABS > 1 && live[2] && list[2] != NONE -> s = 2
		fi;
		first = list[s]; k = count[s];
		list[s] = NONE; count[s] = 0;
#ifdef BUG_REFILL_CLEARS_QUEUED
		queued[s] = 0;
#endif
		bring_home(s, first, k); first = 0; k = 0; s = 0
	   }
	:: atomic { /* a slab that is empty and not queued may go at any later time */
#ifdef BUG_RELEASE_QUEUED
		if
		:: live[1] && used[1] == 0 -> s = 1
		:: SLABS > 1 && live[2] && used[2] == 0 -> s = 2
		fi;
		queued[s] = 0;
#else
		if
		:: live[1] && used[1] == 0 && !queued[1] -> s = 1
		:: SLABS > 1 && live[2] && used[2] == 0 && !queued[2] -> s = 2
		fi;
#endif
		release(s); s = 0
	   }
	:: atomic { /* open a slab */
		if
		:: !stop && !live[1] -> s = 1
		:: !stop && SLABS > 1 && !live[2] -> s = 2
		fi;
		assert(in_inbox[s] == 0 && list[s] == NONE && !queued[s]);
		live[s] = 1; used[s] = 0; s = 0
	   }
	:: inbox != NONE -> drain()
	od;

	/* Every poster has ended: what is not home must be found through the inbox. */
	finished == POSTERS;
	drain();
	atomic {
		s = 1;
		do
		:: s <= SLABS ->
			if
			:: live[s] ->
				assert(used[s] == 0);
				assert(!queued[s] && list[s] == NONE && in_inbox[s] == 0);
				release(s)
			:: else
			fi;
			s++
		:: else -> break
		od;
		s = 0;
		assert(inbox == NONE)
	}
}

active [POSTERS] proctype poster()
{
	byte b, last, s, old_list, old_count, top;
	bit old_queued;

	do
	:: atomic { /* free: a batch of one block, or of two blocks of one slab */
		select_block(OUT);
		where[b] = HELD; s = slab_of(b); last = b;
		if
		:: true
		:: last = 1 + (s - 1) * PER_SLAB;
		   do
		   :: last <= s * PER_SLAB && where[last] != OUT -> last++
		   :: else -> break
		   od;
		   if
		   :: last <= s * PER_SLAB -> where[last] = HELD; link[b] = last
		   :: else -> last = b
		   fi
		fi
	   }
	   /* The CAS loop. It is a push of a list, and takers take whole lists, so a word that changed and
	      changed back is harmless: the link depends on nothing but the head that the CAS compares. */
	   d_step { old_list = list[s]; old_count = count[s]; old_queued = queued[s] }
#ifdef BUG_STALE_LINK
	   link[last] = old_list;
#endif
again:
#ifndef BUG_STALE_LINK
	   link[last] = old_list;
#endif
	   if
	   :: d_step {
		list[s] == old_list && count[s] == old_count && queued[s] == old_queued ->
		list[s] = b;
		count[s] = old_count + 1 + (last != b);
		where[b] = REMOTE; where[last] = REMOTE;
#ifndef BUG_SEPARATE_FLAG
		queued[s] = 1;
		touchers[s] = touchers[s] + !old_queued
#endif
	      }
	   :: d_step {
		!(list[s] == old_list && count[s] == old_count && queued[s] == old_queued) ->
		old_list = list[s]; old_count = count[s]; old_queued = queued[s]
	      }
	      goto again
	   fi;
#ifdef BUG_SEPARATE_FLAG
	   d_step { old_queued = queued[s]; queued[s] = 1; touchers[s] = touchers[s] + !old_queued }
#endif
	   if
	   :: !old_queued ->
		/* This thread set QUEUED: it and no other pushes the slab. */
		top = inbox;
push:
		inbox_next[s] = top;
		if
		:: d_step {
			inbox == top ->
			assert(live[s] && in_inbox[s] == 0);
			inbox = s; in_inbox[s]++; touchers[s]--
		   }
		:: d_step { inbox != top -> top = inbox }
		   goto push
		fi
	   :: else /* the slab is not touched again: it may be gone */
	   fi;
	   d_step { b = 0; last = 0; s = 0; old_list = 0; old_count = 0; old_queued = 0; top = 0 }
	:: atomic { stop && none_in(OUT) -> finished++; break }
	od
}
