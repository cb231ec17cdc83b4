/* SPDX-License-Identifier: MIT */
#include "front/outbox.h"

#include "common.h"
#include "fixture.h"

enum { TINY = 2, WIDE = 32 }; /* 32 and 1024 bytes */
enum { BETWEEN = 2 * CHUNK_SLABS }; /* slabs that can come before one that shares a slot */

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

/* Another slab whose blocks would go to the same slot; those between stay, to be deleted by the caller. */
static struct slab *sharing_slot_with(struct slab *first, struct slab **between, unsigned *count)
{
	for (;;) {
		struct slab *s = fixture_slab(TINY, &inbox, 2 * OUTBOX_OTHERS);

		if (outbox_slot_of(&outbox, s) == outbox_slot_of(&outbox, first))
			return s;
		assert_true(*count < BETWEEN);
		between[(*count)++] = s;
	}
}

static void delete_all(struct slab **slabs, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		slab_delete(slabs[i]);
}

static void add_to_anothers_slot_posts_at_once(void **state)
{
	struct slab *between[BETWEEN], *s = fixture_slab(TINY, &inbox, 8);
	unsigned count = 0;
	struct slab *other = sharing_slot_with(s, between, &count);

	add(s, 0, 5);
	for (unsigned i = 0; i < OUTBOX_OTHERS - 1; i++) {
		add(other, i, 1);
		assert_int_equal(posted(other), i + 1);
	}
	add(s, 5, 1); /* and the count begins again */
	add(other, OUTBOX_OTHERS - 1, 1);
	assert_int_equal(posted(other), OUTBOX_OTHERS);
	assert_int_equal(posted(s), 0);
	outbox_flush(&outbox);
	assert_int_equal(posted(s), 6);
	slab_delete(s);
	slab_delete(other);
	delete_all(between, count);
}

static void add_to_anothers_slot_takes_it_in_the_end(void **state)
{
	struct slab *between[BETWEEN], *s = fixture_slab(TINY, &inbox, 8);
	unsigned count = 0;
	struct slab *other = sharing_slot_with(s, between, &count);

	add(s, 0, 5);
	add(other, 0, OUTBOX_OTHERS);
	assert_int_equal(posted(s), 5);
	assert_int_equal(posted(other), OUTBOX_OTHERS - 1);
	assert_int_equal(outbox.used, 1);
	add(other, OUTBOX_OTHERS, 3);
	assert_int_equal(posted(other), OUTBOX_OTHERS - 1);
	outbox_flush(&outbox);
	assert_int_equal(posted(other), OUTBOX_OTHERS + 3);
	assert_int_equal(outbox.used, 0);
	slab_delete(s);
	slab_delete(other);
	delete_all(between, count);
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
		cmocka_unit_test_setup(add_to_anothers_slot_posts_at_once, start_empty),
		cmocka_unit_test_setup(add_to_anothers_slot_takes_it_in_the_end, start_empty),
		cmocka_unit_test_setup(flush_empty_does_nothing, start_empty),
		cmocka_unit_test_setup(flush_last_blocks_of_orphan_deletes, start_empty),
	};

	return UNIT_RUN(tests);
}
