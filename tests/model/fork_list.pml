/*
 * fork_list.pml - a list whose user a fork stops amid an insertion or a removal.
 *
 * Models: list_push, list_remove (src/base/list.h), store by store in the order of the source, for
 * the lists that outlive their holder in a fork child: the slabs of a locked heap (`all`, mended by
 * heap_forget_free in src/front/heap_fork.c) and its large blocks (`larges`, src/front/locked_heap.c).
 * Lists of one lock that the repair empties and makes anew (pool, free descriptors, SuperSlabs) do
 * not need this.
 *
 * A thread inserts and removes nodes; it is stopped anywhere; the child walks the list as the
 * repair does, then removes what is its own to remove and inserts new nodes. The node that the
 * thread had in its hands is lost to the child unless the list still leads to it.
 *
 * Checked, at the end of the repair and after each later step: the list ends, each node's `pprev`
 * points at what points at the node, no removed node is reachable, and every node the thread was
 * done with is where it left it.
 *
 * Bounds: NODES nodes; runs of any length; CHILD_STEPS removals and insertions in the child.
 *
 * BUG_LINKS_TRUSTED: the repair walks the list and leaves its links as they are.
 * BUG_NO_RELINK_HEAD: it mends all but the first. The checks must then fail (run.sh).
 */

#ifndef NODES
#define NODES 4
#endif
#ifndef CHILD_STEPS
#define CHILD_STEPS 4
#endif
#define END 0    /* null as `next`; as `pprev`: &list.first, and next[0] is list.first */
#define NULL 255 /* null as `pprev`: on no list */

byte next[NODES + 1];
byte pprev[NODES + 1] = NULL;

/* Ghosts: what the thread, and then the child, believes to be on the list; what it has in its
   hands. */
bit on[NODES + 1];
byte amid;
bit forked;

#define select_node(cond) \
	if :: cond(1) -> n = 1 :: cond(2) -> n = 2 :: cond(3) -> n = 3 :: cond(NODES) -> n = NODES fi
#define is_on(N) (on[N] && N != amid)
#define is_off(N) (!on[N] && N != amid)

active proctype thread() provided (!forked)
{
	byte n;

	do
	:: atomic { select_node(is_off); amid = n }
	   next[n] = next[0];
	   pprev[n] = 0;
	   if
	   :: next[n] != END -> pprev[next[n]] = n
	   :: else
	   fi;
	   d_step { next[0] = n; on[n] = 1; amid = 0; n = 0 }

	:: atomic { select_node(is_on); amid = n }
	   next[pprev[n]] = next[n];
	   if
	   :: next[n] != END -> pprev[next[n]] = pprev[n]
	   :: else
	   fi;
	   next[n] = END;
	   d_step { pprev[n] = NULL; on[n] = 0; amid = 0; n = 0 }
	od
}

/* Sane, and complete but for the node that was in the thread's hands. */
inline check()
{
	k = 0; at = 0;
	do
	:: next[at] != END ->
		assert(pprev[next[at]] == at);
		at = next[at];
		assert(on[at] || at == amid);
		k++;
		assert(k <= NODES);
		found = found + (at != amid)
	:: else -> break
	od;
	k = 1;
	do
	:: k <= NODES -> found = found - (on[k] && k != amid); k++
	:: else -> break
	od;
	assert(found == 0);
	k = 0; at = 0
}

active proctype child()
{
	byte n, k, at, steps;
	short found;

	atomic {
		forked = 1;
#ifndef BUG_LINKS_TRUSTED
		do
		:: next[at] != END ->
#ifdef BUG_NO_RELINK_HEAD
			pprev[next[at]] = (at != 0 -> at : pprev[next[at]]);
#else
			pprev[next[at]] = at;
#endif
			at = next[at]
		:: else -> break
		od;
		check()
#endif
	}
	do
	:: steps < CHILD_STEPS ->
		steps++;
		if
		:: atomic { select_node(is_on) ->
			next[pprev[n]] = next[n];
			if
			:: next[n] != END -> pprev[next[n]] = pprev[n]
			:: else
			fi;
			next[n] = END; pprev[n] = NULL; on[n] = 0;
			check() }
		:: atomic { select_node(is_off) ->
			next[n] = next[0]; pprev[n] = 0;
			if
			:: next[n] != END -> pprev[next[n]] = n
			:: else
			fi;
			next[0] = n; on[n] = 1;
			check() }
		fi;
		n = 0
	:: else -> break
	od
}
