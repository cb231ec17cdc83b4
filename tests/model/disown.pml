/*
 * disown.pml - a heap ends while others empty a slab of its inbox.
 *
 * Models: remote_disown, remote_post, remote_route, remote_unqueue (src/slab/remote.c), pool_publish, pool_reap
 * (src/slab/pool.c), emptied_make, emptied_forget (src/slab/emptied.c), relieve, sleepers_forget
 * (src/front/sleepers.c), heap_retire (src/front/heap_registry.c) for one slab of BLOCKS blocks, all of them out. Each
 * poster frees one; the owner drains its inbox any number of times, then ends; the looker takes the slab out of the inbox
 * any number of times, and empties it if it may. From when its granule is free, another slab may come to lie there.
 *
 * Abstracted: memory is sequentially consistent; lists are their lengths (remote_inbox.pml has the blocks); slabs whose
 * owner has blocks of them to give (adopt.pml); the pool's lock: what happens under it is one step.
 *
 * Checked, over all interleavings:
 *   - the page map is written to for the slab only as long as it has the granule;
 *   - the granule is freed once, with every block home;
 *   - the descriptor is freed once, and nobody touches the slab after that;
 *   - when all have stopped, both have been freed: nothing is lost;
 *   - no deadlock.
 *
 * BUG_* macros break one rule each; the checks must then fail (run.sh).
 */

#ifndef BLOCKS
#define BLOCKS 2
#endif

/* The word `remote`. Every step below reads or writes all of it together. */
byte count;      /* on the list; published: still out */
bit queued, published, emptied, disowned;

bit owned = 1;   /* `owner` is the heap's inbox */
#define EMPTY 0
#define HAS 1
#define CLOSED 2
byte inbox = EMPTY;

#define OWNERS 0 /* the page map's tag */
#define NOBODYS 1
#define FREE 2
byte tag = OWNERS;

bit has_granule = 1, has_descriptor = 1; /* ghosts */
byte finished;

#define is_whole (count == BLOCKS && !published && !emptied)
#define touch assert(has_descriptor)

inline free_granule() { assert(has_granule); tag = FREE; has_granule = 0 }
inline free_descriptor() { assert(has_descriptor && !has_granule); has_descriptor = 0 }

/* pool_publish, by the slab's router. */
inline publish()
{
	d_step {
		touch;
		assert(queued && !published && !owned);
		if
		:: count == BLOCKS ->
			if
			:: emptied
			:: else -> free_granule()
			fi;
			free_descriptor();
			count = 0; queued = 0; emptied = 0; disowned = 0
		:: count != BLOCKS && count != 0 -> count = BLOCKS - count; published = 1; disowned = 0
		:: count == 0 -> queued = 0; disowned = 0 /* nothing to give: the next poster routes it */
		fi
	}
}

/* remote_route */
inline route()
{
	do
	:: d_step { touch; to = owned }
		if
		:: !to -> publish(); break
		:: else ->
			if
			:: d_step { inbox == EMPTY -> touch; inbox = HAS }
				break
			:: d_step { inbox == CLOSED -> skip } /* its owner has gone by now */
			fi
		fi
	od;
	to = 0
}

active [BLOCKS] proctype poster()
{
	bit routes, reaps, to;

	d_step {
		touch;
		assert(!emptied);
		if
		:: published -> count--; reaps = (count == 0)
		:: else -> count++; routes = !queued; queued = 1
#ifdef BUG_POST_FORGETS
			disowned = 0
#endif
		fi
	}
	if
	:: reaps -> d_step { published = 0; queued = 0; free_granule(); free_descriptor() }
	:: routes -> route()
	:: else
	fi;
	finished++
}

active proctype looker()
{
	bit to;
	byte seen;

	do
	:: atomic { inbox == HAS -> inbox = EMPTY }
		d_step { touch; assert(queued && !published); seen = count }
		if
#ifdef BUG_EMPTY_DISOWNED
		:: seen == BLOCKS && !emptied ->
#else
		:: seen == BLOCKS && !emptied && !disowned ->
#endif
			if
#ifdef BUG_EMPTY_UNCHECKED
			:: d_step { true ->
#elif defined(BUG_EMPTY_DISOWNED)
			:: d_step { is_whole ->
#else
			:: d_step { is_whole && !disowned ->
#endif
				emptied = 1 }
				d_step { touch; free_granule() }
			:: else
			fi
		:: else
		fi;
		route();
		seen = 0
	:: finished == BLOCKS + 1 -> finished++; break
	od
}

active proctype owner()
{
	bit claims, is_emptied, to;

	/* It lives. */
	do
	:: atomic { inbox == HAS -> inbox = EMPTY }
		if
		:: emptied -> d_step { touch; owned = 0; queued = 0; emptied = 0; count = 0; free_descriptor() }
			goto end
		:: else -> d_step { touch; queued = 0 } /* remote_unqueue: the list is left */
			if /* slab_gained_blocks: remote_all_home */
			:: d_step { count == BLOCKS && !queued ->
				owned = 0; count = 0; free_granule(); free_descriptor() }
				goto end
			:: else
			fi
		fi
	:: true -> break
	od;
	skip; /* nobody may break out into a d_step */

	/* remote_disown */
#ifdef BUG_TAG_BEFORE
	d_step { touch; is_emptied = emptied; claims = (count != 0 && !emptied) }
#else
	d_step { touch; disowned = 1; is_emptied = emptied; claims = (count != 0 && !emptied) }
#endif
	if
	:: !is_emptied -> d_step { assert(has_granule); tag = NOBODYS }
	:: else
	fi;
	if
	:: claims -> d_step { touch; claims = !queued; queued = 1 }
	:: else
	fi;
	d_step { touch; owned = 0 }
	if
	:: claims -> publish()
	:: else
	fi;

end:	/* close_inbox */
	atomic { claims = (inbox == HAS); inbox = CLOSED }
	if
	:: claims -> route()
	:: else
	fi;
	finished++
}

active proctype end()
{
	finished == BLOCKS + 2;
	assert(!has_granule && !has_descriptor)
}
