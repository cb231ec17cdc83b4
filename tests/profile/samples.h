/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SAMPLES_H
#define TESTS_SAMPLES_H

/* How many sampled blocks live, as the profile says; -1: there is none. */
long samples(void);

#endif
