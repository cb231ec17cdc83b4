/* SPDX-License-Identifier: MIT */
/* Spans of granules, against a model of what is out. The zero flag is checked byte for byte. */
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/settings.h"
#include "common.h"
#include "os/os.h"
#include "space/pagemap.h"
#include "space/purge.h"
#include "space/superslab.h"

enum { SLOTS = 96, ROUNDS = 6000 };

/* A span that is out: its first `touched` bytes hold `fill`. */
struct out {
	struct span span;
	size_t touched;
	unsigned char fill;
};

static struct out outs[SLOTS];
static char *taken_apart; /* what another thread has mapped meanwhile */
static bool refuse_apart;

bool __wrap_os_map_apart(void *addr, size_t size);
bool __real_os_map_apart(void *addr, size_t size);
bool __wrap_os_map_apart(void *addr, size_t size)
{
	if (!refuse_apart)
		return __real_os_map_apart(addr, size);
	/* Linux before 6.12 unmaps what it then finds no memory for; another thread takes the place. */
	taken_apart = mmap(addr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	return false;
}
static size_t granules_out;
static uint64_t seed = 6;

static size_t bytes_of(const struct span *span)
{
	return span->granules * GRANULE;
}

/* Mostly a few granules, sometimes up to a SuperSlab. */
static size_t random_granules(void)
{
	uint64_t r = next_random(&seed);

	return 1 + r / 8 % (r % 8 == 0 ? SUPERSLAB_GRANULES : 4);
}

static bool overlaps(const struct span *a, const struct span *b)
{
	return (char *)a->base < (char *)b->base + bytes_of(b) &&
		(char *)b->base < (char *)a->base + bytes_of(a);
}

static void check_alone(const struct out *o)
{
	for (struct out *other = outs; other < outs + SLOTS; other++)
		if (other != o && other->span.base != NULL)
			assert_false(overlaps(&o->span, &other->span));
	assert_true((uintptr_t)o->span.base >= o->span.ss->base);
	assert_true((uintptr_t)o->span.base + bytes_of(&o->span) <= o->span.ss->base + SUPERSLAB);
}

static void touch(struct out *o, size_t bytes)
{
	memset(o->span.base, o->fill, bytes);
	o->touched = max_size(o->touched, bytes);
}

static void take(struct out *o)
{
	size_t n = random_granules();

	assert_true(span_alloc(n, SPAN_DENSE, 0, &o->span));
	assert_int_equal(o->span.granules, n);
	assert_int_equal((uintptr_t)o->span.base % GRANULE, 0);
	check_alone(o);
	assert_int_equal(pagemap_tag((uintptr_t)o->span.base), TAG_FREE);
	if (o->span.zero)
		assert_true(bytes_are(o->span.base, bytes_of(&o->span), 0));
	o->fill = (unsigned char)(1 + next_random(&seed) % 255);
	o->touched = o->span.zero ? 0 : bytes_of(&o->span);
	touch(o, o->span.zero ? next_random(&seed) % (bytes_of(&o->span) + 1) : o->touched);
	granules_out += n;
}

static void give_back(struct out *o)
{
	assert_true(bytes_are(o->span.base, o->touched, o->fill));
	granules_out -= o->span.granules;
	span_free(&o->span, o->touched);
	o->span.base = NULL;
}

static void extend(struct out *o)
{
	size_t old = o->span.granules, n = old + 1 + next_random(&seed) % 4;
	bool zero;

	if (n > SUPERSLAB_GRANULES || !span_extend(&o->span, n, &zero)) {
		assert_int_equal(o->span.granules, old);
		return;
	}
	check_alone(o);
	granules_out += n - old;
	if (zero)
		assert_true(bytes_are((char *)o->span.base + old * GRANULE, (n - old) * GRANULE, 0));
	else
		touch(o, n * GRANULE);
}

static void shrink(struct out *o)
{
	size_t old = o->span.granules;

	if (old == 1)
		return;
	span_shrink(&o->span, 1 + next_random(&seed) % (old - 1));
	granules_out -= old - o->span.granules;
	o->touched = min_size(o->touched, bytes_of(&o->span));
}

static void step(struct out *o)
{
	if (o->span.base == NULL) {
		take(o);
		return;
	}
	switch (next_random(&seed) % 6) {
	case 0: extend(o); break;
	case 1: shrink(o); break;
	default: give_back(o);
	}
}

static void spans_random_use_matches_model(void **state)
{
	for (int i = 0; i < ROUNDS; i++) {
		step(&outs[next_random(&seed) % SLOTS]);
		assert_int_equal(hak_space.live, granules_out);
		assert_true(hak_space.live + hak_space.dirty <= hak_space.superslabs * SUPERSLAB_GRANULES);
		assert_true(hak_space.superslabs * SUPERSLAB_GRANULES - hak_space.live <= hak_space.retained_most);
		if (i % 500 == 0)
			purge_all(next_random(&seed) % (4 * HAK_MIB));
		if (i % 1501 == 0)
			purge_all(0);
	}
	for (struct out *o = outs; o < outs + SLOTS; o++)
		if (o->span.base != NULL)
			give_back(o);
	assert_int_equal(hak_space.live, 0);
	assert_true(hak_space.purged > 0);
	purge_all(0);
	assert_int_equal(hak_space.dirty, 0);
	assert_int_equal(hak_space.superslabs, 0);
}

static void span_freed_leaves_trace(void **state)
{
	struct span a, b;

	assert_true(span_alloc(2, SPAN_DENSE, 0, &a) && span_alloc(3, SPAN_ROOMY, 0, &b));
	a.last_size = 96;
	b.last_size = 150000;
	b.was_large = true;
	span_free(&a, 0);
	span_free(&b, 0);
	struct pagemap_entry e = pagemap_lookup((uintptr_t)a.base + GRANULE);
	assert_int_equal(e.tag, TAG_FREE);
	assert_true((size_t)e.desc == 96);
	e = pagemap_lookup((uintptr_t)b.base);
	assert_int_equal(e.tag, TAG_LARGE_FREED);
	assert_true((size_t)e.desc == 150000);
	assert_int_equal(pagemap_tag((uintptr_t)b.base + GRANULE), TAG_FREE);
}

static void span_without_superslabs_mapped_alone(void **state)
{
	struct span span;
	bool zero;

	hak_settings.use_superslab = false;
	assert_true(span_alloc(5, SPAN_DENSE, 0, &span));
	assert_null(span.ss);
	assert_true(span.zero && bytes_are(span.base, 5 * GRANULE, 0));
	assert_int_equal((uintptr_t)span.base % GRANULE, 0);
	assert_int_equal(hak_space.alone, 5);
	assert_int_equal(pagemap_tag((uintptr_t)span.base + 4 * GRANULE), TAG_FREE);
	assert_false(span_extend(&span, 6, &zero));
	span_shrink(&span, 2);
	assert_int_equal(hak_space.alone, 2);
	assert_int_equal(pagemap_tag((uintptr_t)span.base + 2 * GRANULE), TAG_NONE);
	span_free(&span, 0);
	assert_int_equal(hak_space.alone, 0);
	assert_int_equal(pagemap_tag((uintptr_t)span.base), TAG_NONE);
	hak_settings.use_superslab = true;
}

static void use_spans(unsigned index)
{
	uint64_t own = 100 + index;
	struct span spans[8] = {{0}};

	for (int i = 0; i < 2000; i++) {
		struct span *s = &spans[next_random(&own) % 8];
		if (s->base == NULL) {
			CHECK(span_alloc(1 + next_random(&own) % 8, SPAN_DENSE, 0, s));
			CHECK(!s->zero || *(uint64_t *)s->base == 0);
			*(uint64_t *)s->base = index + 1;
		} else {
			CHECK(*(uint64_t *)s->base == index + 1);
			span_free(s, s->zero ? 8 : bytes_of(s));
			s->base = NULL;
		}
	}
	for (int i = 0; i < 8; i++)
		if (spans[i].base != NULL)
			span_free(&spans[i], bytes_of(&spans[i]));
}

static void spans_of_several_threads_apart(void **state)
{
	run_threads(4, use_spans);
	assert_int_equal(hak_space.live, 0);
}

/* First in the program: the first mapping, and then one more. */
static void mapping_given_up_leaves_what_others_mapped(void **state)
{
	struct span span, first;

	for (int i = 0; i < 2; i++) {
		refuse_apart = true;
		assert_false(span_alloc(SUPERSLAB_GRANULES, SPAN_DENSE, 0, &span));
		refuse_apart = false;
		assert_ptr_not_equal(taken_apart, MAP_FAILED);
		assert_non_null(taken_apart);
		assert_true(os_is_readable(taken_apart) && os_is_readable(taken_apart + GRANULE - 1));
		assert_false(os_is_readable(taken_apart - 1));
		assert_false(os_is_readable(taken_apart - SUPERSLAB + GRANULE));
		munmap(taken_apart, GRANULE);
		taken_apart = NULL;
		if (i == 0) /* the next has to map one more */
			assert_true(span_alloc(SUPERSLAB_GRANULES, SPAN_DENSE, 0, &first));
	}
	assert_true(span_alloc(1, SPAN_DENSE, 0, &span));
	span_free(&span, 0);
	span_free(&first, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mapping_given_up_leaves_what_others_mapped),
		cmocka_unit_test(spans_random_use_matches_model),
		cmocka_unit_test(span_freed_leaves_trace),
		cmocka_unit_test(span_without_superslabs_mapped_alone),
		cmocka_unit_test(spans_of_several_threads_apart),
	};

	return UNIT_RUN(tests);
}
