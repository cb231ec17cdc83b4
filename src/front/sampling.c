/* SPDX-License-Identifier: MIT */
#include "front/sampling.h"

#include "base/bits.h"
#include "base/settings.h"
#include "front/bins.h"
#include "front/watch.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/meta.h"

enum {
	MARK_USES = 1024,
	MARK_WEIGHT_MOST = 1 << 20,
	TURNS = 4,       /* how often a thread allocates what it had before it stops counting frees */
	MARKS_LEAST = 16,
};

struct sampling_switch hak_sampling;

/* ---- chance ---- */

/* Splitmix64 (Steele, Lea, Flood 2014). */
HAK_NOINLINE static uint64_t next_random(uint64_t *state) {
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

/* By the series of y = x / 2^10: what is left out is below y^3 / 24 of it. For 2 y it is q (2 - q). */
double sampling_chance(double x) {
	double y = x * 0x1p-10, q = y * (1 - y / 2 * (1 - y / 3));
	if (x > 100)
		return 1;
	for (int i = 0; i < 10; i++)
		q *= 2 - q;
	return q;
}

/* The next marked block. */
static void draw(struct sampling *s, unsigned sc) {
	uint64_t bytes = real_to_size(sampling_distance(&s->random) * size_to_real(s->mean));
	uint64_t size = hak_size_classes[sc].size;
	s->frees.left[sc] = (int32_t)min_size(bytes / size, INT32_MAX);
	s->point[sc] = (uint32_t)(bytes % size) + 1;
}

/* The mark of the block that enters now. */
static struct mark take_mark(struct sampling *s, unsigned sc) {
	struct mark m = { .point = s->point[sc], .weight = 1 };
	draw(s, sc);
	return m;
}

static void draw_large(struct sampling *s) {
	s->large_left = (int64_t)(sampling_distance(&s->random) * size_to_real(s->mean));
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
	for (unsigned sc = 1; h->sampling != NULL && sc < SC_COUNT; sc++)
		sampling_uncover(h, sc);
	h->sampling = NULL;
	watch_again(h);
	heap_count_frees(h, NULL);
}

/* Frees are counted for good, or as long as there may be much that was allocated before. */
static void begin_counting(struct heap *h, struct sampling *s) {
	s->marks_to_count = MARKS_LEAST + TURNS * (h->slabs << GRANULE_SHIFT) / s->mean;
	s->counts_frees = hak_settings.sample_totals || h->slabs != 0;
	heap_count_frees(h, s->counts_frees ? &s->frees : NULL);
}

static void count_mark(struct heap *h, struct sampling *s) {
	if (!s->counts_frees || hak_settings.sample_totals || --s->marks_to_count != 0)
		return;
	s->counts_frees = false;
	watch_again(h);
	heap_count_frees(h, NULL);
}

static void enter(struct heap *h, size_t mean) {
	leave(h);
	struct sampling *s = h->sampling_memory;
	if (s == NULL)
		s = h->sampling_memory = meta_alloc(sizeof *s);
	if (s == NULL)
		return; /* this thread goes without */
	*s = (struct sampling){ .frees.mask = counted_mask(h->tag), .mean = mean,
	                        .random = os_facts.random[0] ^ os_cycles() ^ (uint64_t)h->tag << 32 };
	h->sampling = s;
	draw_large(s);
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		draw(s, sc);
		bin_unlist(h, sc);
		sampling_bin_filled(h, sc);
	}
	begin_counting(h, s);
}

void sampling_follow(struct heap *h) {
	uint32_t generation = atomic_load_explicit(&hak_sampling.generation, memory_order_acquire);
	h->sampling_seen = generation;
	size_t mean = atomic_load_explicit(&hak_sampling.mean, memory_order_relaxed);
	if (mean != 0)
		enter(h, mean);
	else
		leave(h);
}

/* ---- the bins ---- */

/* Is the marked block the next that the bin would serve? */
static bool is_on_top(const struct heap *h, unsigned sc) {
	const struct mark *m = &h->sampling->above[sc];
	if (m->point == 0)
		return false;
	const struct bin *b = &h->bins[sc];
	return bin_is_empty(b) ? m->below == NULL : *bin_top(b) == m->below;
}

void sampling_uncover(struct heap *h, unsigned sc) {
	h->sampling->above[sc].point = 0; /* the block below stays hidden, and is looked at once for nothing */
}

/* Puts a marked block on the bin: the block there is hidden below it. */
HAK_NOINLINE static void lay_on_top(struct heap *h, unsigned sc, struct mark m) {
	const struct bin *b = &h->bins[sc];
	m.below = bin_is_empty(b) ? NULL : *bin_top(b);
	bin_hide(h, sc);
	h->sampling->above[sc] = m;
}

HAK_EVERYDAY void sampling_bin_filled(struct heap *h, unsigned sc) {
	struct sampling *s = h->sampling;
	if (HAK_LIKELY(s == NULL))
		return;
	int32_t left = s->frees.left[sc], count = (int32_t)bin_count(h, sc);
	if (left >= count) {
		s->frees.left[sc] = left - count;
		return;
	}
	struct mark m = take_mark(s, sc);
	/* The marked one itself is served by the profiler's heap; it comes next as one that is not. */
	m.below = bin_top(&h->bins[sc])[left];
	bin_hide_at(h, sc, (unsigned)left);
	s->above[sc] = m;
}

/* The marked block is given out: those below it are drawn. */
static struct mark take_from_top(struct heap *h, unsigned sc) {
	struct mark m = h->sampling->above[sc];
	sampling_uncover(h, sc);
	sampling_bin_filled(h, sc);
	return m;
}

void sampling_freed(struct heap *h, unsigned sc) {
	struct sampling *s = h->sampling;
	if (!s->counts_frees)
		return;
	if (s->frees.left[sc] > 0)
		s->frees.left[sc]--;
	else
		lay_on_top(h, sc, take_mark(s, sc));
}

/* Whether a mark that has been used once more stays. */
static bool outlives(struct sampling *s, struct mark *m) {
	if (++m->uses < MARK_USES * (uint64_t)m->weight || m->weight == MARK_WEIGHT_MOST)
		return true;
	m->weight *= 2;
	return (next_random(&s->random) & 1) != 0;
}

void sampling_return(struct heap *h, unsigned sc, struct mark m) {
	/* Where frees are counted it is the blocks that are freed which are drawn, and there is none. */
	if (!h->sampling->counts_frees && outlives(h->sampling, &m))
		lay_on_top(h, sc, m);
}

/* ---- the allocations ---- */

static bool large_is_due(struct sampling *s, size_t size) {
	s->large_left -= (int64_t)size;
	if (s->large_left > 0)
		return false;
	draw_large(s);
	return true;
}

enum sampling_what sampling_next(struct heap *h, unsigned sc, size_t size, struct mark *markp) {
	struct sampling *s = h->sampling;
	size = max_size(size, 1);
	*markp = (struct mark){ .weight = 1 };
	if (s->is_sampling || size > PTRDIFF_MAX)
		return SAMPLING_NOT;
	if (sc == 0)
		return large_is_due(s, size) ? SAMPLING_BLOCK : SAMPLING_NOT;
	if (is_on_top(h, sc)) {
		*markp = take_from_top(h, sc);
	} else if (!bin_is_empty(&h->bins[sc])) {
		return SAMPLING_NOT;
	} else if (s->frees.left[sc] > 0) {
		s->frees.left[sc]--;
		return SAMPLING_NOT;
	} else {
		*markp = take_mark(s, sc);
	}
	if (markp->point <= size) {
		count_mark(h, s);
		return SAMPLING_BLOCK;
	}
	return s->counts_frees ? SAMPLING_NOT : SAMPLING_MARK;
}
