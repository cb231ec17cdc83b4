/* SPDX-License-Identifier: MIT */
/* Slabs that are EMPTIED while their owner sleeps (slab/remote.h): for whoever does that, and for the owner. */
#ifndef HAK_SLAB_EMPTIED_H
#define HAK_SLAB_EMPTIED_H

#include "slab/message.h"

/* Slabs, or messages, of an inbox as a list, leaving none; a closed one stays so. Not its owner. */
struct slab *inbox_take_others(struct inbox *in);
struct message *inbox_take_others_messages(struct inbox *in);

/* Empties a slab that has just been taken out of a queue, if every block is on its list. The caller frees its granule:
   who frees a block once more will be told so, unless another lies there by then. Not with hardening. False: nothing has
   been done. */
bool emptied_make(struct slab *s);

/* Would it? */
bool emptied_could_be(const struct slab *s);

/* An EMPTIED slab that has just been taken out of a queue, and is in no list: its descriptor is free. Owner. */
void emptied_forget(struct slab *s);

#endif
