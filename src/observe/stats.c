/* SPDX-License-Identifier: MIT */
#include "observe/stats.h"

#include <string.h>
#include <unistd.h>

#include "front/heap.h"
#include "front/large.h"
#include "observe/reading.h"
#include "os/lock.h"
#include "os/os.h"

static uint64_t descriptor;

/* Under `lock`, and static for the sake of signal handlers on small stacks. Nothing here is kept. */
static struct {
	struct lock lock;
	struct reading reading;
	struct hak_stats stats;
	struct reading_room room;
} work;

void stats_init(const void *at) {
	descriptor = (uintptr_t)at;
}

/* Our own memory. What is copied may change meanwhile, but it is mapped: descriptions always are, and bins
   are while we hold the registry's lock. */
HAK_GUESS static bool copy_self(void *arg, uint64_t from, void *to, size_t size) {
	const volatile unsigned char *source = (const volatile unsigned char *)(uintptr_t)from;
	unsigned char *target = to;
	size_t i = 0;
	if (((from | (uintptr_t)to) & 7) == 0)
		for (; i + 8 <= size; i += 8)
			*(uint64_t *)(void *)(target + i) = *(const volatile uint64_t *)(const volatile void *)(source + i);
	for (; i < size; i++)
		target[i] = source[i];
	return true;
}

struct lock *stats_lock(void) {
	return &work.lock;
}

/* `wait`: for the lock that keeps the bins of other threads from going away. */
static void hold_bins(bool wait) {
	if (wait)
		lock_acquire(heap_registry_lock());
	work.reading.without_bins = !wait && !lock_try(heap_registry_lock());
}

static void let_bins_go(void) {
	if (!work.reading.without_bins)
		lock_release(heap_registry_lock());
}

const struct hak_stats *stats_take(bool wait) {
	if (wait)
		lock_acquire(&work.lock);
	else if (!lock_try(&work.lock))
		return NULL;
	struct hak_stats *st = &work.stats;
	memset(st, 0, sizeof *st);
	st->size = sizeof *st;
	work.reading.copy = copy_self;
	work.reading.room = &work.room;
	if (reading_open(&work.reading, descriptor) != READING_OK)
		return st;
	hold_bins(wait);
	reading_stats(&work.reading, st);
	let_bins_go();
	return st;
}

void stats_put_back(void) {
	lock_release(&work.lock);
}

struct mallinfo2 stats_mallinfo2(void) {
	const struct hak_stats *st = stats_take(true);
	size_t big = st->l25 + st->l2;
	struct mallinfo2 info = {
		.arena = st->committed - st->bigcache - big,
		.ordblks = st->slabs,
		.hblks = st->l25_blocks + st->l2_blocks,
		.hblkhd = big,
		.uordblks = st->live - big,
		.fordblks = st->cached + st->slab_free + st->slab_fresh + st->retained,
		.keepcost = st->dirty,
	};
	stats_put_back();
	return info;
}

static void put_file(void *arg, const char *text, size_t length) {
	os_file_write(*(int *)arg, text, length);
}

void stats_print(void) {
	int fd = STDERR_FILENO;
	write_text(stats_take(true), false, put_file, &fd);
	stats_put_back();
}

static void put_stream(void *arg, const char *text, size_t length) {
	fwrite(text, 1, length, arg);
}

int stats_print_xml(FILE *stream) {
	struct hak_stats st = *stats_take(true);
	stats_put_back(); /* the stream may be the program's own functions */
	write_xml(&st, put_stream, stream);
	return ferror(stream) ? -1 : 0;
}
