/* SPDX-License-Identifier: MIT */
#include "front/sampling.h"

#include "base/bits.h"
#include "base/settings.h"
#include "front/heap_slabs.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/meta.h"

struct sampling_switch hak_sampling;

/* ---- chance ---- */

/* Splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state) {
	uint64_t z = *state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Natural logarithm for normal x > 0, by m = x / 2^e in [1, 2) and ln m = 2 artanh((m - 1) / (m + 1)): the
   terms left out are below 1e-9. */
static double ln(double x) {
	static const double ln2 = 0.69314718055994530942;
	uint64_t bits;
	__builtin_memcpy(&bits, &x, sizeof bits);
	int exponent = (int)(bits >> 52) - 1023;
	bits = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1023 << 52;
	double m;
	__builtin_memcpy(&m, &bits, sizeof m);
	double z = (m - 1) / (m + 1), square = z * z, sum = 0;
	for (int k = 15; k > 0; k -= 2)
		sum = sum * square + 1.0 / k;
	return exponent * ln2 + 2 * z * sum;
}

double sampling_distance(uint64_t *state) {
	return -ln((double)(next_random(state) >> 11 | 1) * 0x1p-53);
}

/* Draws the next sampled allocation of a class whose bin is empty. */
static void draw(struct sampling *s, unsigned sc) {
	uint64_t bytes = (uint64_t)(sampling_distance(&s->random) * (double)s->mean);
	uint64_t size = hak_size_classes[sc].size;
	s->frees.left[sc] = (int32_t)min_size(bytes / size, INT32_MAX);
	s->point[sc] = (uint32_t)(bytes % size) + 1;
}

static void draw_large(struct sampling *s) {
	s->large_left = (int64_t)(sampling_distance(&s->random) * (double)s->mean);
}

/* ---- the switch ---- */

void sampling_set(size_t mean) {
	/* Hardened threads have no bins to count by, and blocks of the profiler's heap no canaries. */
	if (hak_settings.secure != 0)
		return;
	atomic_store_explicit(&hak_sampling.mean, mean, memory_order_relaxed);
	/* Release: the mean. */
	atomic_fetch_add_explicit(&hak_sampling.generation, 1, memory_order_release);
}

static void leave(struct heap *h) {
	h->sampling = NULL;
	h->is_watched = false;
	tcache_count_frees(NULL, h->tag);
}

static void enter(struct heap *h, size_t mean) {
	struct sampling *s = h->sampling_memory;
	if (s == NULL)
		s = h->sampling_memory = meta_alloc(sizeof *s);
	if (s == NULL) {
		leave(h); /* this thread goes without */
		return;
	}
	*s = (struct sampling){ .frees.tag = h->tag, .mean = mean,
	                        .random = os_facts.random[0] ^ os_cycles() ^ (uint64_t)h->tag << 32 };
	h->sampling = s;
	draw_large(s);
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		draw(s, sc);
		sampling_bin_filled(h, sc);
	}
	h->is_watched = false;
	tcache_count_frees(&s->frees, h->tag);
}

void sampling_follow(struct heap *h) {
	h->sampling_seen = atomic_load_explicit(&hak_sampling.generation, memory_order_acquire);
	size_t mean = atomic_load_explicit(&hak_sampling.mean, memory_order_relaxed);
	if (mean != 0)
		enter(h, mean);
	else
		leave(h);
}

/* ---- the bins ---- */

static int32_t blocks_in_bin(const struct heap *h, unsigned sc) {
	const struct bin *b = &h->bins[sc];
	return link_is_end(link_decode(b->head)) ? 0 : h->classes[sc].capacity - b->room;
}

/* Adds blocks to the spare ones, which go home when there are enough. */
static void put_aside(struct heap *h, unsigned sc, uintptr_t link, int32_t count) {
	struct heap_class *hc = &h->classes[sc];
	if (hc->spare_count != 0) {
		hc->spare_count = 0;
		heap_send_home(h, hc->spare);
	}
	hc->spare = link;
	hc->spare_count = (uint16_t)count;
}

/* Leaves the first `keep` of `count` blocks in the bin and puts the others aside. */
static void cut_bin(struct heap *h, unsigned sc, int32_t keep, int32_t count) {
	struct bin *b = &h->bins[sc];
	uintptr_t link = b->head, last = 0;
	for (int32_t i = 0; i < keep; i++) {
		last = link_decode(link);
		link = block_link(last);
	}
	if (keep == 0)
		b->head = heap_bin_end(h);
	else
		block_set_link(last, heap_bin_end(h));
	b->room = h->classes[sc].capacity - keep;
	put_aside(h, sc, link, count - keep);
}

void sampling_bin_emptied(struct heap *h, unsigned sc) {
	if (HAK_UNLIKELY(h->sampling != NULL))
		h->sampling->frees.left[sc] += blocks_in_bin(h, sc);
}

void sampling_bin_filled(struct heap *h, unsigned sc) {
	if (HAK_LIKELY(h->sampling == NULL))
		return;
	int32_t *left = &h->sampling->frees.left[sc], count = blocks_in_bin(h, sc);
	*left -= count;
	if (*left >= 0)
		return;
	cut_bin(h, sc, count + *left, count);
	*left = 0;
}

bool sampling_put(struct heap *h, unsigned sc, uintptr_t block) {
	struct heap_class *hc = &h->classes[sc];
	if (h->sampling->frees.left[sc] > 0) {
		h->sampling->frees.left[sc]--;
		return false;
	}
	if (hc->spare_count == 0 || hc->spare_count >= hc->capacity) {
		block_set_link(block, heap_bin_end(h));
		put_aside(h, sc, link_encode(block), 1);
	} else {
		block_set_link(block, hc->spare);
		hc->spare = link_encode(block);
		hc->spare_count++;
	}
	return true;
}

/* ---- the allocations ---- */

static bool large_is_due(struct sampling *s, size_t size) {
	s->large_left -= (int64_t)size;
	if (s->large_left > 0)
		return false;
	draw_large(s);
	return true;
}

bool sampling_is_due(struct heap *h, unsigned sc, size_t size) {
	struct sampling *s = h->sampling;
	size = max_size(size, 1);
	if (s->is_sampling || size > PTRDIFF_MAX)
		return false;
	if (sc == 0)
		return large_is_due(s, size);
	if (blocks_in_bin(h, sc) != 0)
		return false;
	if (s->frees.left[sc] > 0) {
		s->frees.left[sc]--;
		return false;
	}
	bool is_in_request = s->point[sc] <= size;
	draw(s, sc);
	return is_in_request;
}
