/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target: the input changes what `hakmem stat` and its like read of another process. The process is
 * this one, with some blocks of each sort; of what is copied from it the input replaces bytes. Whatever
 * comes out, nothing outside of what was copied is touched, and it ends.
 *
 * For each copy that is made: a byte, how many changes; for each change two for the place, and eight for the
 * word that is written there. An input that ends leaves the rest as it is.
 */
#include "target.h"

#include "abi/descriptor.h"
#include "observe/reading.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define REQUIRE(condition) \
	((condition) ? (void)0 : target_fail(__FILE__, __LINE__, #condition))

enum { COPIES = 5000, CHANGES = 4, ROWS = 1000 };

static struct {
	const uint8_t *at, *end;
	unsigned copies;
} input;

static uint64_t next_number(unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes && input.at < input.end; i++)
		value |= (uint64_t)*input.at++ << 8 * i;
	return value;
}

/* As the command does it: an address that is none is an error. */
static bool copy(void *arg, uint64_t from, void *to, size_t size)
{
	struct iovec local = {to, size}, remote = {(void *)(uintptr_t)from, size};

	if (input.copies++ == COPIES ||
	    process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)size)
		return false;
	for (uint64_t n = next_number(1) % (CHANGES + 1); n > 0 && size > 0; n--) {
		size_t at = next_number(2) % size, length = size - at < 8 ? size - at : 8;
		uint64_t word = next_number(8);
		memcpy((char *)to + at, &word, length);
	}
	return true;
}

static void each_slab(void *arg, const struct reading_slab *s)
{
	REQUIRE(s->sc < HAK_STATS_CLASSES);
}

static void each_large(void *arg, const struct reading_large *l)
{
	REQUIRE(l->is_live == 0 || l->is_live == 1);
}

static void each_heap(void *arg, const struct reading_heap *h)
{
	REQUIRE(h->has_thread + h->is_locked < 2);
}

static void each_superslab(void *arg, const struct reading_superslab *s)
{
	REQUIRE(s->base != 0);
}

static void put(void *arg, const char *text, size_t length)
{
	*(size_t *)arg += length;
	REQUIRE(memchr(text, '\0', length) == NULL);
}

/* Of each sort some. */
static void allocate(void)
{
	static void *volatile kept[300];

	for (size_t i = 0; kept[299] == NULL && i < 300; i++)
		kept[i] = malloc(i < 290 ? i * i : i << 13);
	for (size_t i = 0; i < 300; i += 3) {
		free(kept[i]);
		kept[i] = malloc(100);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	static struct reading_room room;
	static struct reading_heap heap;
	struct reading r = {.copy = copy, .room = &room};
	struct reading_setting setting;
	struct hak_stats stats;
	size_t written = 0;

	allocate();
	input.at = data;
	input.end = data + length;
	input.copies = 0;
	enum reading_result result = reading_open(&r, (uintptr_t)hak_descriptor);

	REQUIRE(memchr(r.version, '\0', sizeof r.version) != NULL);
	if (result != READING_OK)
		return 0;
	if (reading_stats(&r, &stats) == READING_OK) {
		REQUIRE(stats.classes <= HAK_STATS_CLASSES && stats.size == sizeof stats);
		hak_stats_write(&stats, HAK_STATS_JSON, put, &written);
		hak_stats_write(&stats, HAK_STATS_TEXT, put, &written);
		REQUIRE(written > 0);
	}
	input.copies = 0;
	reading_heaps(&r, &heap, each_heap, NULL);
	reading_superslabs(&r, each_superslab, NULL);
	reading_slabs(&r, each_slab, NULL);
	reading_larges(&r, each_large, NULL);
	for (unsigned row = 0; row < ROWS && reading_setting(&r, row, &setting); row++)
		REQUIRE(memchr(setting.name, '\0', sizeof setting.name) != NULL &&
			memchr(setting.value, '\0', sizeof setting.value) != NULL);
	return 0;
}
