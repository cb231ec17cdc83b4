/* SPDX-License-Identifier: MIT */
/*
 * What inject.c drives: a program that uses every kind of call over all sizes, takes NULL for an
 * answer, checks each block against its mark, and at last, when nothing fails any more, must be
 * served in full. It makes few system calls of its own while they are counted.
 *
 * Usage: inject_target all|small|large|threads
 */
#include "work.h"
#include "../death/cases.h"
#include "../random.h"
#include "../serves.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 256 };

static struct slot {
	void *ptr;
	size_t size;
} slots[SLOTS];

static uint64_t seed = 2463534242;
static size_t smallest = 1, largest = (size_t)5 << 20;
static int steps = 1200;

/* Every order of magnitude is as likely as another. */
static size_t next_size(void)
{
	for (;;) {
		uint64_t r = next_random(&seed);
		size_t size = 1 + r / 64 % ((size_t)16 << r % 20);

		if (size >= smallest && size <= largest)
			return size;
	}
}

static void *allocate(size_t size)
{
	void *ptr;
	int error;

	switch (next_random(&seed) % 4) {
	case 0:
		ptr = calloc(1, size);
		for (size_t i = 0; ptr && i < size; i += i < 64 ? 1 : 4093)
			CHECK(((char *)ptr)[i] == 0);
		return ptr;
	case 1:
		error = posix_memalign(&ptr, (size_t)16 << next_random(&seed) % 14, size);
		CHECK(error == 0 || error == ENOMEM);
		errno = error ? error : errno;
		return error ? NULL : ptr;
	default:
		return malloc(size);
	}
}

static void fill(struct slot *slot, void *ptr, size_t size)
{
	CHECK(ptr || errno == ENOMEM);
	*slot = (struct slot){ptr, size};
	if (!ptr)
		return;
	CHECK(malloc_usable_size(ptr) >= size);
	work_mark(ptr, size);
}

/* Contents stay up to the smaller size, and the block stays whole when there is no more memory. */
static void resize(struct slot *slot, size_t size)
{
	unsigned char first = *(unsigned char *)slot->ptr;
	unsigned char *ptr = realloc(slot->ptr, size);

	if (ptr) {
		CHECK(*ptr == first);
		fill(slot, ptr, size);
	} else {
		CHECK(errno == ENOMEM);
		CHECK(work_is_marked(slot->ptr, slot->size));
	}
}

static void step(struct slot *slot)
{
	size_t size = next_size();

	errno = 0;
	if (!slot->ptr) {
		fill(slot, allocate(size), size);
	} else if (next_random(&seed) % 3 == 0) {
		resize(slot, size);
	} else {
		CHECK(work_is_marked(slot->ptr, slot->size));
		free(slot->ptr);
		CHECK(errno == 0);
		slot->ptr = NULL;
	}
}

static void churn(int count)
{
	while (count--)
		step(&slots[next_random(&seed) % SLOTS]);
}

static void *churn_in_thread(void *unused)
{
	churn(200);
	return NULL;
}

static void drain(void)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (slots[i].ptr) {
			work_give(slots[i].ptr, slots[i].size);
			slots[i].ptr = NULL;
		}
}

static void choose(const char *what)
{
	if (strcmp(what, "small") == 0)
		largest = 32 << 10;
	if (strcmp(what, "large") == 0) {
		smallest = 32 << 10;
		steps = 250;
	}
}

/* The thread itself may fail to start; each takes over blocks of the one before. */
static void churn_in_threads(void)
{
	for (int i = 0; i < 4; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, churn_in_thread, NULL) == 0)
			CHECK(pthread_join(thread, NULL) == 0);
		churn(100);
	}
}

int main(int argc, char **argv)
{
	choose(argc > 1 ? argv[1] : "all");
	raise(SIGSTOP);
	if (argc > 1 && strcmp(argv[1], "threads") == 0)
		churn_in_threads();
	else
		churn(steps);
	drain();
	malloc_trim(0);
	churn(100);
	raise(SIGSTOP);
	drain();
	work_all_sizes();
	CHECK(serves_as_expected()); /* not before: the allocator's first calls are to be counted */
	return 0;
}
