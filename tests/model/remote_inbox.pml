/*
 * remote_inbox.pml - remote free and the inbox, block by block.
 *
 * Models: remote_post, remote_route, remote_collect, remote_unqueue, remote_all_home
 * (src/slab/remote.c), emptied_make, emptied_forget (src/slab/emptied.c), relieve,
 * sleepers_forget (src/front/sleepers.c) and heap_refill, next_slab, take_ready, slab_gained_blocks, is_last_source,
 * heap_drain_inbox, heap_flush (src/front/) for one heap that lives for ever. Its owner
 * thread hands blocks out of its current slab, frees blocks itself, refills, drains its inbox, opens
 * slabs to other sizes (mosaic_open, src/slab/mosaic.c; with a looker only) and deletes slabs; the other
 * threads free blocks that they do not own. One more, the looker, takes slabs out of the inbox, empties
 * those that all blocks have come home to, and puts them back. What happens when heaps end is in adopt.pml
 * and disown.pml.
 *
 * The state is what the C code holds: the word `remote` of a slab (list head, count, QUEUED), the
 * link inside each block, the inbox word and the link inbox_next of each slab, current and ready.
 * Blocks have identities, so a list that is cut, joined to another or closed into a ring is seen.
 *
 * Abstracted: memory is sequentially consistent (the release and acquire pairs are listed in
 * remote.c); the thread cache is left out, so a block is on its slab's own list, in use, or on its
 * way home, and a refill is needed when the current slab's own list is empty; bump allocation is
 * left out: a new slab has all blocks on its own list; the own list is a set, since only the owner
 * touches it.
 *
 * Checked, over all interleavings and runs of any length:
 *   - a slab is in the inbox at most once, and the inbox holds no slab that was deleted;
 *   - no slab is emptied while a block is out, or the owner takes its list, or once it is a mosaic;
 *   - no slab is deleted while a block is out, while it is queued, or while another thread still
 *     has to touch it; a slab that is opened again starts clean;
 *   - a remote list has the length its count says, ends, and holds only blocks on their way home to
 *     this slab, so none is handed out twice;
 *   - QUEUED <=> the slab is in the inbox or in the hands of the one thread that will push it;
 *   - between two operations of the owner, a slab with blocks on its own list is current or ready,
 *     and one with blocks on its remote list is so or queued: the owner will come upon them;
 *   - when all threads have stopped, one flush finds every block home and deletes every slab: none
 *     is lost;
 *   - no deadlock.
 *
 * Bounds: SLABS slabs of PER_SLAB blocks, POSTERS freeing threads, a looker if LOOKER is defined;
 * batches of one and two blocks.
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
#define LOST 4   /* its own list was overwritten */
#define GONE 5   /* its granule was freed */
byte where[MAX_BLOCKS + 1];
byte link[MAX_BLOCKS + 1];

/* The word `remote`: three variables, but every step below reads or writes them together. */
byte list[SLABS + 1];
byte count[SLABS + 1];
bit queued[SLABS + 1];
bit emptied[SLABS + 1];

/* Owner-private. */
byte used[SLABS + 1];        /* blocks not on the own list */
byte left_remote[SLABS + 1]; /* blocks seen and left on the remote list */
bit ready[SLABS + 1];
byte current; /* 0: none */
/* Opened to other sizes: it has live blocks that are not modelled. Who has it in hand reads this. */
bit mosaic[SLABS + 1];

bit live[MAX_BLOCKS + 1];   /* ghost: taken from the space layer and not deleted */
byte in_inbox[SLABS + 1];   /* ghost: how often the slab is in the inbox */
byte touchers[SLABS + 1];   /* ghost: threads that posted and will touch the slab again */
byte inbox_next[SLABS + 1];
byte inbox;

bit stop;      /* the owner hands out no more blocks */
byte finished; /* posters that have ended */
#ifdef LOOKER
bit looked;    /* the looker has */
#else
bit looked = 1;
#endif


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

#define own(S) (PER_SLAB - used[S])
#define all_home(S) (!queued[S] && count[S] == used[S])
#define other_ready(S) (SLABS > 1 && ready[SLABS + 1 - (S)])
#define is_last_source(S) (!other_ready(S) && !(current != 0 && own(current) > 0))

inline forget_own(S)
{
	n = 1 + (S - 1) * PER_SLAB;
	do
	:: n <= S * PER_SLAB ->
		if
		:: where[n] == HOME -> where[n] = LOST
		:: else
		fi;
		n++
	:: else -> break
	od;
	n = 0
}

/* Walk a remote list that nobody else can reach any more: the blocks are on their way home to slab
   S, and the list ends where its count says. They get the state `to`. */
inline walk(S, first, k, to)
{
	n = k;
	b = first;
	do
	:: n > 0 ->
		assert(b != NONE && slab_of(b) == S);
		assert(where[b] == REMOTE); /* else it is handed out twice */
		where[b] = to;
		n--;
		prev = b;
		b = link[prev];
		link[prev] = NONE
	:: else -> break
	od;
	assert(b == NONE);
	b = 0; prev = 0
}

/* The list just taken becomes the own list. */
inline accept(S, first, k)
{
	if
	:: first != NONE ->
		forget_own(S); /* there is none, unless a rule is broken */
		walk(S, first, k, HOME);
		used[S] = used[S] - k;
		left_remote[S] = 0
	:: else -> assert(k == 0)
	fi;
	first = 0; k = 0
}

inline forget_slab(S)
{
	live[S] = 0; used[S] = 0; left_remote[S] = 0; ready[S] = 0; mosaic[S] = 0;
	current = (current == S -> 0 : current)
}

inline delete(S)
{
	assert(live[S] && in_inbox[S] == 0 && touchers[S] == 0);
	assert(used[S] == count[S] && !queued[S]);
	forget_own(S);
	walk(S, list[S], count[S], LOST);
	list[S] = NONE; count[S] = 0;
	do /* every block was on one of the two lists */
	:: n < PER_SLAB ->
		n++;
		assert(where[(S - 1) * PER_SLAB + n] == LOST);
		where[(S - 1) * PER_SLAB + n] = HOME
	:: else -> break
	od;
	n = 0;
	forget_slab(S)
}

/* The steps of slab_gained_blocks touch the owner's fields and read `remote` once, at the end. */
inline gained(S)
{
	if
	:: S != current && !mosaic[S] ->
		ready[S] = 1;
		if
#ifdef BUG_DELETE_QUEUED
		:: used[S] <= left_remote[S] -> queued[S] = 0; delete(S)
#else
		:: used[S] <= left_remote[S] && all_home(S) && !is_last_source(S) -> delete(S)
#endif
		:: else
		fi
	:: else
	fi
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
		if
		:: emptied[L] ->
			d_step { /* sleepers_forget */
				assert(live[L] && in_inbox[L] == 1 && queued[L] && touchers[L] == 0);
				assert(used[L] == PER_SLAB && list[L] == NONE && count[L] == PER_SLAB);
				in_inbox[L]--;
				queued[L] = 0; emptied[L] = 0; count[L] = 0;
				do
				:: n < PER_SLAB ->
					n++;
					assert(where[(L - 1) * PER_SLAB + n] == GONE);
					where[(L - 1) * PER_SLAB + n] = HOME
				:: else -> break
				od;
				n = 0;
				forget_slab(L)
			}
		:: mosaic[L] ->
			d_step { /* heap_collect_mosaic */
				assert(live[L] && in_inbox[L] == 1 && queued[L] && !emptied[L]);
				in_inbox[L]--;
				first = list[L]; k = count[L];
				list[L] = NONE; count[L] = 0; queued[L] = 0;
				used[L] = used[L] - k;
				walk(L, first, k, HOME);
				first = 0; k = 0
			}
#ifndef BUG_UNQUEUE_ACCEPTS
		:: else ->
			d_step { /* remote_unqueue */
				assert(live[L] && in_inbox[L] == 1 && queued[L]);
				in_inbox[L]--;
				queued[L] = 0;
				left_remote[L] = count[L];
#ifdef BUG_UNQUEUE_DROPS
				list[L] = NONE; count[L] = 0;
#endif
			}
#else
		:: else ->
			d_step { /* remote_collect */
				assert(live[L] && in_inbox[L] == 1 && queued[L]);
				in_inbox[L]--;
				first = list[L]; k = count[L];
				list[L] = NONE; count[L] = 0;
				queued[L] = 0;
				accept(L, first, k)
			}
#endif
		fi;
		d_step {
			if
			:: live[L] -> gained(L)
			:: else
			fi;
#ifdef BUG_NEXT_AFTER
			next = inbox_next[L];
#endif
			L = next; next = 0
		}
	:: else -> break
	od
}

/* mosaic_open, of a ready slab that has free blocks, as src/front/holes.c sees it. */
#define is_worth_opening(S) (ready[S] && used[S] - left_remote[S] < PER_SLAB)
inline open()
{
	ready[s] = 0;
	if
	:: own(s) == 0 ->
		d_step { /* as in refill */
			first = list[s]; k = (first != NONE -> count[s] : 0);
			list[s] = NONE;
			count[s] = (first != NONE -> 0 : count[s]);
			accept(s, first, k)
		}
	:: else
	fi;
	if
#ifdef BUG_OPEN_QUEUED
	:: emptied[s] -> ready[s] = 1
#else
	:: queued[s] -> ready[s] = 1
#endif
	:: else ->
		d_step { /* remote_take_list */
			first = list[s]; k = count[s];
			list[s] = NONE; count[s] = 0;
			used[s] = used[s] - k; left_remote[s] = 0;
			walk(s, first, k, HOME);
			first = 0; k = 0
		}
		if
		:: mosaic[s] = 1
		:: ready[s] = 1 /* no hole is long enough */
		fi
	fi;
	s = 0
}

inline take_ready()
{
	s = (ready[1] -> 1 : (SLABS > 1 && ready[SLABS] -> SLABS : 0));
	ready[s] = 0
}

/* heap_refill, up to where `current` has blocks on its own list; or there are none to be had. */
inline refill()
{
	do
	:: current != 0 && own(current) > 0 -> break
	:: else ->
		if
#ifndef BUG_LEFT_FORGOTTEN
		:: current != 0 && list[current] != NONE ->
			d_step { /* take the list and leave QUEUED as it is */
				first = list[current]; k = (first != NONE -> count[current] : 0);
				list[current] = NONE;
#ifndef BUG_COLLECT_EMPTIED
				count[current] = (first != NONE -> 0 : count[current]);
#else
				count[current] = 0;
#endif
#ifdef BUG_REFILL_CLEARS_QUEUED
				queued[current] = 0;
#endif
				accept(current, first, k)
			}
#endif
		:: else ->
			d_step {
				/* The slab is full, not current: if the inbox gives it blocks, it becomes ready. */
#ifndef BUG_FULL_IS_CURRENT
				current = 0;
#endif
				take_ready()
			}
			if
			:: s == 0 ->
				drain();
				atomic {
					take_ready();
					if
					:: s == 0 -> s = (!live[1] -> 1 : (SLABS > 1 && !live[SLABS] -> SLABS : 0));
						if
						:: s != 0 -> /* a new slab */
							assert(in_inbox[s] == 0 && list[s] == NONE && !queued[s]);
							live[s] = 1
						:: else
						fi
					:: else
					fi;
					current = s
				}
			:: else -> current = s
			fi;
			atomic {
				s = 0;
				if
				:: current == 0 -> break /* out of memory */
				:: else
				fi
			}
		fi
	od
}

/* Between two operations of the owner. */
inline check(S)
{
	if
	:: live[S] ->
		assert(own(S) == 0 || S == current || ready[S] || mosaic[S]);
#ifndef BUG_SEPARATE_FLAG /* must be found by what it leads to */
		assert(list[S] == NONE || queued[S] || S == current || ready[S]);
#endif
		assert(list[S] != NONE || count[S] == 0 || emptied[S])
	:: else
	fi
}
inline check_all()
{
	assert(current == 0 || (live[current] && !ready[current]));
	check(1);
	check(SLABS)
}

active proctype owner()
{
	byte s, L, next, first, k, n, b, prev;

	do
	:: d_step { !stop -> stop = 1 }
	:: stop -> break
	:: atomic { !stop && current != 0 && own(current) > 0 -> /* malloc */
		b = (current - 1) * PER_SLAB + 1;
		do
		:: where[b] != HOME -> b++
		:: else -> break
		od;
		where[b] = OUT; used[current]++; b = 0
	   }
	:: !stop && !(current != 0 && own(current) > 0) -> refill(); atomic { check_all() }
	:: atomic { !none_in(OUT) -> /* free, by the owner */
		select_block(OUT);
		where[b] = HOME; s = slab_of(b); used[s]--; b = 0;
		gained(s); s = 0;
		check_all()
	   }
	:: inbox != NONE -> drain(); atomic { check_all() } /* heap_flush, without its end */
#if defined(LOOKER) && PER_SLAB > 1
	:: atomic { is_worth_opening(1) -> s = 1 } open(); atomic { check_all() }
	:: atomic { SLABS > 1 && is_worth_opening(SLABS) -> s = SLABS } open(); atomic { check_all() }
	:: atomic { !stop && (mosaic[1] && own(1) > 0 || mosaic[SLABS] && own(SLABS) > 0) -> /* malloc from a mosaic */
		s = (mosaic[1] && own(1) > 0 -> 1 : SLABS);
		b = (s - 1) * PER_SLAB + 1;
		do
		:: where[b] != HOME -> b++
		:: else -> break
		od;
		where[b] = OUT; used[s]++; b = 0; s = 0
	   }
#endif
	od;

	/* Every other has ended: what is not home must be found through the inbox. */
	finished == POSTERS && looked;
	drain();
	atomic {
		s = 1;
		do
		:: s <= SLABS ->
			if
			:: live[s] -> assert(all_home(s)); delete(s)
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

#ifdef LOOKER
/* relieve, again and again. */
active proctype looker()
{
	byte s, next, first, k, n, b, prev, top;

	do
	:: inbox != NONE ->
		atomic { s = inbox; inbox = NONE }
		do
		:: s != NONE ->
			next = inbox_next[s];
			d_step {
				assert(live[s] && in_inbox[s] == 1 && queued[s] && touchers[s] == 0);
				in_inbox[s]--; touchers[s]++;
				first = list[s]; k = count[s]
			}
			if
#ifdef BUG_EMPTY_SOME
			:: first != NONE && own(s) == 0 && !mosaic[s] ->
#else
			:: first != NONE && k == PER_SLAB && !mosaic[s] ->
#endif
				if
#ifdef BUG_EMPTY_UNCHECKED
				:: d_step {
					true ->
#else
				:: d_step {
					list[s] == first && count[s] == k ->
#endif
					assert(!mosaic[s]); /* it has blocks that are out */
					list[s] = NONE; emptied[s] = 1; count[s] = PER_SLAB;
					walk(s, first, k, GONE)
				   }
				:: else
				fi
			:: else
			fi;
			/* remote_route */
			top = inbox;
			do
			:: inbox_next[s] = top;
				if
				:: d_step {
					inbox == top ->
					assert(live[s] && in_inbox[s] == 0);
					touchers[s]--;
#ifndef BUG_LOOKER_KEEPS
					inbox = s; in_inbox[s]++
#endif
				   }
				   break
				:: d_step { inbox != top -> top = inbox }
				fi
			od;
			top = 0; /* nobody may break out into a d_step */
			d_step { s = next; next = 0; first = 0; k = 0 }
		:: else -> break
		od
	:: finished == POSTERS -> looked = 1; break
	od
}
#endif
