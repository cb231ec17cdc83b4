/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target: the input is a stream of calls of hakmem.h, whose results are held to a shadow model
 * that knows of each block where it lies, what it must hold, and whose heap it belongs to. Blocks
 * must be aligned, usable as far as they say, zero where promised, and overlap none that lives.
 *
 * An instruction is a byte for the call and the slot it is about, then two for a size, then, for some,
 * one more. An input that ends amid an instruction goes on with zeros.
 */
#include "target.h"

#include "hakmem.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 48, HEAPS = 3, EDGE = 256, LIVE_MAX = 192 << 20 };

static struct slot {
	unsigned char *ptr; /* NULL: none */
	size_t size;        /* asked for */
	size_t usable;
	unsigned char mark;
	bool zeroed;        /* what lies behind `size` is zero and stays so */
	int heap;           /* index, -1: none of the first-class ones */
} slots[SLOTS];

static hak_heap_t *heaps[HEAPS];
static size_t live;

static struct {
	const uint8_t *at, *end;
} input;

#define REQUIRE(condition) \
	((condition) ? (void)0 : target_fail(__FILE__, __LINE__, #condition))

static unsigned next_byte(void)
{
	return input.at < input.end ? *input.at++ : 0;
}

/* Up to 4 MiB, every order of magnitude as likely as another; seldom one that must fail. */
static size_t next_size(void)
{
	unsigned kind = next_byte(), low = next_byte();

	if (kind == 255)
		return (size_t)-1 >> low % 3;
	return (low + 1) * ((size_t)1 << kind % 15) - (kind / 15) % 3;
}

/* ---- contents ---- */

/* Calls `visit` for the bytes that are looked at: all, or those near the ends and one in each page. */
static bool for_bytes(unsigned char *ptr, size_t from, size_t to,
	bool (*visit)(unsigned char *byte, unsigned char mark), unsigned char mark)
{
	for (size_t i = from; i < to;) {
		if (!visit(ptr + i, mark))
			return false;
		i += i - from < EDGE || to - i <= EDGE ? 1 : to - i - EDGE < 4093 ? to - i - EDGE : 4093;
	}
	return true;
}

static bool set(unsigned char *byte, unsigned char mark)
{
	*byte = mark;
	return true;
}

static bool is_mark(unsigned char *byte, unsigned char mark)
{
	return *byte == mark;
}

static void fill(struct slot *slot)
{
	static unsigned char marks;

	slot->mark = (unsigned char)(marks++ % 255 + 1);
	for_bytes(slot->ptr, 0, slot->size, set, slot->mark);
}

static void check(const struct slot *slot)
{
	/* What lies in between may be of another size class than when it was filled: the same bytes are
	   looked at only while `size` is the same. */
	REQUIRE(for_bytes(slot->ptr, 0, slot->size, is_mark, slot->mark));
	REQUIRE(!slot->zeroed || for_bytes(slot->ptr, slot->size, slot->usable, is_mark, 0));
}

/* ---- blocks ---- */

static bool overlap(const struct slot *a, const struct slot *b)
{
	return a->ptr < b->ptr + b->usable && b->ptr < a->ptr + a->usable;
}

static void take(struct slot *slot, void *ptr, size_t size, size_t alignment, bool zeroed, int heap)
{
	if (!ptr) {
		REQUIRE(errno == ENOMEM);
		return;
	}
	REQUIRE(errno == 4711 && size <= PTRDIFF_MAX && (uintptr_t)ptr % alignment == 0);
	*slot = (struct slot){ptr, size, hak_usable_size(ptr), 0, zeroed, heap};
	REQUIRE(slot->usable >= size && hak_owns(ptr));
	for (struct slot *other = slots; other < slots + SLOTS; other++)
		REQUIRE(other == slot || !other->ptr || !overlap(slot, other));
	live += slot->usable;
	fill(slot);
}

static void forget(struct slot *slot)
{
	live -= slot->usable;
	slot->ptr = NULL;
}

static void release(struct slot *slot, unsigned how)
{
	if (!slot->ptr)
		return;
	check(slot);
	errno = 4711;
	switch (how % 3) {
	case 0:
		hak_free(slot->ptr);
		break;
	case 1:
		hak_free_size(slot->ptr, slot->size);
		break;
	default:
		hak_free_aligned_size(slot->ptr, 16, slot->size);
	}
	REQUIRE(errno == 4711);
	forget(slot);
}

static bool is_zero(void *ptr, size_t from, size_t to)
{
	return for_bytes(ptr, from, to, is_mark, 0);
}

static void allocate(struct slot *slot, unsigned how, size_t size)
{
	size_t alignment = 16;
	void *ptr = NULL;
	int error;

	release(slot, how);
	errno = 4711;
	switch (how) {
	case 0:
		ptr = hak_malloc(size);
		break;
	case 1:
		ptr = hak_calloc(1 + size % 7, size / 7);
		size = ptr ? (1 + size % 7) * (size / 7) : size;
		REQUIRE(!ptr || is_zero(ptr, 0, size));
		break;
	case 2:
		ptr = hak_zalloc(size);
		REQUIRE(!ptr || is_zero(ptr, 0, hak_usable_size(ptr)));
		break;
	case 3:
		alignment = (size_t)1 << next_byte() % 22;
		ptr = hak_aligned_alloc(alignment, size);
		break;
	case 4:
		alignment = (size_t)8 << next_byte() % 18;
		error = hak_posix_memalign(&ptr, alignment, size);
		REQUIRE(errno == 4711 && (error == 0 || error == ENOMEM));
		errno = error ? ENOMEM : errno;
		break;
	default:
		ptr = hak_alloc_at_least(size).ptr;
	}
	take(slot, ptr, size, alignment < 16 ? 8 : alignment, how == 2, -1);
}

/* The bytes that are looked at differ from size to size: those in between are filled for the move. */
static void refill(struct slot *slot, size_t common)
{
	if (common > slot->size)
		common = slot->size;
	memset(slot->ptr, slot->mark, common);
}

static void resize(struct slot *slot, unsigned how, size_t size)
{
	struct slot old = *slot;
	int heap = how == 2 ? (int)(size % HEAPS) : old.heap;
	unsigned char *ptr;

	if (!slot->ptr || (how == 2 && !heaps[heap]) || (how != 2 && old.heap >= 0))
		return;
	check(slot);
	size += size == 0;
	refill(slot, size);
	errno = 4711;
	if (how == 2)
		ptr = hak_heap_realloc(heaps[heap], slot->ptr, size);
	else if (slot->zeroed)
		ptr = hak_rezalloc(slot->ptr, size);
	else
		ptr = how ? hak_reallocarray(slot->ptr, 1, size) : hak_realloc(slot->ptr, size);
	if (!ptr) {
		REQUIRE(errno == ENOMEM);
		check(slot);
		return;
	}
	for (size_t i = 0, n = old.size < size ? old.size : size; i < n; i++)
		REQUIRE(ptr[i] == old.mark);
	old.zeroed = old.zeroed && how != 2;
	REQUIRE(!old.zeroed || size <= old.size || is_zero(ptr, old.size, hak_usable_size(ptr)));
	REQUIRE(!old.zeroed || size > old.size || is_zero(ptr, size, hak_usable_size(ptr)));
	forget(slot);
	take(slot, ptr, size, 16, old.zeroed, ptr == old.ptr ? old.heap : heap);
}

static void expand(struct slot *slot, size_t size)
{
	if (!slot->ptr || slot->zeroed)
		return;
	check(slot);
	errno = 4711;
	if (hak_expand(slot->ptr, size) && size > slot->usable) {
		struct slot old = *slot;

		forget(slot);
		take(slot, old.ptr, size, 16, false, old.heap);
	}
	REQUIRE(errno == 4711);
}

static void allocate_in_heap(struct slot *slot, unsigned which, size_t size)
{
	int heap = (int)(which % HEAPS);
	size_t alignment = (size_t)16 << which % 9;
	void *ptr;

	release(slot, which);
	if (!heaps[heap])
		heaps[heap] = hak_heap_new();
	REQUIRE(heaps[heap]);
	errno = 4711;
	if (which & 64)
		ptr = hak_heap_zalloc(heaps[heap], size);
	else if (which & 128)
		ptr = hak_heap_aligned_alloc(heaps[heap], alignment, size);
	else
		ptr = hak_heap_malloc(heaps[heap], size);
	if (ptr && which & 64)
		REQUIRE(is_zero(ptr, 0, hak_usable_size(ptr)));
	take(slot, ptr, size, (which & 192) == 128 ? alignment : 16, false, heap);
}

static void destroy_heap(int heap)
{
	for (struct slot *slot = slots; slot < slots + SLOTS; slot++)
		if (slot->ptr && slot->heap == heap) {
			check(slot);
			forget(slot);
		}
	hak_heap_destroy(heaps[heap]);
	heaps[heap] = NULL;
}

/* Another thread frees some, allocates some, and ends. */
static unsigned job;

static void *in_thread(void *unused)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if ((i * 7 + job) % 3 == 0)
			release(&slots[i], i);
	for (unsigned i = 0; i < 4; i++)
		allocate(&slots[(job + i * 5) % SLOTS], i % 3, (size_t)10 << (job + i) % 12);
	return NULL;
}

static void run_thread(unsigned what)
{
	pthread_t thread;

	job = what;
	if (pthread_create(&thread, NULL, in_thread, NULL) == 0)
		pthread_join(thread, NULL);
}

static void ask(const struct slot *slot, size_t size)
{
	volatile size_t beyond = (size_t)1 << 40; /* compilers would see through a constant */
	size_t good = hak_malloc_good_size(size);

	REQUIRE(good >= size);
	if (slot->ptr) {
		check(slot);
		REQUIRE(hak_usable_size(slot->ptr) == slot->usable && hak_owns(slot->ptr));
	}
	errno = 4711;
	REQUIRE(!hak_calloc(beyond, beyond) && errno == ENOMEM);
}

static void step(void)
{
	unsigned call = next_byte();
	struct slot *slot = &slots[next_byte() % SLOTS];
	size_t size = next_size();

	if (live > LIVE_MAX)
		call = 6;
	switch (call % 20) {
	case 0: case 1: case 2: case 3: case 4: case 5:
		allocate(slot, call % 20, size);
		break;
	case 6: case 7: case 8:
		release(slot, call);
		break;
	case 9: case 10: case 11:
		resize(slot, call % 20 - 9, size);
		break;
	case 12:
		expand(slot, size);
		break;
	case 13: case 14:
		allocate_in_heap(slot, next_byte(), size);
		break;
	case 15:
		destroy_heap((int)(size % HEAPS));
		break;
	case 16:
		hak_trim(size);
		break;
	case 17:
		if (size % 8 == 0)
			run_thread((unsigned)(size / 8) % 256);
		break;
	default:
		ask(slot, size);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	input.at = data;
	input.end = data + length;
	while (input.at < input.end)
		step();
	for (struct slot *slot = slots; slot < slots + SLOTS; slot++)
		release(slot, 0);
	for (int heap = 0; heap < HEAPS; heap++)
		destroy_heap(heap);
	REQUIRE(live == 0);
	return 0;
}
