/* SPDX-License-Identifier: MIT */
/*
 * The C++ run time, used from C and only when it is there: whether it is, is asked at the start of C++ programs; the
 * rest is looked up when memory has run out.
 */
#ifndef HAK_ABI_CATCH_H
#define HAK_ABI_CATCH_H

#include "base/compiler.h"

/* A function of the C++ run time: the one that the process sees; else the one of the object with the instruction `caller`
   (inside, or linked with it), else any, of a library that was loaded out of sight. NULL: there is none but `ours`. */
void *cxx_find(const char *mangled, const void *caller, const void *ours);

/* The first of these: in the shared library the loader is asked, in the archive it is what was linked. */
void *cxx_seen(const char *mangled);

/* May there be any of it, now while the program starts? False costs one look at a word. */
bool cxx_is_there(void);

/* Calls `fn` with `arg`. False: it threw, and the exception is over. */
bool call_catching(void (*fn)(void *arg), void *arg);

#endif
