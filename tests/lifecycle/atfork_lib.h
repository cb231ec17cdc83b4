/* SPDX-License-Identifier: MIT */
#ifndef TESTS_ATFORK_LIB_H
#define TESTS_ATFORK_LIB_H

/* How many times somebody had fork handlers registered. */
int atfork_lib_registered(void);

/* How many of them before a thread was last made. */
int atfork_lib_registered_before_thread(void);

#endif
