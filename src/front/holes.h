/* SPDX-License-Identifier: MIT */
/*
 * Holes: memory for a class out of sparse slabs of others (slab/mosaic.h), before fresh memory is taken.
 *
 * A program whose sizes drift leaves every old slab with a few survivors; without this the old slabs and
 * the new ones add up. Only heaps of some size do it, and only with slabs that are a quarter
 * empty at least, of classes that have others to spare, so a program in a steady state never comes here.
 */
#ifndef HAK_FRONT_HOLES_H
#define HAK_FRONT_HOLES_H

#include "front/heap.h"

/* A block of class `sc` and more in its bin, which is empty; NULL: no hole is worth it. */
void *holes_refill(struct heap *h, unsigned sc);

#endif
