/* SPDX-License-Identifier: MIT */
/*
 * Included before everything else where the library is built to act at all times as it does while threads contend for
 * the space lock: two processors seldom bring that about.
 */
#ifndef TESTS_CONTENDED_H
#define TESTS_CONTENDED_H

#include "space/superslab.h"

#define space_is_contended() true

#endif
