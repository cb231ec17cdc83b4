/* SPDX-License-Identifier: MIT */
#include "front/outbox.h"

#include "common.h"
#include "fixture.h"

enum { TINY = 2, WIDE = 32 }; /* 32 and 1024 bytes */

static struct inbox inbox;
static struct outbox outbox;

static int start_empty(void **state)
{
	inbox_take(&inbox, false);
	return outbox.used == 0 && hak_space.live == 0 ? 0 : -1;
}

static void add(struct slab *s, unsigned first, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		outbox_add(&outbox, s, fixture_block(s, first + i));
}

/* What has been posted to the slab, and nothing else, is on its remote list. */
static unsigned posted(const struct slab *s)
{
	uint64_t word = fixture_word(s);
	unsigned n = remote_count(word);

	if (n != 0)
		assert_int_equal(fixture_count(s, link_encode(remote_first(word))), n);
	return n;
}

static void add_few_waits(void **state)
{
	struct slab *s = fixture_slab(TINY, &inbox, 40);

	add(s, 0, OUTBOX_BLOCKS - 1);
	assert_int_equal(posted(s), 0);
	assert_int_equal(outbox.used, 1);
	outbox_flush(&outbox);
	assert_int_equal(posted(s), OUTBOX_BLOCKS - 1);
	assert_int_equal(outbox.used, 0);
	slab_delete(s);
}

static void add_many_posts_when_full(void **state)
{
	struct slab *s = fixture_slab(TINY, &inbox, 40);

	add(s, 0, OUTBOX_BLOCKS);
	assert_int_equal(posted(s), OUTBOX_BLOCKS);
	assert_int_equal(outbox.used, 0);
	add(s, OUTBOX_BLOCKS, 2);
	assert_int_equal(posted(s), OUTBOX_BLOCKS);
	outbox_flush(&outbox);
	assert_int_equal(posted(s), OUTBOX_BLOCKS + 2);
	slab_delete(s);
}

static void add_wide_posts_by_bytes(void **state)
{
	struct slab *s = fixture_slab(WIDE, &inbox, 40);
	unsigned fit = OUTBOX_BYTES / s->block_size;

	add(s, 0, fit - 1);
	assert_int_equal(posted(s), 0);
	add(s, fit - 1, 1);
	assert_int_equal(posted(s), fit);
	slab_delete(s);
}

static void add_widest_posts_at_once(void **state)
{
	struct slab *s = fixture_slab(SC_COUNT - 1, &inbox, 4);

	add(s, 0, 1);
	assert_int_equal(posted(s), 1);
	assert_int_equal(outbox.used, 0);
	slab_delete(s);
}

/* One slab more than there are slots: two must share one. */
static void add_to_shared_slot_posts_predecessor(void **state)
{
	struct slab *s[OUTBOX_SLOTS + 1];
	unsigned sum = 0;

	for (unsigned i = 0; i <= OUTBOX_SLOTS; i++) {
		s[i] = fixture_slab(TINY, &inbox, 8);
		add(s[i], 0, 5);
		assert_int_equal(posted(s[i]), 0);
	}
	for (unsigned i = 0; i <= OUTBOX_SLOTS; i++)
		sum += posted(s[i]);
	assert_int_equal(sum + outbox.used * 5, (OUTBOX_SLOTS + 1) * 5);
	assert_true(sum >= 5 && outbox.used <= OUTBOX_SLOTS);
	outbox_flush(&outbox);
	assert_int_equal(outbox.used, 0);
	for (unsigned i = 0; i <= OUTBOX_SLOTS; i++) {
		assert_int_equal(posted(s[i]), 5);
		slab_delete(s[i]);
	}
}

static void flush_empty_does_nothing(void **state)
{
	outbox_flush(&outbox);
	assert_int_equal(outbox.used, 0);
	assert_true(inbox_is_empty(&inbox));
}

/* The batch that brings the last blocks of a slab without owner takes the slab along. */
static void flush_last_blocks_of_orphan_deletes(void **state)
{
	struct slab *s = fixture_slab(TINY, &inbox, 6);

	remote_disown(s);
	add(s, 0, 6);
	assert_int_equal(hak_space.live, 1);
	outbox_flush(&outbox);
	assert_int_equal(hak_space.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(add_few_waits, start_empty),
		cmocka_unit_test_setup(add_many_posts_when_full, start_empty),
		cmocka_unit_test_setup(add_wide_posts_by_bytes, start_empty),
		cmocka_unit_test_setup(add_widest_posts_at_once, start_empty),
		cmocka_unit_test_setup(add_to_shared_slot_posts_predecessor, start_empty),
		cmocka_unit_test_setup(flush_empty_does_nothing, start_empty),
		cmocka_unit_test_setup(flush_last_blocks_of_orphan_deletes, start_empty),
	};

	return UNIT_RUN(tests);
}
