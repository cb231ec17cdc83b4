/* SPDX-License-Identifier: MIT */
#include "observe/stats.h"

#include <unistd.h>

#include "base/report.h"
#include "build_options.h"
#include "front/bigcache.h"
#include "front/heap.h"
#include "os/lock.h"
#include "slab/mosaic.h"
#include "space/meta.h"
#include "space/superslab.h"

HAK_GUESS static void add_slab(struct slab *s, void *arg) {
	struct stats *st = arg;
	uint64_t remote = atomic_load_explicit(&s->remote, memory_order_relaxed);
	size_t used = __atomic_load_n(&s->used, __ATOMIC_RELAXED);
	size_t home = remote_is_published(remote) ? used - remote_count(remote) : remote_count(remote);
	size_t live = used > home ? used - home : 0;
	size_t size = s->block_size;
	const struct mosaic *m = slab_mosaic(s);
	if (m != NULL && used != 0)
		size = mosaic_bytes(m) / used;
	st->slabs++;
	st->live_blocks += live;
	st->live += live * size;
}

void stats_collect(struct stats *s) {
	*s = (struct stats){ 0 };
	lock_acquire(slab_lock());
	slab_for_each(add_slab, s);
	lock_release(slab_lock());
	lock_acquire(space_lock());
	struct space_stats space = hak_space;
	lock_release(space_lock());
	s->bigcache = bigcache_bytes();
	s->big = space.big * GRANULE;
	s->mapped = space.superslabs * SUPERSLAB + space.alone * GRANULE + s->big + s->bigcache;
	s->live += s->big + space.large;
	s->dirty = space.dirty * GRANULE;
	s->free_bytes = s->mapped > s->live ? s->mapped - s->live : 0;
	s->metadata = meta_used();
}

struct mallinfo2 stats_mallinfo2(void) {
	struct stats s;
	stats_collect(&s);
	return (struct mallinfo2){
		.arena = s.mapped - s.big,
		.ordblks = s.slabs,
		.hblks = s.big / LARGE_BIG_MIN,
		.hblkhd = s.big,
		.uordblks = s.live - s.big,
		.fordblks = s.free_bytes,
		.keepcost = s.dirty,
	};
}

struct row {
	const char *name, *xml;
	size_t value;
};
enum { ROWS = 8 };

static void fill_rows(struct row row[ROWS]) {
	struct stats s;
	stats_collect(&s);
	row[0] = (struct row){ "mapped", "mapped", s.mapped };
	row[1] = (struct row){ "live", "live", s.live };
	row[2] = (struct row){ "live blocks", "live_blocks", s.live_blocks };
	row[3] = (struct row){ "free", "free", s.free_bytes };
	row[4] = (struct row){ "dirty", "dirty", s.dirty };
	row[5] = (struct row){ "large", "large", s.big };
	row[6] = (struct row){ "BigCache", "bigcache", s.bigcache };
	row[7] = (struct row){ "metadata", "metadata", s.metadata };
}

static void print_row(const struct row *row) {
	struct line l;
	line_begin(&l);
	line_str(&l, row->name);
	line_str(&l, " ");
	line_dec(&l, row->value);
	line_write(&l);
}

/* Where refills and frees ended up, over all heaps. */
static void print_counters(void) {
	struct heap_counters sum = { 0 };
	for (const struct heap *h = heap_registry(); h != NULL; h = h->next) {
		sum.refill_own += h->count.refill_own;
		sum.refill_carve += h->count.refill_carve;
		sum.refill_hole += h->count.refill_hole;
		sum.refill_fresh += h->count.refill_fresh;
		sum.bin_overflow += h->count.bin_overflow;
		sum.remote_free += h->count.remote_free;
	}
	const struct row row[] = {
		{ "refills from slab lists", NULL, sum.refill_own },
		{ "refills by carving", NULL, sum.refill_carve },
		{ "refills from holes", NULL, sum.refill_hole },
		{ "fresh slabs", NULL, sum.refill_fresh },
		{ "full bins", NULL, sum.bin_overflow },
		{ "remote frees", NULL, sum.remote_free },
	};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		print_row(&row[i]);
}

void stats_print(void) {
	struct row row[ROWS];
	fill_rows(row);
	for (int i = 0; i < ROWS; i++)
		print_row(&row[i]);
	if (HAK_STATS)
		print_counters();
	else
		print_row(&(struct row){ "counters of the slow paths, which are not built in:", NULL, 0 });
}

int stats_print_xml(FILE *stream) {
	struct row row[ROWS];
	fill_rows(row);
	fputs("<malloc version=\"hakmem-1\">\n", stream);
	for (int i = 0; i < ROWS; i++)
		fprintf(stream, "<total type=\"%s\" size=\"%zu\"/>\n", row[i].xml, row[i].value);
	fputs("</malloc>\n", stream);
	return ferror(stream) ? -1 : 0;
}
