/* SPDX-License-Identifier: MIT */
/* Slabs and their blocks for the tests of what moves them about. */
#ifndef UNIT_FIXTURE_H
#define UNIT_FIXTURE_H

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

uint64_t fixture_word(const struct slab *s);
uint32_t fixture_owner(const struct slab *s);

#endif
