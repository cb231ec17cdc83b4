/* SPDX-License-Identifier: MIT */
#include "slab/slab.h"

#include <string.h>

#include "base/settings.h"
#include "common.h"
#include "fixture.h"
#include "space/meta.h"
#include "space/pagemap.h"
#include "space/purge.h"

enum { MANY = 100 };

static int start_empty(void **state)
{
	purge_all(0);
	return hak_space.live == 0 ? 0 : -1;
}

static void key_any_random_words_odd_and_far_from_data(void **state)
{
	uintptr_t key = hak_secret.key, own = hak_secret.mark, mark = own;
	uint64_t seed = 9;

	for (int i = 0; i < 1000; i++) {
		uint64_t random[2] = {next_random(&seed), next_random(&seed)};
		key_init(random);
		assert_int_equal(hak_secret.key & 1, 1);
		assert_int_equal(hak_secret.key >> 61, 4);
		assert_int_equal(hak_secret.key >> 55 & 1, 0);
		assert_int_equal(hak_secret.mark >> 48, hak_secret.key >> 48);
		assert_int_equal(hak_secret.mark & 0xffff, hak_secret.mark >> 48);
		assert_int_not_equal(hak_secret.mark & 0xff, 0);
		assert_int_not_equal(hak_secret.mark, mark);
		mark = hak_secret.mark;
		assert_true(link_decode(link_encode(key)) == key);
	}
	hak_secret.key = key;
	hak_secret.mark = own;
}

/* Whatever else a word is, it ends a list; but not as the list's own end does. */
static void link_altered_in_a_bit_is_an_end_but_not_ours(void **state)
{
	struct slab *s = fixture_slab(3, NULL, 10);
	uintptr_t link = link_encode(fixture_block(s, 0));

	assert_false(link_is_end(link_decode(link)));
	assert_true(link_is_end(link_decode(slab_end(s))) && link_is_our_end(link_decode(slab_end(s))));
	for (unsigned bit = 0; bit < 64; bit++) {
		uintptr_t at = link_decode(link ^ (uintptr_t)1 << bit);
#if defined(__x86_64__)
		assert_int_equal(link_is_end(at), bit < 4 || bit >= 48 || (at >> 47 & 1) != 0);
#else
		assert_int_equal(link_is_end(at), bit < 4 || bit >= 48); /* addresses may have bit 47 */
#endif
		assert_false(link_is_our_end(at));
	}
	slab_delete(s);
}

/* Of both are pages left unused, between mid blocks and where a thread with few blocks never comes: a huge page would
   make them resident. */
static void slabs_of_mid_blocks_and_first_ones_keep_clear_of_huge_pages(void **state)
{
	static const struct { size_t size; bool first, huge; } row[] = {
		{16, false, true}, {SC_SMALL_MAX, false, true}, {SC_SMALL_MAX + 1, false, false}, {SC_MAX_SIZE, false, false},
		{16, true, false}, {SC_SMALL_MAX, true, false},
	};

	hak_settings.thp = THP_ALWAYS;
	for (unsigned i = 0; i < sizeof row / sizeof *row; i++) {
		struct slab *s = slab_new(sc_of(row[i].size), row[i].first);

		assert_non_null(s);
		if (s->ss != NULL)
			assert_int_equal(s->ss->huge, row[i].huge);
		slab_delete(s);
		purge_all(0);
	}
	hak_settings.thp = THP_AUTO;
}

static struct slab *mid_slab(void)
{
	struct slab *s = slab_new(sc_of(24 * 1024), false);

	assert_non_null(s);
	return s;
}

/* Deletes a slab that is dirty, as far as is known, and gives its memory back. */
static void give_back(struct slab *s)
{
	__atomic_store_n(&s->carved, s->capacity, __ATOMIC_RELAXED);
	slab_delete(s);
	purge_all(1); /* does not unmap what is empty then */
}

/* Does a slab lie where the one before did, whose memory went back a moment ago, and say so? */
static bool next_was_lately(void)
{
	struct slab *s = mid_slab();
	bool was_lately = s->was_lately;

	give_back(s);
	return was_lately;
}

static void memory_given_back_lately_said_so(void **state)
{
	struct span span;

	assert_true(span_alloc(1, SPAN_ROOMY, 0, &span));
	purge_tick(); /* looks at the clock */
	assert_false(next_was_lately());
	assert_true(next_was_lately());
	assert_true(next_was_lately());
	sleep_ms(PURGE_REGRET_MS + 50); /* and nobody looks at the clock */
	assert_false(next_was_lately());
	span_free(&span, 0);
}

/* Of a fresh slab of 24 KiB blocks, by slab_populate. */
static bool is_made_whole(void)
{
	struct slab *s = mid_slab();
	bool is_whole;

	slab_populate(s);
	is_whole = fixture_is_whole(s);
	give_back(s);
	return is_whole;
}

/* In a larger heap, and while memory is given back, but not at once. */
static void slab_populated_resident_where_that_is_wanted(void **state)
{
	int64_t delay = hak_settings.purge_delay_ms;

	assert_false(is_made_whole());
	fixture_enlarge_heap();
	if (fixture_can_populate())
		assert_true(is_made_whole());
	hak_settings.purge_delay_ms = 0;
	assert_false(is_made_whole());
	hak_settings.purge_delay_ms = -1;
	assert_false(is_made_whole());
	hak_settings.purge_delay_ms = delay;
	fixture_reduce_heap();
}

static void word_of_a_program_is_an_end_but_not_ours(void **state)
{
	static const uintptr_t words[] = {0, 1, 2, 8, 11, 16, 43, 1 << 20, UINTPTR_MAX, UINTPTR_MAX - 15, 0xdeadbeef,
		0x4141414141414141, 0x6e696d616a6e6542, 0xdeadbeefdeadbeef, 0x7ff0000000000000, 0x3ff0000000000000,
		0xbff0000000000000, 0xbfe0000000000000, 0xa9c3a9c3a9c3a9c3, 0x80d181d182d183d1, 0x8c96b8e5958ce4b8,
		(uintptr_t)&words, (uintptr_t)&words + 1};
	uintptr_t key = hak_secret.key;
	uint64_t seed = 9;

	for (int i = 0; i < 1000; i++) {
		key_init((uint64_t[]){next_random(&seed), next_random(&seed)});
		for (size_t k = 0; k < sizeof words / sizeof *words; k++)
			assert_true(link_is_end(link_decode(words[k])) && !link_is_our_end(link_decode(words[k])));
		for (unsigned byte = 0; byte < 256; byte++) {
			uintptr_t word = byte * (uintptr_t)0x0101010101010101;
			assert_true(link_is_end(link_decode(word)) && !link_is_our_end(link_decode(word)));
		}
	}
	hak_secret.key = key;
}

static void slab_new_any_class_is_empty(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		const struct size_class *c = &hak_size_classes[sc];
		struct slab *s = slab_new(sc, false);
		assert_non_null(s);
		assert_int_equal(s->base % GRANULE, 0);
		assert_int_equal(s->block_size, c->size);
		assert_int_equal(s->capacity, c->capacity);
		assert_int_equal(s->free_count + s->used + s->carved + s->left_remote, 0);
		assert_int_equal(fixture_count(s, s->free), 0);
		assert_int_equal(fixture_word(s), 0);
		assert_null(atomic_load(&s->owner));
		assert_true(slab_has_uncarved(s));
		assert_int_equal(hak_space.live, 1);
		slab_delete(s);
		assert_int_equal(hak_space.live, 0);
	}
}

static void slab_tagged_found_from_every_address(void **state)
{
	unsigned sc = SC_COUNT - 1;
	struct slab *s = slab_new(sc, false);

	slab_set_tag(s, FIXTURE_TAG);
	for (size_t offset = 0; offset < GRANULE; offset += 4095) {
		struct pagemap_entry e = pagemap_lookup(s->base + offset);
		assert_int_equal(e.tag, FIXTURE_TAG | sc << SC_CODE_SHIFT);
		assert_ptr_equal(e.desc, s);
	}
	slab_delete(s);
	assert_int_equal(pagemap_tag(s->base), TAG_FREE);
}

static void block_only_where_carved_ones_begin(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc += 5) {
		struct slab *s = fixture_slab(sc, NULL, hak_size_classes[sc].capacity / 2);
		size_t next = 0, wrong = 0;
		for (size_t offset = 0; offset < GRANULE; offset++) {
			bool begins = offset == next && offset / s->block_size < s->carved;
			wrong += slab_has_block(s, s->base + offset) != begins;
			next += offset == next ? s->block_size : 0;
		}
		assert_int_equal(wrong, 0);
		slab_delete(s);
	}
}

static void pushed_blocks_come_last_first(void **state)
{
	struct slab *s = fixture_slab(3, NULL, 10);
	uintptr_t link;

	for (unsigned i = 0; i < 10; i++)
		slab_push(s, fixture_block(s, i), fixture_block(s, i), 1);
	assert_int_equal(s->free_count, 10);
	assert_int_equal(s->used, 0);
	assert_int_equal(fixture_count(s, s->free), 10);
	link = s->free;
	for (unsigned i = 10; i-- > 0; link = block_link(link_decode(link)))
		assert_true(link_decode(link) == fixture_block(s, i));
	assert_true(link == slab_end(s));
	slab_delete(s);
}

static void deleted_slab_dirty_as_far_as_carved(void **state)
{
	struct slab *s = slab_new(SC_COUNT - 1, false);

	assert_true(s->fresh_is_zero);
	slab_delete(s);
	assert_int_equal(hak_space.dirty, 0);
	s = slab_new(SC_COUNT - 1, false);
	assert_true(s->fresh_is_zero);
	s->carved = 1;
	memset((void *)s->base, 1, SC_MAX_SIZE);
	slab_delete(s);
	assert_int_equal(hak_space.dirty, 1);
	s = slab_new(1, false);
	assert_false(s->fresh_is_zero);
	slab_delete(s);
	assert_int_equal(hak_space.dirty, 1);
}

static void count_one(struct slab *s, void *arg)
{
	assert_true(s->in_use);
	++*(unsigned *)arg;
}

static void descriptors_reused_also_after_rebuild(void **state)
{
	static struct slab *slabs[MANY], *more[CHUNK_SLABS + 1];
	static uint32_t numbers[MANY];
	unsigned count = 0;
	size_t used;

	for (unsigned i = 0; i < MANY; i++)
		slabs[i] = slab_new(1, false);
	slab_for_each(count_one, &count);
	assert_int_equal(count, MANY);
	for (unsigned i = 0; i < MANY; i += 2)
		slab_delete(slabs[i]);
	for (unsigned i = 0; i < MANY; i++)
		numbers[i] = slabs[i]->number;
	slabs[MANY - 2]->number = 0; /* as if it was just being made */
	slab_rebuild();
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(slabs[i]->number, numbers[i]);
	used = meta_used();
	for (unsigned i = 0; i < MANY; i += 2)
		slabs[i] = slab_new(1, false);
	assert_int_equal(meta_used(), used);
	count = 0;
	slab_for_each(count_one, &count);
	assert_int_equal(count, MANY);
	for (unsigned i = 0; i < MANY; i++)
		for (unsigned j = 0; j < i; j++)
			assert_true(slabs[i] != slabs[j] && slabs[i]->base != slabs[j]->base);
	for (unsigned i = 0; i <= CHUNK_SLABS; i++)
		more[i] = slab_new(1, false);
	for (unsigned i = 0; i <= CHUNK_SLABS; i++) {
		for (unsigned j = 0; j < MANY; j++)
			assert_true(more[i]->number != slabs[j]->number);
		slab_delete(more[i]);
	}
	for (unsigned i = 0; i < MANY; i++)
		slab_delete(slabs[i]);
	count = 0;
	slab_for_each(count_one, &count);
	assert_int_equal(count, 0);
}

/* As many slabs as get an inaccessible page, and some more. */
static unsigned count_guarded(struct slab **slabs, unsigned most)
{
	unsigned guarded = 0;

	for (unsigned i = 0; i < most; i++) {
		slabs[i] = slab_new(1, false);
		assert_non_null(slabs[i]);
		guarded += slabs[i]->has_guard;
	}
	for (unsigned i = 0; i < most; i++)
		slab_delete(slabs[i]);
	return guarded;
}

static void guards_used_up_and_given_back_serve_again(void **state)
{
	enum { MORE_THAN_ALL = 12000 };
	static struct slab *slabs[MORE_THAN_ALL];
	unsigned guarded;

	hak_settings.secure = 3;
	guarded = count_guarded(slabs, MORE_THAN_ALL);
	assert_in_range(guarded, 1, MORE_THAN_ALL - 1);
	assert_int_equal(count_guarded(slabs, MORE_THAN_ALL), guarded);
	hak_settings.secure = 0;
	assert_int_equal(hak_space.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_any_random_words_odd_and_far_from_data),
		cmocka_unit_test(link_altered_in_a_bit_is_an_end_but_not_ours),
		cmocka_unit_test(word_of_a_program_is_an_end_but_not_ours),
		cmocka_unit_test_setup(slab_new_any_class_is_empty, start_empty),
		cmocka_unit_test_setup(slab_tagged_found_from_every_address, start_empty),
		cmocka_unit_test_setup(block_only_where_carved_ones_begin, start_empty),
		cmocka_unit_test_setup(pushed_blocks_come_last_first, start_empty),
		cmocka_unit_test_setup(deleted_slab_dirty_as_far_as_carved, start_empty),
		cmocka_unit_test_setup(descriptors_reused_also_after_rebuild, start_empty),
		cmocka_unit_test_setup(guards_used_up_and_given_back_serve_again, start_empty),
		cmocka_unit_test_setup(memory_given_back_lately_said_so, start_empty),
		cmocka_unit_test_setup(slab_populated_resident_where_that_is_wanted, start_empty),
		cmocka_unit_test_setup(slabs_of_mid_blocks_and_first_ones_keep_clear_of_huge_pages, start_empty),
	};

	return UNIT_RUN(tests);
}
