/* SPDX-License-Identifier: MIT */
/* The slabs of a heap: its lists, and what happens when a block comes home. All need what front/heap.h asks
   of whoever touches a heap. */
#ifndef HAK_FRONT_HEAP_SLABS_H
#define HAK_FRONT_HEAP_SLABS_H

#include "front/heap.h"

HAK_INLINE struct slab *slab_of_ready_node(struct list_node *n) {
	return LIST_ENTRY(n, struct slab, ready);
}

HAK_INLINE struct slab *slab_of_all_node(struct list_node *n) {
	return LIST_ENTRY(n, struct slab, all);
}

/* The heap's lists that the slab belongs in: those of its class, or, for mosaics, those of class 0. */
struct heap_class *heap_class_of(struct heap *h, const struct slab *s);

/* A slab that is the heap's by owner and tag enters its lists; leaves them; leaves them to be deleted with others on a
   list; and is deleted. */
void heap_add_slab(struct heap *h, struct slab *s);
void heap_unlink_slab(struct heap *h, struct slab *s);
void heap_leave_slab(struct heap *h, struct slab *s, struct slab **list);
void heap_delete_slab(struct heap *h, struct slab *s);

/* Leaves the heap's lists and is deleted if all its blocks are home. */
void heap_delete_if_empty(struct heap *h, struct slab *s);

/* The same for all of them together, but for those that stay, if that is asked. */
void heap_delete_empty(struct heap *h, bool (*stays)(struct heap *h, struct slab *s));

/* Before a small heap touches new memory: the slabs of a class whose blocks all wait in the bin are deleted, if what they
   lie on stays resident and serves any class. */
void heap_recall(struct heap *h);

/* Says what became of a slab of class `sc`, with the setting tiny_warm_log. */
void heap_log_slab(const struct heap *h, unsigned sc, const char *what);

/* Files a mosaic by its largest hole. */
void heap_file_mosaic(struct heap *h, struct slab *s);

/* Returns a block to a hole; the mosaic may be gone then, unless it is among the last. */
void heap_put_in_mosaic(struct heap *h, struct slab *s, uintptr_t block);

/* Takes up the remote list of a mosaic that has just been taken out of a queue. */
void heap_collect_mosaic(struct heap *h, struct slab *s);

/* Calls `visit` for every slab of the heap; it may remove the slab. */
void heap_for_each_slab(struct heap *h, void (*visit)(struct heap *h, struct slab *s));

#endif
