/* SPDX-License-Identifier: MIT */
/* Misuse by other names: delete, free_sized, hak_free, realloc, malloc_usable_size, heaps. */
#include "misuse.h"

#include "cases.h"

#include <malloc.h>
#include <stdlib.h>

static void freed_then(const char *function, size_t size)
{
	void (*release)(void *) = (void (*)(void *))lookup(function);
	void *p = take(size);

	expect_double_free(p, malloc_usable_size(p));
	free(p);
	release(opaque(p));
}

static void freed_then_sized(const char *function, size_t size)
{
	void (*release)(void *, size_t) = (void (*)(void *, size_t))lookup(function);
	void *p = take(size);

	expect_double_free(p, malloc_usable_size(p));
	free(p);
	release(opaque(p), size);
}

static void delete(size_t size)
{
	freed_then("_ZdlPv", size);
}

static void delete_array(size_t size)
{
	freed_then("_ZdaPv", size);
}

static void delete_sized(size_t size)
{
	freed_then_sized("_ZdlPvm", size);
}

static void sized(size_t size)
{
	freed_then_sized("free_sized", size);
}

static void aligned_sized(size_t size)
{
	void (*release)(void *, size_t, size_t) =
		(void (*)(void *, size_t, size_t))lookup("free_aligned_sized");
	void *p = take(size);

	expect_double_free(p, malloc_usable_size(p));
	free(p);
	release(opaque(p), 16, size);
}

static void by_name(size_t size)
{
	freed_then("hak_free", size);
}

static void by_name_sized(size_t size)
{
	freed_then_sized("hak_free_size", size);
}

static void deleted_then_freed(size_t size)
{
	void (*release)(void *) = (void (*)(void *))lookup("_ZdlPv");
	void *(*new)(size_t) = (void *(*)(size_t))lookup("_Znwm");
	void *p = new(size);

	expect_double_free(p, malloc_usable_size(p));
	release(p);
	free(opaque(p));
}

static void *freed_block(size_t size)
{
	void *p = take(size);

	expect("realloc of freed block %p (%zu-byte block)", p, malloc_usable_size(p));
	if (is_large(size))
		expect("realloc of invalid pointer %p", p);
	free(p);
	return opaque(p);
}

static void realloc_freed(size_t size, size_t to)
{
	free(realloc(freed_block(size), to));
}

static void realloc_freed_larger(size_t size)
{
	realloc_freed(size, size * 3);
}

static void realloc_freed_same(size_t size)
{
	realloc_freed(size, size);
}

static void realloc_freed_to_zero(size_t size)
{
	void *p = take(size);

	expect("realloc of freed block %p (%zu-byte block)", p, malloc_usable_size(p));
	expect_late_double_free(p, malloc_usable_size(p)); /* it is a free, after all */
	if (is_large(size))
		expect("realloc of invalid pointer %p", p);
	free(p);
	free(realloc(opaque(p), 0));
}

static void rezalloc_freed(size_t size)
{
	void *(*resize)(void *, size_t) = (void *(*)(void *, size_t))lookup("hak_rezalloc");

	free(resize(freed_block(size), size * 3));
}

static void expand_freed(size_t size)
{
	void *(*expand)(void *, size_t) = (void *(*)(void *, size_t))lookup("hak_expand");

	free(expand(freed_block(size), size));
}

static void heap_realloc_freed(size_t size)
{
	void *(*make)(void) = (void *(*)(void))lookup("hak_heap_new");
	void *(*resize)(void *, void *, size_t) = (void *(*)(void *, void *, size_t))lookup("hak_heap_realloc");
	void *heap = make();

	CHECK(heap);
	free(resize(heap, freed_block(size), size * 3));
}

static void realloc_interior(size_t size)
{
	char *p = take(size);

	expect_interior("realloc", p + 16, p);
	free(realloc(opaque(p + 16), size));
}

static void realloc_misaligned(size_t size)
{
	char *p = take(size);

	expect_interior("realloc", p + 4, p);
	free(realloc(opaque(p + 4), size * 2));
}

static void realloc_invalid(void *ptr)
{
	expect("realloc of invalid pointer %p", ptr);
	free(realloc(opaque(ptr), 100));
}

static void realloc_stack(size_t size)
{
	_Alignas(16) char buffer[64];

	realloc_invalid(opaque(buffer));
}

static void realloc_far(size_t size)
{
	realloc_invalid((void *)0xdeadbeef);
}

static void usable_interior(size_t size)
{
	char *p = take(size);

	expect_interior("malloc_usable_size", p + 16, p);
	CHECK(malloc_usable_size(opaque(p + 16)) != 1);
}

static void usable_invalid(void *ptr)
{
	expect("malloc_usable_size of invalid pointer %p", ptr);
	CHECK(malloc_usable_size(opaque(ptr)) != 1);
}

static void usable_stack(size_t size)
{
	_Alignas(16) char buffer[64];

	usable_invalid(opaque(buffer));
}

static void usable_far(size_t size)
{
	usable_invalid((void *)0xdeadbeef);
}

static void *heap_block(void **heap, size_t size)
{
	void *(*make)(void) = (void *(*)(void))lookup("hak_heap_new");
	void *(*allocate)(void *, size_t) = (void *(*)(void *, size_t))lookup("hak_heap_malloc");
	void *p;

	*heap = make();
	CHECK(*heap);
	p = allocate(*heap, size);
	CHECK(p);
	return p;
}

static void heap_twice(size_t size)
{
	void *heap, *p = heap_block(&heap, size);

	expect_double_free(p, malloc_usable_size(p));
	free(p);
	free(opaque(p));
}

static void heap_destroyed(size_t size)
{
	void *heap, *p = heap_block(&heap, size);
	void (*destroy)(void *) = (void (*)(void *))lookup("hak_heap_destroy");

	expect_late_double_free(p, malloc_usable_size(p));
	destroy(heap);
	free(opaque(p));
}

const struct misuse entry_cases[] = {
	{"block_deleted_after_free", SIZE_EVERY, delete},
	{"block_deleted_as_array_after_free", SIZE_SMALL, delete_array},
	{"block_deleted_with_size_after_free", SIZE_EVERY, delete_sized},
	{"block_freed_with_size_after_free", SIZE_EVERY, sized},
	{"block_freed_with_alignment_after_free", SIZE_SMALL, aligned_sized},
	{"block_freed_by_hak_free_after_free", SIZE_EVERY, by_name},
	{"block_freed_by_hak_free_size_after_free", SIZE_SMALL, by_name_sized},
	{"object_freed_after_delete", SIZE_EVERY, deleted_then_freed},
	{"freed_block_grown_by_realloc", SIZE_EVERY, realloc_freed_larger},
	{"freed_block_kept_by_realloc", SIZE_EVERY, realloc_freed_same},
	{"freed_block_given_to_realloc_zero", SIZE_SMALL | SIZE_LARGE, realloc_freed_to_zero},
	{"freed_block_given_to_hak_rezalloc", SIZE_EVERY, rezalloc_freed},
	{"freed_block_given_to_hak_expand", SIZE_EVERY, expand_freed},
	{"freed_block_given_to_hak_heap_realloc", SIZE_EVERY, heap_realloc_freed},
	{"interior_pointer_given_to_realloc", SIZE_EVERY, realloc_interior},
	{"misaligned_pointer_given_to_realloc", SIZE_EVERY, realloc_misaligned},
	{"stack_pointer_given_to_realloc", SIZE_NONE, realloc_stack},
	{"wild_pointer_given_to_realloc", SIZE_NONE, realloc_far},
	{"interior_pointer_asked_for_usable_size", SIZE_EVERY, usable_interior},
	{"stack_pointer_asked_for_usable_size", SIZE_NONE, usable_stack},
	{"wild_pointer_asked_for_usable_size", SIZE_NONE, usable_far},
	{"heap_block_freed_twice", SIZE_EVERY, heap_twice},
	{"block_of_destroyed_heap_freed", SIZE_EVERY, heap_destroyed},
	{NULL, 0, NULL},
};
