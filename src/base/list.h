/* SPDX-License-Identifier: MIT */
/*
 * Intrusive doubly linked list, NULL-terminated so that zeroed memory is an empty list.
 *
 * A node's `pprev` points at whatever points at the node (the head or the predecessor's `next`),
 * so unlinking needs no head; NULL means the node is on no list. Callers hold whatever guards the
 * list.
 */
#ifndef HAK_BASE_LIST_H
#define HAK_BASE_LIST_H

#include "base/compiler.h"

struct list_node {
	struct list_node *next;
	struct list_node **pprev;
};

struct list {
	struct list_node *first;
};

/* What a node of a list or a queue is a member of. */
#define LIST_ENTRY(node, type, member) \
	((type *)(void *)((char *)(node) - offsetof(type, member)))

HAK_INLINE bool list_is_linked(const struct list_node *n) {
	return n->pprev != NULL;
}

HAK_INLINE void list_push(struct list *l, struct list_node *n) {
	n->next = l->first;
	n->pprev = &l->first;
	if (l->first != NULL)
		l->first->pprev = &n->next;
	l->first = n;
}

HAK_INLINE void list_remove(struct list_node *n) {
	*n->pprev = n->next;
	if (n->next != NULL)
		n->next->pprev = n->pprev;
	n->next = NULL;
	n->pprev = NULL;
}

/* After a push or a removal that was never finished: nodes point back again at what points at them. */
HAK_INLINE void list_relink(struct list *l) {
	struct list_node **at = &l->first;
	for (; *at != NULL; at = &(*at)->next)
		(*at)->pprev = at;
}

/*
 * A list with a tail: first in, first out. Zeroed memory is an empty queue.
 */
struct queue_node {
	struct queue_node *next, *prev;
};

struct queue {
	struct queue_node *first, *last;
	size_t count;
};

HAK_INLINE void queue_append(struct queue *q, struct queue_node *n) {
	n->next = NULL;
	n->prev = q->last;
	*(q->last != NULL ? &q->last->next : &q->first) = n;
	q->last = n;
	q->count++;
}

/* Behind `before`; NULL: as the first. */
HAK_INLINE void queue_insert(struct queue *q, struct queue_node *before, struct queue_node *n) {
	struct queue_node **at = before != NULL ? &before->next : &q->first;
	n->prev = before;
	n->next = *at;
	*at = n;
	*(n->next != NULL ? &n->next->prev : &q->last) = n;
	q->count++;
}

HAK_INLINE void queue_remove(struct queue *q, struct queue_node *n) {
	*(n->prev != NULL ? &n->prev->next : &q->first) = n->next;
	*(n->next != NULL ? &n->next->prev : &q->last) = n->prev;
	n->next = n->prev = NULL;
	q->count--;
}

#endif
