/* SPDX-License-Identifier: MIT */
/* Policy: how many blocks a bin may hold. Pure functions of class and settings. */
#ifndef HAK_FRONT_POLICY_H
#define HAK_FRONT_POLICY_H

#include "base/compiler.h"

/* Blocks a bin of class `sc` may hold at first, and at most. */
unsigned policy_initial_capacity(unsigned sc);
unsigned policy_max_capacity(unsigned sc);

/* Blocks to add to a bin that is too small, in a heap whose bins have grown by `grown` bytes so far: what
   a thread may cache is bounded in all. */
unsigned policy_growth(unsigned sc, unsigned capacity, size_t grown);

/* Blocks to carve at a time. */
unsigned policy_carve(unsigned sc, unsigned capacity);

#endif
