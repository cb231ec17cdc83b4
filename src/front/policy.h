/* SPDX-License-Identifier: MIT */
/* Policy: how many blocks a bin may hold. Pure functions of class and settings. */
#ifndef HAK_FRONT_POLICY_H
#define HAK_FRONT_POLICY_H

#include "base/compiler.h"

/* Blocks a bin of class `sc` may hold at first, and at most. */
unsigned policy_initial_capacity(unsigned sc);
unsigned policy_max_capacity(unsigned sc);

/* The capacity after a refill that was preceded by `overflows` frees into a full bin. */
unsigned policy_adapt(unsigned sc, unsigned capacity, unsigned overflows);

/* Blocks to carve at a time. */
unsigned policy_carve(unsigned sc, unsigned capacity);

#endif
