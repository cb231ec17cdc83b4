/* SPDX-License-Identifier: MIT */
/* Slabs and their blocks for the tests of what moves them about. */
#ifndef UNIT_FIXTURE_H
#define UNIT_FIXTURE_H

#include "front/heap.h"
#include "slab/message.h"
#include "slab/remote.h"
#include "space/pagemap.h"

enum { FIXTURE_TAG = 7 << TAG_OWNER_SHIFT };

/* A slab of `owner` with `carved` blocks, all of them out. */
struct slab *fixture_slab(unsigned sc, struct inbox *owner, unsigned carved);

uintptr_t fixture_block(const struct slab *s, unsigned index);

/* Posts blocks first .. first + count - 1, as one batch. */
void fixture_post(struct slab *s, unsigned first, unsigned count);

/* Number of blocks on a list, found by walking it; all must be blocks of the slab. */
unsigned fixture_count(const struct slab *s, uintptr_t link);

/* The slab that a block lies in. */
struct slab *fixture_slab_of(uintptr_t block);

/* A block from the heap's bin, or from a refill of it; there must be one. */
uintptr_t fixture_take(struct heap *h, unsigned sc);

/* Puts a block of one of the heap's slabs on the slab's own list. */
void fixture_send_home(struct heap *h, uintptr_t block);

/* Frees a block of class `sc` of the heap's own as free does: into the bin, of which the older half goes home if it is
   full. */
void fixture_free(struct heap *h, unsigned sc, uintptr_t block);

/* The heap's thread frees a block of another's, which waits in the outbox, or is posted alone. */
void fixture_free_remotely(struct heap *h, uintptr_t block);

/* Sends blocks to a heap in a message, which is FREE. */
void fixture_send(struct message *m, struct heap *to, const uintptr_t *blocks, unsigned count);

/* Opens a message and puts blocks in it, which is not sent. */
void fixture_write(struct message *m, struct heap *to, const uintptr_t *blocks, unsigned count);

uint64_t fixture_word(const struct slab *s);
uint32_t fixture_owner(const struct slab *s);

/* Makes the heap larger than PURGE_HEAP, and small again. */
void fixture_enlarge_heap(void);
void fixture_reduce_heap(void);

/* Two threads wait for the space lock until it counts as contended. */
void fixture_contend(void);

/* Is memory made resident by one call here? */
bool fixture_can_populate(void);

/* Is the last page that blocks of the slab lie on resident? */
bool fixture_is_whole(const struct slab *s);

#endif
