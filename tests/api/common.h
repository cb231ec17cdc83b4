/* SPDX-License-Identifier: MIT */
/*
 * What the test programs of this folder share: the sizes worth trying, patterns to fill blocks with,
 * and an entry that makes sure that the allocator meant is the one under test.
 *
 * family.c, info.c, align.c, realloc.c and limits.c know nothing of HAKMEM: suite `api` runs them
 * with the library preloaded, suite `reference` on the libc's own allocator. A case that holds for
 * only one of them asks on_hakmem().
 */
#ifndef HAK_TESTS_API_COMMON_H
#define HAK_TESTS_API_COMMON_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* An errno that no function of the family sets. */
#define ODD_ERRNO 4242

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/* Sizes on and around every border between size classes, tiers and pages, ascending, 1 B to 64 MiB. */
extern const size_t sizes[];
extern const size_t sizes_count;

/* Sizes that no allocator can serve: above PTRDIFF_MAX, just below it, and above any address space. */
extern const size_t huge_sizes[];
extern const size_t huge_sizes_count;

/* True when the environment says that malloc is HAKMEM's (HAKMEM_EXPECT=1). */
bool on_hakmem(void);

/* False on HAKMEM built with stats=false, whose counters say nothing. */
bool has_stats(void);

/* True for requests that a library built with tiny_wrap=false leaves to the libc. */
bool is_unwrapped(size_t size);

/* The value itself, hidden from the compiler, which warns about sizes that must fail. */
size_t hidden(size_t value);

/* Writes no zeros, also beyond what was asked for, up to the usable size: where the compiler sees how the block was made
   it may take that for an overflow, and here it does not see it. */
enum { STAIN = 0xdb };
void stain(void *block, size_t size);

/* Writes a pattern made from `seed`. A prefix of a filled block is filled, too. */
void fill(void *block, size_t size, unsigned seed);
bool is_filled(const void *block, size_t size, unsigned seed);
bool is_zero(const void *block, size_t size);
bool is_aligned(const void *block, size_t alignment);

/* The function `name` as the program sees it. Ends the test case where it is missing: skipped on the
   reference, failed on HAKMEM. */
void *find_function(const char *name);

/* Bytes of the process that are resident; bytes it has mapped; of those, what it may write to. */
size_t resident_bytes(void);
size_t mapped_bytes(void);
size_t data_bytes(void);

/* Whether so much address space, or memory if it may be written to, can be had now. An emulator may not hold the program
   to its limits. */
bool is_mappable(size_t size, int protection);

/* Do large blocks lie between guards, where they keep their addresses when they shrink, and cannot grow? */
bool has_guards(void);

/* A step of a xorshift generator; `*statep` is not 0. */
uint64_t random_next(uint64_t *statep);

/* 0, or 1 with a message when malloc is not served by the library it should be served by. */
int check_allocator(void);

#define RUN_TESTS(tests) (check_allocator() ? 1 : cmocka_run_group_tests((tests), NULL, NULL))

#endif
