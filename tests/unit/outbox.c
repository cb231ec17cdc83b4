/* SPDX-License-Identifier: MIT */
#include "front/outbox.h"

#include <string.h>

#include "common.h"
#include "fixture.h"

enum { TINY = 2, WIDE = 32 }; /* 32 and 1024 bytes */
enum { BETWEEN = 64 }; /* more slabs than can come before one that shares a slot */

static struct heap owner = { .tag = FIXTURE_TAG };
static struct outbox outbox;

static int start_empty(void **state)
{
	inbox_take(&owner.inbox, false);
	inbox_take_messages(&owner.inbox, false);
	outbox = (struct outbox){0};
	return hak_space.live == 0 ? 0 : -1;
}

static void add(struct slab *s, unsigned first, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (!outbox_add(&outbox, s, fixture_block(s, first + i)))
			fixture_post(s, first + i, 1);
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
	struct slab *s = fixture_slab(TINY, &owner.inbox, 40);

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
	struct slab *s = fixture_slab(TINY, &owner.inbox, 40);

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
	struct slab *s = fixture_slab(WIDE, &owner.inbox, 40);
	unsigned fit = OUTBOX_BYTES / s->block_size;

	add(s, 0, fit - 1);
	assert_int_equal(posted(s), 0);
	add(s, fit - 1, 1);
	assert_int_equal(posted(s), fit);
	slab_delete(s);
}

/* Another slab whose blocks would go to the same slot; those between stay, to be deleted by the caller. */
static struct slab *sharing_slot_with(struct slab *first, struct slab **between, unsigned *count)
{
	for (;;) {
		struct slab *s = fixture_slab(TINY, &owner.inbox, 2 * OUTBOX_OTHERS);

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

/* Blocks in the messages that the owner has been sent, which become free. */
static unsigned read_all(struct inbox *in)
{
	unsigned n = 0;

	for (struct message *m = inbox_take_messages(in, false), *next; m != NULL; m = next) {
		next = m->next;
		n += m->count;
		for (unsigned i = 0; i < m->count; i++) {
			assert_int_equal(message_class(m->block[i]), fixture_slab_of(message_block(m->block[i]))->sc);
			assert_int_equal(block_link(message_block(m->block[i])), hak_secret.mark);
		}
		message_release(m);
	}
	return n;
}

static void add_to_anothers_slot_goes_in_message(void **state)
{
	struct slab *between[BETWEEN], *s = fixture_slab(TINY, &owner.inbox, 8);
	unsigned count = 0;
	struct slab *other = sharing_slot_with(s, between, &count);

	add(s, 0, 5);
	add(other, 0, OUTBOX_OTHERS - 1);
	assert_int_equal(posted(other), 0);
	add(s, 5, 1); /* and the count begins again */
	add(other, OUTBOX_OTHERS - 1, 1);
	assert_int_equal(posted(other), 0);
	assert_int_equal(posted(s), 0);
	assert_int_equal(outbox.used, 2);
	assert_int_equal(read_all(&owner.inbox), OUTBOX_OTHERS / MESSAGE_BLOCKS * MESSAGE_BLOCKS);
	outbox_flush(&outbox);
	assert_int_equal(outbox.used, 0);
	assert_int_equal(posted(s), 6);
	assert_int_equal(posted(other), 0);
	assert_int_equal(read_all(&owner.inbox), OUTBOX_OTHERS % MESSAGE_BLOCKS);
	slab_delete(s);
	slab_delete(other);
	delete_all(between, count);
}

static void add_to_anothers_slot_takes_it_in_the_end(void **state)
{
	struct slab *between[BETWEEN], *s = fixture_slab(TINY, &owner.inbox, 8);
	unsigned count = 0;
	struct slab *other = sharing_slot_with(s, between, &count);

	add(s, 0, 5);
	add(other, 0, OUTBOX_OTHERS);
	assert_int_equal(posted(s), 5);
	assert_int_equal(posted(other), 0);
	assert_int_equal(outbox.used, 2);
	add(other, OUTBOX_OTHERS, 3);
	outbox_flush(&outbox);
	assert_int_equal(posted(other), 4);
	assert_int_equal(read_all(&owner.inbox), OUTBOX_OTHERS - 1);
	slab_delete(s);
	slab_delete(other);
	delete_all(between, count);
}

/* What takes no calls does the same. */
static void put_takes_what_needs_no_place(void **state)
{
	struct slab *between[BETWEEN], *s = fixture_slab(TINY, &owner.inbox, 40);
	unsigned count = 0;
	struct slab *other = sharing_slot_with(s, between, &count);

	assert_false(outbox_put(&outbox, s, pagemap_tag(s->base), fixture_block(s, 0)));
	add(s, 0, 1);
	for (unsigned i = 1; i < OUTBOX_BLOCKS - 1; i++)
		assert_true(outbox_put(&outbox, s, pagemap_tag(s->base), fixture_block(s, i)));
	assert_false(outbox_put(&outbox, s, pagemap_tag(s->base), fixture_block(s, OUTBOX_BLOCKS - 1)));
	assert_false(outbox_put(&outbox, other, pagemap_tag(other->base), fixture_block(other, 0)));
	add(other, 0, 1);
	for (unsigned i = 1; i < MESSAGE_BLOCKS - 1; i++)
		assert_true(outbox_put(&outbox, other, pagemap_tag(other->base), fixture_block(other, i)));
	assert_false(outbox_put(&outbox, other, pagemap_tag(other->base), fixture_block(other, MESSAGE_BLOCKS - 1)));
	add(other, MESSAGE_BLOCKS - 1, OUTBOX_OTHERS - MESSAGE_BLOCKS);
	assert_false(outbox_put(&outbox, other, pagemap_tag(other->base), fixture_block(other, OUTBOX_OTHERS - 1)));
	outbox_flush(&outbox);
	assert_int_equal(posted(s), OUTBOX_BLOCKS - 1);
	assert_int_equal(read_all(&owner.inbox), OUTBOX_OTHERS - 1);
	slab_delete(s);
	slab_delete(other);
	delete_all(between, count);
}

/* The widest blocks fill slots and messages at once. */
static void add_widest_goes_in_message(void **state)
{
	struct slab *s = fixture_slab(SC_COUNT - 1, &owner.inbox, 1);

	assert_int_equal(s->block_size, MESSAGE_BYTES);
	add(s, 0, 1);
	assert_int_equal(posted(s), 0);
	assert_int_equal(read_all(&owner.inbox), 1);
	assert_int_equal(outbox.used, 0);
	slab_delete(s);
}

/* Blocks that go into messages: their slab's slot is another's for good. */
static void fill_slots(struct slab *s)
{
	for (unsigned i = 0; i < OUTBOX_SLOTS; i++)
		outbox.slot[i].slab = s;
}
static void add_mixed(struct slab *s, unsigned first, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		outbox_slot_of(&outbox, s)->others = 0;
		add(s, first + i, 1);
	}
}

static void message_goes_when_full(void **state)
{
	struct slab *s = fixture_slab(TINY, &owner.inbox, MESSAGE_BLOCKS + 1);

	fill_slots((struct slab *)&owner);
	add_mixed(s, 0, MESSAGE_BLOCKS - 1);
	assert_int_equal(read_all(&owner.inbox), 0);
	add_mixed(s, MESSAGE_BLOCKS - 1, 2);
	assert_int_equal(read_all(&owner.inbox), MESSAGE_BLOCKS);
	assert_int_equal(outbox.used, 1);
	slab_delete(s);
}

/* One message at a time for each owner, and one place for several owners. */
static void message_goes_when_another_owner_takes_its_place(void **state)
{
	static struct heap another = { .tag = FIXTURE_TAG + (OUTBOX_OWNERS << TAG_OWNER_SHIFT) };
	struct slab *s = fixture_slab(TINY, &owner.inbox, 8), *t = fixture_slab(TINY, &another.inbox, 8);

	slab_set_tag(t, another.tag);
	fill_slots((struct slab *)&owner);
	add_mixed(s, 0, 3);
	add_mixed(t, 0, 2);
	assert_int_equal(read_all(&owner.inbox), 3);
	assert_int_equal(outbox.used, 1);
	add_mixed(s, 3, 1);
	assert_int_equal(read_all(&another.inbox), 2);
	slab_delete(s);
	slab_delete(t);
}

enum { EACH = 7 };

/* Sends messages of EACH blocks, one after the other, while they are taken; at most `most`. How many. */
static unsigned send_messages(struct slab *s, const struct heap *to, unsigned most)
{
	unsigned sent = 0;

	for (; sent < most; sent++) {
		add_mixed(s, sent * EACH, EACH);
		struct message **open = outbox_open_to(&outbox, to->tag);
		if (*open == NULL)
			break;
		assert_true(message_post(*open));
		*open = NULL;
	}
	return sent;
}

/* An owner that reads nothing has so many messages, and no more: then blocks come to their slabs. */
static void messages_to_one_are_few(void **state)
{
	static struct heap another = { .tag = FIXTURE_TAG + (1 << TAG_OWNER_SHIFT) };
	struct slab *s = fixture_slab(TINY, &owner.inbox, 1000), *t = fixture_slab(TINY, &another.inbox, 1000);
	enum { MORE = 2 * OUTBOX_UNREAD };

	slab_set_tag(t, another.tag);
	fill_slots((struct slab *)&owner);
	assert_int_equal(send_messages(s, &owner, MORE), OUTBOX_UNREAD);
	assert_int_equal(posted(s), EACH);
	/* One that reads goes on getting them. */
	for (unsigned i = 0; i < MORE; i++) {
		assert_int_equal(send_messages(t, &another, 1), 1);
		assert_int_equal(read_all(&another.inbox), EACH);
	}
	assert_int_equal(posted(t), 0);
	assert_int_equal(read_all(&owner.inbox), OUTBOX_UNREAD * EACH);
	assert_int_equal(send_messages(s, &owner, 2), 2);
	assert_int_equal(read_all(&owner.inbox), 2 * EACH);
	assert_true(outbox.made < OUTBOX_MESSAGES);
	slab_delete(s);
	slab_delete(t);
}

/* All owners together have so many. */
static void messages_are_few(void **state)
{
	enum { OWNERS = OUTBOX_MESSAGES / OUTBOX_UNREAD + 1 };
	static struct heap owners[OWNERS];
	struct slab *s[OWNERS];
	unsigned sent = 0;

	fill_slots((struct slab *)&owner);
	for (unsigned i = 0; i < OWNERS; i++) {
		owners[i].tag = FIXTURE_TAG + (i << TAG_OWNER_SHIFT);
		s[i] = fixture_slab(TINY, &owners[i].inbox, 1000);
		slab_set_tag(s[i], owners[i].tag);
		sent += send_messages(s[i], &owners[i], OUTBOX_UNREAD);
	}
	assert_int_equal(sent, OUTBOX_MESSAGES);
	assert_int_equal(outbox.made, OUTBOX_MESSAGES);
	assert_int_equal(posted(s[OWNERS - 1]), EACH);
	for (unsigned i = 0; i < OWNERS; i++) {
		assert_int_equal(read_all(&owners[i].inbox), i < OWNERS - 1 ? OUTBOX_UNREAD * EACH : 0);
	}
	/* Which are used again. */
	add_mixed(s[OWNERS - 1], EACH, EACH);
	assert_int_equal(posted(s[OWNERS - 1]), EACH);
	assert_int_equal(outbox.made, OUTBOX_MESSAGES);
	for (unsigned i = 0; i < OWNERS; i++)
		slab_delete(s[i]);
}

/* What is sent to an owner that has gone comes to the slabs. */
static void closed_inbox_takes_no_messages(void **state)
{
	struct slab *s = fixture_slab(TINY, &owner.inbox, 8), *t = fixture_slab(TINY, &owner.inbox, 8);

	fill_slots((struct slab *)&owner);
	add_mixed(s, 0, 2);
	add_mixed(t, 0, 3);
	add_mixed(s, 2, 1);
	remote_disown(s);
	assert_null(inbox_take_messages(&owner.inbox, true));
	memset(outbox.slot, 0, sizeof outbox.slot);
	outbox_flush(&outbox);
	assert_false(inbox_has_messages(&owner.inbox));
	assert_int_equal(posted(t), 3);
	assert_int_equal(remote_count(fixture_word(s)), 5); /* published: those that are out */
	assert_true(message_is_free(outbox.chunk[0]));
	inbox_take(&owner.inbox, true);
	inbox_open(&owner.inbox);
	fixture_post(s, 3, 5);
	slab_delete(t);
}

/* No message goes to the owner that a tag names when the slab has another. */
static void slab_between_owners_gets_its_blocks(void **state)
{
	struct slab *s = fixture_slab(TINY, &owner.inbox, 8);

	fill_slots((struct slab *)&owner);
	slab_set_tag(s, FIXTURE_TAG + (1 << TAG_OWNER_SHIFT));
	add_mixed(s, 0, 2);
	assert_int_equal(posted(s), 2);
	slab_set_tag(s, 0);
	add_mixed(s, 2, 2);
	assert_int_equal(posted(s), 4);
	assert_int_equal(outbox.made, 0);
	slab_delete(s);
}

static void forget_keeps_what_was_posted(void **state)
{
	struct slab *s = fixture_slab(TINY, &owner.inbox, MESSAGE_BLOCKS + 3);

	fill_slots((struct slab *)&owner);
	add_mixed(s, 0, MESSAGE_BLOCKS + 3);
	outbox_forget(&outbox);
	assert_int_equal(outbox.used, 0);
	assert_int_equal(outbox.made, OUTBOX_CHUNK);
	outbox_flush(&outbox);
	assert_int_equal(read_all(&owner.inbox), MESSAGE_BLOCKS);
	unsigned i = 0;
	for (struct message *m; (m = outbox_message(&outbox, i)) != NULL; i++)
		assert_true(message_is_free(m));
	assert_int_equal(i, OUTBOX_CHUNK);
	slab_delete(s);
}

static void flush_empty_does_nothing(void **state)
{
	outbox_flush(&outbox);
	assert_int_equal(outbox.used, 0);
	assert_true(inbox_is_empty(&owner.inbox));
}

/* The batch that brings the last blocks of a slab without owner takes the slab along. */
static void flush_last_blocks_of_orphan_deletes(void **state)
{
	struct slab *s = fixture_slab(TINY, &owner.inbox, 6);

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
		cmocka_unit_test_setup(add_to_anothers_slot_goes_in_message, start_empty),
		cmocka_unit_test_setup(add_to_anothers_slot_takes_it_in_the_end, start_empty),
		cmocka_unit_test_setup(put_takes_what_needs_no_place, start_empty),
		cmocka_unit_test_setup(add_widest_goes_in_message, start_empty),
		cmocka_unit_test_setup(message_goes_when_full, start_empty),
		cmocka_unit_test_setup(message_goes_when_another_owner_takes_its_place, start_empty),
		cmocka_unit_test_setup(messages_to_one_are_few, start_empty),
		cmocka_unit_test_setup(messages_are_few, start_empty),
		cmocka_unit_test_setup(closed_inbox_takes_no_messages, start_empty),
		cmocka_unit_test_setup(slab_between_owners_gets_its_blocks, start_empty),
		cmocka_unit_test_setup(forget_keeps_what_was_posted, start_empty),
		cmocka_unit_test_setup(flush_empty_does_nothing, start_empty),
		cmocka_unit_test_setup(flush_last_blocks_of_orphan_deletes, start_empty),
	};

	return UNIT_RUN(tests);
}
