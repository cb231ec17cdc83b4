/* SPDX-License-Identifier: MIT */
/*
 * One misuse of the allocator per case. A case announces on standard output the messages that would
 * be right, then misuses; the judge is driver.c. Nothing here uses stdio or allocates besides what
 * the case is about.
 */
#ifndef TESTS_MISUSE_H
#define TESTS_MISUSE_H

#include <stdbool.h>
#include <stddef.h>

enum { SIZE_SMALL = 1, SIZE_MEDIUM = 2, SIZE_LARGE = 4, SIZE_HUGE = 8 };
enum { SIZE_EVERY = 15, SIZE_NONE = 0 /* the case has no block of its own */ };

struct misuse {
	const char *name;
	unsigned sizes; /* the case is run once with each of them */
	void (*run)(size_t size);
	unsigned level; /* of HAKMEM_SECURE from which on it must be caught, or GUARDED */
};

enum { GUARDED = 9 }; /* it must be caught with HAKMEM_GUARD_RATE=1, at any level */

/* Each ends with a nameless entry. */
extern const struct misuse twice_cases[], entry_cases[], pointer_cases[], mosaic_cases[],
	link_cases[], hardened_cases[];

/* Announces an acceptable message: what stands between "hakmem: " and " in misuse[123]". `*` stands
   for anything. The first announcement also names the process that is going to die. */
__attribute__((format(printf, 1, 2))) void expect(const char *format, ...);

/* Announces what a second free of `ptr`, a former block of `usable` bytes, must give. */
void expect_double_free(const void *ptr, size_t usable);

/* The same, after so much was freed, or so large a block, that its memory may be back with the
   system: then nobody can tell any more that it ever was a block. Large blocks may also have been
   joined with others that were freed: then the size named is that of all of them. */
void expect_late_double_free(const void *ptr, size_t usable);

/* Announces what `what` ("free", "realloc", …) must say of `ptr` inside the live block `block`. */
void expect_interior(const char *what, const void *ptr, void *block);

/* A new block; ends the program when there is none. */
void *take(size_t size);

/* Whether blocks of `size` have pages of their own, which freeing may give back at once. */
bool is_large(size_t size);

/* Runs `run(argument)` in another thread and waits for its end. */
void in_thread(void *(*run)(void *), void *argument);

/* `ptr`, of which the compiler then knows nothing. */
static inline void *opaque(const void *ptr)
{
	void *hidden = (void *)(unsigned long)ptr;

	__asm__ volatile("" : "+r"(hidden));
	return hidden;
}

/* The function of that name in the running process; ends it as skipped when there is none. */
void *lookup(const char *name);

#endif
