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

void stats_collect(struct hak_stats *st, bool wait) {
	struct reading r = { .copy = copy_self };
	memset(st, 0, sizeof *st);
	st->size = sizeof *st;
	if (reading_open(&r, descriptor) != READING_OK)
		return;
	if (wait)
		lock_acquire(heap_registry_lock());
	else
		r.without_bins = !lock_try(heap_registry_lock());
	reading_stats(&r, st);
	if (!r.without_bins)
		lock_release(heap_registry_lock());
}

struct mallinfo2 stats_mallinfo2(void) {
	struct hak_stats st;
	stats_collect(&st, true);
	size_t big = st.l25 + st.l2;
	return (struct mallinfo2){
		.arena = st.committed - st.bigcache - big,
		.ordblks = st.slabs,
		.hblks = st.l25_blocks + st.l2_blocks,
		.hblkhd = big,
		.uordblks = st.live - big,
		.fordblks = st.cached + st.slab_free + st.slab_fresh + st.retained,
		.keepcost = st.dirty,
	};
}

static void put_file(void *arg, const char *text, size_t length) {
	os_file_write(*(int *)arg, text, length);
}

void stats_print(void) {
	struct hak_stats st;
	int fd = STDERR_FILENO;
	stats_collect(&st, true);
	write_text(&st, false, put_file, &fd);
}

static void put_stream(void *arg, const char *text, size_t length) {
	fwrite(text, 1, length, arg);
}

int stats_print_xml(FILE *stream) {
	struct hak_stats st;
	stats_collect(&st, true);
	write_xml(&st, put_stream, stream);
	return ferror(stream) ? -1 : 0;
}
