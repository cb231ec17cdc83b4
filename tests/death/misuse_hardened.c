/* SPDX-License-Identifier: MIT */
/*
 * Misuse that hardening alone can tell: writes beyond a block or after its free, sizes and kinds that do not
 * go together. The table at the end says from which level of HAKMEM_SECURE on each must be caught.
 */
#include "misuse.h"

#include "cases.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect_block(const char *before, const void *ptr, size_t size, const char *behind)
{
	expect("%s%p (%zu-byte block)%s", before, ptr, size, behind);
}

/* The compiler does not know where. */
static void poke(void *at)
{
	*(volatile char *)opaque(at) = 0x41;
}

static void peek(void *at)
{
	CHECK(*(volatile char *)opaque(at) != 1);
}

/* ---- sizes and alignments ---- */

static void sized_wrong(const char *function, size_t size, size_t said)
{
	void (*release)(void *, size_t) = (void (*)(void *, size_t))lookup(function);
	void *p = take(size);

	expect("free of %p (%zu-byte block) with size %zu", p, malloc_usable_size(p), said);
	release(opaque(p), said);
}

static void sized_smaller(size_t size)
{
	sized_wrong("free_sized", size, size / 2);
}

static void sized_larger(size_t size)
{
	sized_wrong("free_sized", size, size * 3);
}

static void sized_by_name(size_t size)
{
	sized_wrong("hak_free_size", size, size * 2);
}

/* One byte less may be of the same class. */
static void sized_almost(size_t size)
{
	sized_wrong("free_sized", size, size - 1);
}

static void *made(const char *function, size_t size)
{
	void *(*make)(size_t) = (void *(*)(size_t))lookup(function);
	void *p = make(size);

	CHECK(p);
	return p;
}

static void deleted_smaller(size_t size)
{
	void (*release)(void *, size_t) = (void (*)(void *, size_t))lookup("_ZdlPvm");
	void *p = made("_Znwm", size);

	expect("free of %p (%zu-byte block) with size %zu", p, malloc_usable_size(p), size / 2);
	release(opaque(p), size / 2);
}

static void array_deleted_larger(size_t size)
{
	void (*release)(void *, size_t) = (void (*)(void *, size_t))lookup("_ZdaPvm");
	void *p = made("_Znam", size);

	expect("free of %p (%zu-byte block) with size %zu", p, malloc_usable_size(p), size * 2);
	release(opaque(p), size * 2);
}

/* Aligned to no more than it had to be. */
static char *odd_block(size_t size, size_t alignment)
{
	char *p;

	do
		p = take(size);
	while ((unsigned long)p % alignment == 0);
	return p;
}

static void alignment_wrong(size_t size)
{
	void (*release)(void *, size_t, size_t) =
		(void (*)(void *, size_t, size_t))lookup("free_aligned_sized");
	void *p = odd_block(size, 1 << 21);

	expect("free of %p (%zu-byte block) with alignment %d", p, malloc_usable_size(p), 1 << 21);
	release(opaque(p), 1 << 21, size);
}

static void deleted_alignment_wrong(size_t size)
{
	void (*release)(void *, size_t, size_t) =
		(void (*)(void *, size_t, size_t))lookup("_ZdlPvmSt11align_val_t");
	void *p = odd_block(size, 1 << 21);

	expect("free of %p (%zu-byte block) with alignment %d", p, malloc_usable_size(p), 1 << 21);
	release(opaque(p), size, 1 << 21);
}

/* ---- kinds ---- */

static void kinds(const char *make, const char *release, size_t size, const char *by, const char *from)
{
	void (*give)(void *) = (void (*)(void *))lookup(release);
	void *p = made(make, size);

	expect("%s of %p (%zu-byte block) made by %s", by, p, malloc_usable_size(p), from);
	give(opaque(p));
}

static void new_then_free(size_t size)
{
	kinds("_Znwm", "free", size, "free", "new");
}

static void malloc_then_delete(size_t size)
{
	kinds("malloc", "_ZdlPv", size, "delete", "malloc");
}

static void array_then_delete(size_t size)
{
	kinds("_Znam", "_ZdlPv", size, "delete", "new[[]]");
}

static void new_then_array_delete(size_t size)
{
	kinds("_Znwm", "_ZdaPv", size, "delete[[]]", "new");
}

static void array_then_free(size_t size)
{
	kinds("_Znam", "free", size, "free", "new[[]]");
}

/* ---- writes beyond a block ---- */

/* Asking for its size would find the overflow already. */
static char *overflow_blindly(size_t size, size_t length, int byte)
{
	char *p = take(size);

	/* One secret byte in 256 is what is about to be written. */
	while (length == 1 && *((char *)opaque(p) + size) == (char)byte)
		p = take(size);
	memset(p, 0x5a, size);
	expect_block("write behind ", p, size, "");
	expect("write behind %p (*-byte block)", (void *)p); /* what it was is overwritten, too */
	memset((char *)opaque(p) + size, byte, length);
	return p;
}

static void overflow_1_freed(size_t size)
{
	free(overflow_blindly(size, 1, 0x41));
}

static void overflow_1_zero_freed(size_t size)
{
	free(overflow_blindly(size, 1, 0));
}

static void overflow_1_odd_size_freed(size_t size)
{
	free(overflow_blindly(size - 3, 1, 0));
}

static void overflow_8_freed(size_t size)
{
	free(overflow_blindly(size, 8, 0x41));
}

static void overflow_16_deleted(size_t size)
{
	void (*release)(void *) = (void (*)(void *))lookup("free_sized");
	void (*sized_free)(void *, size_t) = (void (*)(void *, size_t))(void *)release;

	sized_free(overflow_blindly(size, 8, 0x42), size);
}

static void overflow_reallocated(size_t size)
{
	free(realloc(overflow_blindly(size, 1, 0x41), size * 3));
}

static void overflow_shrunk(size_t size)
{
	free(realloc(overflow_blindly(size, 1, 0x41), size - 1));
}

static void overflow_measured(size_t size)
{
	CHECK(malloc_usable_size(overflow_blindly(size, 1, 0x41)) != 1);
}

static void *free_it(void *p)
{
	free(p);
	return NULL;
}

static void overflow_freed_by_thread(size_t size)
{
	in_thread(free_it, overflow_blindly(size, 1, 0x41));
}

static void overflow_of_calloc_freed(size_t size)
{
	char *p = calloc(size / 8, 8);

	CHECK(p);
	expect("write behind %p (*-byte block)", (void *)p);
	poke((char *)p + size / 8 * 8);
	free(p);
}

static void overflow_of_aligned_freed(size_t size)
{
	void *p;

	CHECK(posix_memalign(&p, 256, size) == 0);
	expect("write behind %p (*-byte block)", p);
	poke((char *)p + size);
	free(p);
}

static void overflow_after_realloc_freed(size_t size)
{
	char *p = realloc(take(size), size + 5);

	CHECK(p);
	expect("write behind %p (*-byte block)", (void *)p);
	poke((char *)p + size + 5);
	free(p);
}

static void underflow(size_t size, size_t distance, size_t length)
{
	char *p = take(size);

	expect_block("write before ", p, size, "");
	/* Of blocks that lie at random one is the first behind an inaccessible page. */
	expect("access to %p between slabs", (char *)p - distance);
	memset((char *)opaque(p) - distance, 0x41, length);
	free(p);
}

static void underflow_1(size_t size)
{
	underflow(size, 1, 1);
}

static void underflow_8(size_t size)
{
	underflow(size, 8, 8);
}

/* ---- writes after free ---- */

static void written_after_free(size_t size, size_t at)
{
	char *p = take(size);

	memset(p, 0x5a, size);
	free(p);
	expect_block("write after free to ", p, size, "");
	poke((char *)p + at);
	malloc_trim(0);
}

static void first_written_after_free(size_t size)
{
	written_after_free(size, 0);
}

static void last_written_after_free(size_t size)
{
	written_after_free(size, size - 1);
}

static void written_after_free_and_others(size_t size)
{
	char *p = take(size);

	free(p);
	expect_block("write after free to ", p, size, "");
	poke((char *)p + size / 2);
	for (size_t i = 0; i < 100000; i++)
		free(take(size));
}

static void *write_and_end(void *p)
{
	free(p);
	poke(p);
	return NULL;
}

/* What its quarantine holds is looked at when a thread ends. */
static void written_after_free_by_thread_that_ends(size_t size)
{
	char *p = take(size);

	expect_block("write after free to ", p, size, "");
	in_thread(write_and_end, p);
}

static void written_after_realloc(size_t size)
{
	char *p = take(size), *moved = realloc(p, size * 3);

	CHECK(moved && moved != p);
	expect_block("write after free to ", p, size, "");
	poke(p);
	malloc_trim(0);
}

static void aligned_written_after_free(size_t size)
{
	void *p;

	CHECK(posix_memalign(&p, 1024, size) == 0);
	free(p);
	expect("write after free to %p (*-byte block)", p);
	poke((char *)p + size - 1);
	malloc_trim(0);
}

/* Where it dies this process does, too. */
static void in_child(void (*run)(char *p, size_t size), char *p, size_t size)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		run(p, size);
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)
		abort();
}

static void write_and_trim(char *p, size_t size)
{
	expect_block("write after free to ", p, size, "");
	poke(p + size - 1);
	malloc_trim(0);
}

static void written_in_child_after_free(size_t size)
{
	char *p = take(size);

	free(p);
	in_child(write_and_trim, p, size);
}

static void free_twice_in_child(char *p, size_t size)
{
	free(opaque(p));
	expect_double_free(p, size);
	free(opaque(p));
}

static void freed_twice_in_child(size_t size)
{
	in_child(free_twice_in_child, take(size), size);
}

static void *fork_free_twice(void *p)
{
	in_child(free_twice_in_child, p, malloc_usable_size(p));
	return NULL;
}

/* The child has none of the threads that the quarantines are of. */
static void freed_twice_in_child_of_thread(size_t size)
{
	in_thread(fork_free_twice, take(size));
}

/* ---- faults ---- */

static void touch_after_free(size_t size, bool write)
{
	char *p = take(size);

	free(p);
	expect("access to %p after free of %p (%zu-byte block)", (void *)(p + 100), (void *)p, size);
	write ? poke(p + 100) : peek(p + 100);
}

static void large_read_after_free(size_t size)
{
	touch_after_free(size, false);
}

static void large_written_after_free(size_t size)
{
	touch_after_free(size, true);
}

/* Too large to wait, and among others, which is when BigCache would keep it. */
static void one_of_hundred_mib_read_after_free(size_t size)
{
	const size_t length = (size_t)100 << 20;

	for (int i = 0; i < 6; i++)
		take(length);
	touch_after_free(length, false);
}

/* Inaccessible at level 3 only. */
static void two_granules_written_after_free(size_t size)
{
	const char *level = getenv("HAKMEM_SECURE");
	char *p;

	if (level && atoi(level) == 3) {
		touch_after_free(size, true);
		return;
	}
	p = take(size);
	free(p);
	expect_block("write after free to ", p, size, "");
	poke(p + size - 1);
	for (unsigned i = 0; i < 100; i++)
		free(take(size));
}

/* Which realloc moved without copying it, perhaps. */
static void large_written_after_realloc(size_t size)
{
	char *p = take(size), *moved = realloc(p, size * 100);

	CHECK(moved && moved != p);
	expect("access to %p after free of %p (%zu-byte block)", (void *)(p + size - 1), (void *)p, size);
	poke(p + size - 1);
}

static void page_behind_read(size_t size)
{
	char *p = take(size), *behind = p + (size + 8 + 4095) / 4096 * 4096;

	expect("access to %p behind %p (%zu-byte block)", (void *)behind, (void *)p, size);
	peek(behind);
}

static void page_before_written(size_t size)
{
	char *p = take(size);

	expect("access to %p before %p (%zu-byte block)", (void *)(p - 1), (void *)p, size);
	poke(p - 1);
}

/* The first page of the granule that a block is in; free of blocks from level 3 on. */
static void slab_front_written(size_t size)
{
	unsigned long p = (unsigned long)take(size), front = p & ~0xfffful;

	expect("access to %p between slabs", (void *)(front + 24));
	poke((void *)(front + 24));
}

/* ---- sampled blocks: with HAKMEM_GUARD_RATE=1 every small block is one ---- */

static void guarded_read_after_free(size_t size)
{
	char *p = take(size);

	free(p);
	expect("access to %p after free of %p (%zu-byte block)", (void *)p, (void *)p, size);
	peek(p);
}

static void guarded_twice(size_t size)
{
	void *p = take(size);

	free(p);
	expect_double_free(p, size);
	free(opaque(p));
}

static void guarded_interior(size_t size)
{
	char *p = take(size);

	expect_interior("free", p + 8, p);
	free(opaque(p + 8));
}

/* Against the back of its pages it faults at the page, else its pad tells. */
static void guarded_overflow(size_t size)
{
	char *p = take(size);
	char *end = (char *)(((unsigned long)p + size + 15) & ~15ul);

	expect_block("write behind ", p, size, "");
	expect("access to %p behind %p (%zu-byte block)", (void *)end, (void *)p, size);
	memset((char *)opaque(p) + size, 0x41, (size_t)(end + 16 - p) - size);
	free(p);
}

static void guarded_underflow(size_t size)
{
	char *p = take(size);

	expect_block("write before ", p, size, "");
	expect("access to %p before %p (%zu-byte block)", (void *)(p - 1), (void *)p, size);
	poke(p - 1);
	free(p);
}

static void peek_freed(char *p, size_t size)
{
	expect("access to %p after free of %p (%zu-byte block)", (void *)p, (void *)p, size);
	peek(p);
}

static void guarded_read_in_child(size_t size)
{
	char *p = take(size);

	free(p);
	in_child(peek_freed, p, size);
}

static void free_and_peek(char *p, size_t size)
{
	free(opaque(p));
	peek_freed(p, size);
}

static void guarded_freed_in_child(size_t size)
{
	in_child(free_and_peek, take(size), size);
}

static void guarded_read_after_thread(size_t size)
{
	char *p = take(size);

	in_thread(free_it, p);
	peek_freed(p, size);
}

static void guarded_read_after_realloc(size_t size)
{
	char *p = take(size), *moved = realloc(p, size * 3);

	CHECK(moved && moved != p);
	peek_freed(p, size);
}

/* Two bytes, of which one is not the pad's. */
static void overflow_by_2(char *p, size_t size)
{
	expect_block("write behind ", p, size, "");
	expect("access to *1 behind %p (%zu-byte block)", (void *)p, size);
	expect("access to *0 behind %p (%zu-byte block)", (void *)p, size);
	poke(p + size);
	*(volatile char *)opaque(p + size + 1) = 0x42;
	free(opaque(p));
}

static void guarded_shrunk_overflow(size_t size)
{
	char *p = realloc(take(size), size - size / 8);

	CHECK(p && malloc_usable_size(p) == size - size / 8);
	overflow_by_2(p, size - size / 8);
}

static void guarded_grown_overflow(size_t size)
{
	char *p = realloc(take(size), size + 5);

	CHECK(p && malloc_usable_size(p) == size + 5);
	overflow_by_2(p, size + 5);
}

static void guarded_aligned_overflow(size_t size)
{
	void *p;

	CHECK(posix_memalign(&p, 1024, size) == 0 && (unsigned long)p % 1024 == 0);
	overflow_by_2(p, size);
}

enum { SMALL = SIZE_SMALL | SIZE_MEDIUM, LARGE = SIZE_LARGE | SIZE_HUGE };

const struct misuse hardened_cases[] = {
	{"block_freed_with_smaller_size", SIZE_SMALL, sized_smaller, 2}, /* realloc might have left it there */
	{"block_freed_with_smaller_size", SIZE_MEDIUM | LARGE, sized_smaller, 1},
	{"block_freed_with_larger_size", SIZE_EVERY, sized_larger, 1},
	{"block_freed_by_hak_free_size_with_larger_size", SIZE_EVERY, sized_by_name, 1},
	{"block_freed_with_size_less_by_1", SIZE_EVERY, sized_almost, 2},
	{"object_deleted_with_smaller_size", SIZE_EVERY, deleted_smaller, 1},
	{"array_deleted_with_larger_size", SIZE_EVERY, array_deleted_larger, 1},
	{"block_freed_with_wrong_alignment", SIZE_EVERY, alignment_wrong, 1},
	{"object_deleted_with_wrong_alignment", SIZE_EVERY, deleted_alignment_wrong, 1},
	{"object_freed", SMALL, new_then_free, 2},
	{"object_freed", LARGE, new_then_free, 1},
	{"block_deleted", SMALL, malloc_then_delete, 2},
	{"block_deleted", LARGE, malloc_then_delete, 1},
	{"array_deleted_as_object", SMALL, array_then_delete, 2},
	{"array_deleted_as_object", LARGE, array_then_delete, 1},
	{"object_deleted_as_array", SMALL, new_then_array_delete, 2},
	{"object_deleted_as_array", LARGE, new_then_array_delete, 1},
	{"array_freed", SMALL, array_then_free, 2},
	{"array_freed", LARGE, array_then_free, 1},
	{"byte_behind_block_written_then_freed", SIZE_EVERY, overflow_1_freed, 2},
	{"zero_behind_block_written_then_freed", SIZE_EVERY, overflow_1_zero_freed, 2},
	{"zero_behind_odd_block_written_then_freed", SIZE_EVERY, overflow_1_odd_size_freed, 2},
	{"word_behind_block_written_then_freed", SIZE_EVERY, overflow_8_freed, 2},
	{"word_behind_block_written_then_freed_with_size", SIZE_EVERY, overflow_16_deleted, 2},
	{"byte_behind_block_written_then_reallocated", SIZE_EVERY, overflow_reallocated, 2},
	{"byte_behind_block_written_then_shrunk", SIZE_EVERY, overflow_shrunk, 2},
	{"byte_behind_block_written_then_measured", SIZE_EVERY, overflow_measured, 2},
	{"byte_behind_block_written_then_freed_by_thread", SIZE_EVERY, overflow_freed_by_thread, 2},
	{"byte_behind_cleared_block_written", SIZE_EVERY, overflow_of_calloc_freed, 2},
	{"byte_behind_aligned_block_written", SIZE_EVERY, overflow_of_aligned_freed, 2},
	{"byte_behind_resized_block_written", SIZE_EVERY, overflow_after_realloc_freed, 2},
	{"byte_before_block_written_then_freed", SMALL, underflow_1, 2},
	{"word_before_block_written_then_freed", SMALL, underflow_8, 2},
	{"first_byte_written_after_free", SMALL, first_written_after_free, 2},
	{"last_byte_written_after_free", SMALL, last_written_after_free, 2},
	{"block_written_after_free_and_others_taken", SMALL, written_after_free_and_others, 2},
	{"block_written_after_free_by_thread_that_ends", SMALL, written_after_free_by_thread_that_ends, 2},
	{"block_written_after_realloc", SMALL, written_after_realloc, 2},
	{"aligned_block_written_after_free", SMALL, aligned_written_after_free, 2},
	{"block_written_after_free_in_child", SMALL, written_in_child_after_free, 2},
	{"block_freed_twice_in_child", SMALL, freed_twice_in_child, 2},
	{"block_freed_twice_in_child_of_thread", SMALL, freed_twice_in_child_of_thread, 2},
	{"block_read_after_free", SIZE_LARGE, large_read_after_free, 3},
	{"block_read_after_free", SIZE_HUGE, large_read_after_free, 2},
	{"one_of_hundred_mib_read_after_free", SIZE_NONE, one_of_hundred_mib_read_after_free, 2},
	{"block_written_after_free", SIZE_LARGE, two_granules_written_after_free, 2},
	{"block_written_after_free", SIZE_HUGE, large_written_after_free, 2},
	{"block_written_after_realloc", SIZE_HUGE, large_written_after_realloc, 2},
	{"page_behind_block_read", LARGE, page_behind_read, 3},
	{"page_before_block_written", LARGE, page_before_written, 3},
	{"page_before_slab_written", SMALL, slab_front_written, 3},
	{"guarded_block_read_after_free", SMALL, guarded_read_after_free, GUARDED},
	{"guarded_block_freed_twice", SMALL, guarded_twice, GUARDED},
	{"guarded_block_freed_inside", SMALL, guarded_interior, GUARDED},
	{"guarded_block_overflowed", SMALL, guarded_overflow, GUARDED},
	{"guarded_block_underflowed", SMALL, guarded_underflow, GUARDED},
	{"guarded_block_read_in_child", SMALL, guarded_read_in_child, GUARDED},
	{"guarded_block_freed_in_child_then_read", SMALL, guarded_freed_in_child, GUARDED},
	{"guarded_block_freed_by_thread_then_read", SMALL, guarded_read_after_thread, GUARDED},
	{"guarded_block_freed_twice_in_child", SMALL, freed_twice_in_child, GUARDED},
	{"guarded_block_read_after_realloc", SMALL, guarded_read_after_realloc, GUARDED},
	{"guarded_block_shrunk_then_overflowed", SMALL, guarded_shrunk_overflow, GUARDED},
	{"guarded_block_grown_then_overflowed", SMALL, guarded_grown_overflow, GUARDED},
	{"guarded_aligned_block_overflowed", SMALL, guarded_aligned_overflow, GUARDED},
	{.name = NULL},
};
