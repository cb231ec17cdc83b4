/*
 * message.pml - blocks of many slabs on their way to one owner, in messages.
 *
 * Models: src/slab/message.c, message_to and outbox_flush (src/front/outbox.c), src/front/heap_messages.c, of
 * src/front/sleepers.c what it does to messages (with LOOKER), and of heap_acquire, heap_retire and pool_adopt what
 * they do to owners and inboxes. Senders free blocks that they do not
 * own, each in messages of its own. Heaps get a thread and lose it any number of times; one with a thread takes slabs,
 * allocates, and reads messages or not. So it closes with some in its inbox and some that it took and has not read, as
 * a broken heap in a fork child does.
 *
 * Abstracted: sequentially consistent memory (the release and acquire pairs are listed in message.c). A slab's owner
 * and its tag in the page map are one variable: who is misled by either sends to a heap that passes the block on. A
 * block that goes into a bin, or is passed on or posted to its slab, is home at once: the ways of slabs are in
 * remote_inbox.pml and adopt.pml, and only there it matters that slabs are disowned before the inbox is closed. A
 * sender has one message OPEN at most, and takes any that is FREE, not the next in the ring.
 *
 * Checked, over all interleavings and runs of any length:
 *   - a block that was freed comes home once, out of the message that it was put into, and into a bin only of the heap
 *     that owns its slab;
 *   - a message is in one inbox at most, the one that it was sent to, and there once; lists of messages end;
 *   - its sender does not write to a message from when it is posted until its reader is done with it;
 *   - an inbox stays closed until the heap gets a thread again, which finds nothing unread;
 *   - when all have ended, inboxes are closed, messages FREE, and no block is on its way;
 *   - no deadlock.
 *
 * Bounds: SENDERS senders with OWN messages each, of PER_MESSAGE blocks; HEAPS heaps; BLOCKS blocks and
 * as many slabs.
 *
 * BUG_* macros break one rule each; the checks must then fail (run.sh).
 */

#ifndef SENDERS
#define SENDERS 2
#endif
#ifndef OWN
#define OWN 1 /* messages of a sender: 1 or 2 */
#endif
#ifndef PER_MESSAGE
#define PER_MESSAGE 1
#endif
#ifndef HEAPS
#define HEAPS 1
#endif
#ifndef BLOCKS
#define BLOCKS 2 /* 2 or 3, each the only one of its slab */
#endif
#define MESSAGES (SENDERS * OWN)
#define NONE 0 /* null pointer; heaps, messages and blocks count from 1 */
#define CLOSED 255

#define FREE 0
#define OPEN 1
#define OUT 2
byte state[MESSAGES + 1];
byte next[MESSAGES + 1];
byte to[MESSAGES + 1];
byte count[MESSAGES + 1];
byte block[(MESSAGES + 1) * PER_MESSAGE];

byte owner[BLOCKS + 1]; /* of the block's slab */
byte inbox[HEAPS + 1] = CLOSED;
byte unread[HEAPS + 1]; /* taken out of the inbox by the owner, and not taken up yet */

/* Who has a message: a ghost. */
#define SENDER 0
#define INBOX 1
#define READER 2 /* who took it out of the inbox, be it unread */
byte has[MESSAGES + 1];

/* Where a block is: a ghost. */
#define HOME 0   /* in a bin or with its slab */
#define USED 254 /* by the program */
#define HELD 255 /* freed by a sender that has not put it anywhere yet */
byte where[BLOCKS + 1]; /* else the message */

byte finished; /* senders, heaps and lookers that have ended */
#ifdef LOOKER
#define ALL (SENDERS + HEAPS + 1)
#else
#define ALL (SENDERS + HEAPS)
#endif

#define h (_pid - SENDERS + 1) /* a heap, in its process; senders are started first */

/* Some block that satisfies a condition; the caller cannot go on if there is none. */
#define select_block(COND) if :: COND(1) -> b = 1 :: COND(2) -> b = 2 :: BLOCKS > 2 && COND(BLOCKS) -> b = 3 fi
#define is_used(B) (where[B] == USED)
#define is_ownerless(B) (live && owner[B] == NONE)
#define is_mine(B) (live && where[B] == HOME && owner[B] == h)

/* The next block out of a message. Its place is cleared, and so is the message in the end: fewer states. */
inline take_out(M)
{
	x = block[M * PER_MESSAGE + i]; block[M * PER_MESSAGE + i] = NONE; i++;
	assert(x != NONE && where[x] == M);
	where[x] = HOME
}

inline release(M) { next[M] = NONE; to[M] = NONE; count[M] = 0; has[M] = SENDER; state[M] = FREE; x = 0; i = 0 }

/* By whoever has it alone. */
inline scatter(M)
{
	do
	:: i < count[M] -> take_out(M)
	:: else -> break
	od;
	release(M)
}

#ifdef BUG_PUSH_CLOSED
#define is_closed(top) false
#else
#define is_closed(top) (top == CLOSED)
#endif

/* Sends the message that is OPEN. The inbox may change and change back before the CAS: that is harmless. */
inline post()
{
	d_step {
#ifndef BUG_OUT_AFTER
		state[open] = OUT;
#endif
		top = inbox[to[open]];
		next[open] = top
	}
	do
	:: is_closed(top) ->
#ifndef BUG_CLOSED_DROPS
		d_step { scatter(open) }
#endif
		break
	:: d_step { /* the CAS */
		!is_closed(top) && inbox[to[open]] == top ->
		assert(has[open] == SENDER);
#ifndef BUG_STALE_NEXT
		next[open] = top; /* nobody reads it before */
#endif
		inbox[to[open]] = open; has[open] = INBOX
	   }
#ifdef BUG_OUT_AFTER
	   state[open] = OUT;
#endif
	   break
	:: d_step { !is_closed(top) && inbox[to[open]] != top -> top = inbox[to[open]] }
	od;
	atomic { open = NONE; top = 0 }
}

#ifdef BUG_TAKES_OUT
#define may_take(M) (state[M] != OPEN)
#else
#define may_take(M) (state[M] == FREE)
#endif
#define first_own (_pid * OWN + 1)
#define last_own (_pid * OWN + OWN)

active [SENDERS] proctype sender()
{
	byte b, o, m, open, top, i, x;

	do
	:: atomic { /* free */
		select_block(is_used);
		where[b] = HELD;
		o = owner[b]
	   }
	   if
	   :: o != NONE && (open == NONE || to[open] != o) ->
		/* Another message is needed. */
		if
		:: may_take(first_own) -> m = first_own
		:: OWN > 1 && may_take(last_own) -> m = last_own
		:: else -> o = NONE
		fi;
		if
		:: m != NONE && open != NONE -> post()
		:: else
		fi;
		if
		:: m != NONE ->
			d_step { assert(has[m] == SENDER); state[m] = OPEN; to[m] = o; count[m] = 0; open = m; m = NONE }
		:: else
		fi
	   :: else
	   fi;
	   d_step {
		if
		:: o != NONE ->
			assert(has[open] == SENDER && to[open] == o);
			block[open * PER_MESSAGE + count[open]] = b; count[open]++;
			where[b] = open
		:: else -> where[b] = HOME /* posted alone */
		fi;
		b = 0; o = 0
	   }
	   if
	   :: open != NONE && count[open] == PER_MESSAGE -> post()
	   :: else
	   fi
	:: open != NONE -> post() /* outbox_flush */
#ifndef BUG_OPEN_LEFT
	:: atomic { open == NONE -> finished++; break }
#else
	:: atomic { finished++; break }
#endif
	od
}

/* Takes all messages and leaves the inbox empty or closed. */
inline take(whose, list, left)
{
	atomic {
		list = inbox[whose];
#ifdef BUG_SPLIT_TAKE
	}
	atomic {
#endif
		inbox[whose] = left;
		m = list;
		do
		:: m != NONE ->
			assert(m != CLOSED && has[m] == INBOX && to[m] == whose);
			has[m] = READER;
			m = next[m]
		:: else -> break
		od
	}
}

inline scatter_all(list)
{
	do
	:: d_step { list != NONE -> m = list; list = next[m]; scatter(m); m = NONE }
	:: else -> break
	od
}

active [HEAPS] proctype heap()
{
	byte b, m, i, x, list, after;
	bit live; /* the heap has a thread */

	do
	:: atomic { !live -> finished++; break }

	:: d_step { !live -> assert(inbox[h] == CLOSED && unread[h] == NONE); live = 1; inbox[h] = NONE } /* heap_acquire */

	:: atomic { select_block(is_ownerless); owner[b] = h; b = 0 } /* pool_adopt, or a new slab */

	:: atomic { select_block(is_mine); where[b] = USED; b = 0 } /* malloc */

	:: live && (unread[h] != NONE || inbox[h] != NONE) -> /* read one message */
		m = unread[h];
		if
		:: m != NONE ->
			after = next[m]; /* a looker may have all of them by now: then this is anything */
			d_step {
				assert(unread[h] == m || unread[h] == NONE);
				if
#ifndef BUG_POP_STORES
				:: unread[h] != m -> m = NONE
#endif
				:: else -> unread[h] = after /* the CAS */
				fi;
				after = 0
			}
		:: else
		fi;
		if
		:: m == NONE -> take(h, list, NONE); m = list
		:: else
		fi;
		if
		:: list != NONE ->
			/* It must be read first: once the message is FREE, its sender may send it elsewhere. */
#ifndef BUG_NEXT_AFTER
			d_step { unread[h] = next[list]; list = NONE }
#endif
		:: else
		fi;
#ifdef BUG_RELEASE_EARLY
		state[m] = FREE;
#endif
		do
		:: d_step {
			i < count[m] -> take_out(m)
#ifdef BUG_READ_BLIND
			; assert(owner[x] == h) /* into the bin */
#endif
		   }
		:: else -> break
		od;
#ifdef BUG_NEXT_AFTER
		state[m] = FREE;
		if :: list != NONE -> unread[h] = next[m]; list = NONE :: else fi;
#endif
		atomic { if :: m != NONE -> release(m) :: else fi; m = NONE }

	:: live -> /* heap_retire */
		do
		:: d_step { b < BLOCKS -> b++; owner[b] = (owner[b] == h -> NONE : owner[b]) }
		:: else -> break
		od;
		b = 0;
#ifndef BUG_UNREAD_LEFT
		d_step { list = unread[h]; unread[h] = NONE }
		scatter_all(list);
#endif
		take(h, list, CLOSED);
#ifdef BUG_CLOSE_LEAVES
		list = NONE;
#endif
		scatter_all(list);
		live = 0
	od
}

#ifdef LOOKER
/* Takes up what a sleeping owner has not. */
active proctype looker()
{
	byte g, m, i, x, list;

	do
	:: finished == SENDERS + HEAPS -> finished++; break
	:: atomic { g == 0 -> g = 1 }
	:: HEAPS > 1 && g == 0 -> g = HEAPS
	:: g != 0 ->
		/* The CAS: a closed inbox stays so. */
		if
		:: atomic { inbox[g] != NONE && inbox[g] != CLOSED -> take(g, list, NONE) }
		:: inbox[g] == NONE || inbox[g] == CLOSED
		fi;
		m = NONE;
		scatter_all(list);
		atomic { list = unread[g]; unread[g] = NONE };
		m = NONE;
		scatter_all(list);
		g = 0
	od
}
#endif

active proctype end()
{
	byte i;

	finished == ALL;
	do
	:: d_step {
		i < HEAPS + MESSAGES + BLOCKS -> i++;
		assert(i > HEAPS || inbox[i] == CLOSED);
		assert(i > MESSAGES || (state[i] == FREE && has[i] == SENDER));
		assert(i > BLOCKS || where[i] == HOME || where[i] == USED)
	   }
	:: else -> break
	od
}
