/* SPDX-License-Identifier: MIT */
#include "observe/stats.h"

#include <string.h>
#include <unistd.h>

#include "base/report.h"
#include "front/heap.h"
#include "front/large.h"
#include "observe/reading.h"
#include "os/lock.h"
#include "os/os.h"

HAK_AT_START static uint64_t descriptor;

/* Under `lock`, and static for the sake of signal handlers on small stacks. Nothing here is kept. */
struct stats_work {
	struct lock lock;
	bool waits; /* its holder, for other locks */
	struct reading reading;
	struct hak_stats stats;
	struct reading_heap heap;
	struct reading_room room;
};
extern HAK_HIDDEN struct stats_work hak_stats_work;
HAK_LATE_IN_BSS struct stats_work hak_stats_work;

HAK_EVERYDAY void stats_init(const void *at) {
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
	return &hak_stats_work.lock;
}

/* `wait`: for the lock that keeps the bins of other threads from going away. */
static void hold_bins(bool wait) {
	if (wait)
		lock_acquire(heap_registry_lock());
	hak_stats_work.reading.without_bins = !wait && !lock_try(heap_registry_lock());
}

static void let_bins_go(void) {
	if (!hak_stats_work.reading.without_bins)
		lock_release(heap_registry_lock());
}

const struct hak_stats *stats_take(bool wait) {
	if (wait)
		lock_acquire(&hak_stats_work.lock);
	else if (!lock_try(&hak_stats_work.lock))
		return NULL;
	struct hak_stats *st = &hak_stats_work.stats;
	memset(st, 0, sizeof *st);
	st->size = sizeof *st;
	hak_stats_work.reading.copy = copy_self;
	hak_stats_work.reading.room = &hak_stats_work.room;
	hak_stats_work.waits = wait;
	if (reading_open(&hak_stats_work.reading, descriptor) != READING_OK)
		return st;
	hold_bins(wait);
	reading_stats(&hak_stats_work.reading, st);
	let_bins_go();
	return st;
}

void stats_put_back(void) {
	lock_release(&hak_stats_work.lock);
}

/* ---- heap by heap ---- */

struct heap_writer {
	put_fn *put;
	void *arg;
	void (*write)(const struct reading_heap *h, put_fn *put, void *arg);
};

/* What takes the text may be slow. */
static void each_heap(void *arg, const struct reading_heap *h) {
	const struct heap_writer *w = arg;
	let_bins_go();
	w->write(h, w->put, w->arg);
	hold_bins(hak_stats_work.waits);
}

static void write_heaps(struct heap_writer *w) {
	if (hak_stats_work.stats.heaps == 0)
		return;
	hold_bins(hak_stats_work.waits);
	reading_heaps(&hak_stats_work.reading, &hak_stats_work.heap, each_heap, w);
	let_bins_go();
}

void stats_write_text(bool warm, put_fn *put, void *arg) {
	write_text(&hak_stats_work.stats, warm, put, arg);
	put(arg, "heaps\n", 6);
	write_text_heaps(put, arg);
	write_heaps(&(struct heap_writer){ put, arg, write_text_heap });
}

void stats_write_json(put_fn *put, void *arg) {
	write_json_open(&hak_stats_work.stats, put, arg);
	write_heaps(&(struct heap_writer){ put, arg, write_json_heap });
	write_json_close(put, arg);
	put(arg, "\n", 1);
}

/* ---- of malloc.h ---- */

struct mallinfo2 stats_mallinfo2(void) {
	const struct hak_stats *st = stats_take(true);
	size_t big = st->l25 + st->l2; /* read apart from the sums: others go on */
	struct mallinfo2 info = {
		.arena = st->committed - min_size(big, st->committed),
		.ordblks = st->slabs,
		.hblks = st->l25_blocks + st->l2_blocks,
		.hblkhd = big,
		.uordblks = st->live - min_size(big, st->live),
		.fordblks = st->cached + st->slab_free + st->slab_fresh + st->mosaic_free + st->retained,
		.keepcost = st->dirty,
	};
	stats_put_back();
	return info;
}

static void put_file(void *arg, const char *text, size_t length) {
	report_write(*(int *)arg, text, length);
}

void stats_print(void) {
	int fd = STDERR_FILENO;
	stats_take(true);
	stats_write_text(false, put_file, &fd);
	stats_put_back();
}

/* Its own errors alone: the stream's may be of long ago. */
struct printing {
	FILE *stream;
	int result;
};

static void put_stream(void *arg, const char *text, size_t length) {
	struct printing *p = arg;
	if (fwrite(text, 1, length, p->stream) != length)
		p->result = -1;
}

int stats_print_xml(FILE *stream) {
	struct hak_stats st = *stats_take(true);
	stats_put_back(); /* the stream may be the program's own functions */
	struct printing p = { .stream = stream };
	write_xml(&st, put_stream, &p);
	return p.result;
}
