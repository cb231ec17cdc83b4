/* SPDX-License-Identifier: MIT */
/*
 * Holes: memory for a class out of sparse slabs of others (slab/mosaic.h), before fresh memory is taken.
 *
 * A program whose sizes drift leaves every old slab with a few survivors; without this the old slabs and
 * the new ones add up. Only heaps of some size do it, and only with slabs that are a quarter
 * empty at least and have a hole that is long enough, of classes that have others to spare, so a program in a steady
 * state never comes here. Smaller heaps use what ended threads have left, once that is many mosaics or many slabs of
 * one class: nobody would use them where threads, one after the other, stay small.
 *
 * The other way round, in the process's first heap a class of large blocks begins in a mosaic: a program that
 * needs a buffer of each of a dozen sizes, one after the other, would keep a slab for each. After a few granules
 * of them the class has slabs of its own. The heaps of more threads have them at once: what programs of many
 * threads do with such blocks they do for long.
 */
#ifndef HAK_FRONT_HOLES_H
#define HAK_FRONT_HOLES_H

#include "front/heap.h"

/* A block of class `sc`, which mosaics may hold, and more in its bin, which is empty; NULL: no hole is worth
   it. */
void *holes_refill(struct heap *h, unsigned sc);

/* A block of a class of more than MOSAIC_MAX_SIZE bytes for a heap without a slab of it; NULL: the class has had
   enough of them to have slabs. */
void *holes_start(struct heap *h, unsigned sc);

#endif
