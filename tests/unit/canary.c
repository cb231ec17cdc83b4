/* SPDX-License-Identifier: MIT */
#include "front/canary.h"

#include <string.h>

#include "common.h"

enum { SEEDS = 200, ROOM = 256, CANARY_SIZE = 48 };

static uint64_t memory[ROOM / sizeof(uint64_t)];
static const uintptr_t base = (uintptr_t)memory;

static void secret(uint64_t *seed)
{
	uint64_t random[2] = {next_random(seed), next_random(seed)};

	canary_init(random);
}

static void word_any_kind_and_slack_says_both(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t random = seed;
		secret(&random);
		size_t slack = (size_t)(seed < 3 ? (seed - 1) * CANARY_SLACK_MOST
		                                 : next_random(&random) & CANARY_SLACK_MOST);
		for (enum block_kind kind = KIND_FREED; kind <= KIND_NEW_ARRAY; kind++) {
			canary_store(base, CANARY_SIZE, kind, slack);
			uint64_t word = canary_load(base, CANARY_SIZE);
			assert_int_equal(canary_kind(word), kind);
			assert_int_equal(canary_slack(word), slack);
			assert_true(canary_is_intact(base, word) && canary_is_possible(base, word));
			assert_int_equal(memory[CANARY_SIZE / sizeof *memory - 1], word);
		}
	}
}

static void word_with_any_bit_flipped_broken(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t random = seed, word;
		secret(&random);
		word = canary_make(base, seed % 4, seed % 1000);
		for (unsigned bit = 0; bit < 64; bit++) {
			assert_false(canary_is_intact(base, word ^ (uint64_t)1 << bit));
			assert_false(canary_is_possible(base, word ^ (uint64_t)1 << bit));
		}
	}
}

static void word_of_other_block_or_secret_broken(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t random = seed, word;
		secret(&random);
		word = canary_make(base, KIND_MALLOC, 8);
		for (uintptr_t off = 16; off < 1 << 20; off *= 2)
			assert_false(canary_is_intact(base + off, word));
		secret(&random);
		assert_false(canary_is_intact(base, word));
	}
}

/* What programs write over a word: nothing, text, small numbers. */
static void word_of_common_bytes_broken(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t random = seed;
		secret(&random);
		assert_false(canary_is_intact(base, 0));
		assert_true(canary_is_possible(base, 0)); /* never handed out */
		for (unsigned byte = 0; byte < 256; byte++) {
			assert_false(canary_is_intact(base, byte * (uint64_t)0x0101010101010101));
			assert_true(byte == 0 || !canary_is_possible(base, byte));
		}
	}
}

/* One byte more or less of a word, as an overflow by a few bytes writes: the word differs unless the byte
   is what it was. */
static void word_overwritten_from_its_front_broken(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t random = seed;
		secret(&random);
		uint64_t word = canary_make(base, KIND_MALLOC, 0);
		for (unsigned bytes = 1; bytes <= 7; bytes++) {
			uint64_t cut = word & ~(((uint64_t)1 << 8 * bytes) - 1);
			assert_true(cut == word || !canary_is_intact(base, cut));
		}
	}
}

static void pad_byte_neither_zero_nor_text(void **state)
{
	bool seen[256] = {false};
	unsigned different = 0;

	for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) {
		uint64_t random = seed;
		secret(&random);
		assert_true(hak_pad_byte >= 0x80);
		different += !seen[hak_pad_byte];
		seen[hak_pad_byte] = true;
	}
	assert_true(different > 16);
}

/* Pads end at a word. */
static size_t covered(uintptr_t off, size_t length)
{
	size_t most = PAD_MOST - off % sizeof(uint64_t);

	return length < most ? length : most;
}

static void pad_any_place_fills_that_alone(void **state)
{
	unsigned char *bytes = (unsigned char *)memory;

	for (unsigned off = 8; off < 24; off++)
		for (unsigned end = (off + 7) / 8 * 8; end <= ROOM - 8; end += 8) {
			size_t filled = covered(off, end - off);
			memset(memory, 0x11, sizeof memory);
			pad_fill(base + off, end - off);
			assert_true(bytes_are(bytes, off, 0x11));
			assert_true(bytes_are(bytes + off, filled, hak_pad_byte));
			assert_true(bytes_are(bytes + off + filled, ROOM - off - filled, 0x11));
			assert_true(filled == end - off || filled > PAD_MOST - 8);
			assert_true(pad_holds(base + off, end - off));
		}
}

static void pad_written_to_at_any_byte_seen(void **state)
{
	unsigned char *bytes = (unsigned char *)memory;

	for (unsigned off = 8; off < 16; off++)
		for (unsigned end = 16; end <= 128; end += 8) {
			memset(memory, 0, sizeof memory);
			pad_fill(base + off, end - off);
			for (unsigned i = 0; i < ROOM; i++) {
				bool inside = i >= off && i < off + covered(off, end - off);
				bytes[i] ^= 0x40;
				assert_int_equal(pad_holds(base + off, end - off), !inside);
				bytes[i] ^= 0x40;
			}
		}
}

static void pad_of_nothing_holds(void **state)
{
	memset(memory, 0x11, sizeof memory);
	for (unsigned off = 0; off < 64; off += 8) {
		pad_fill(base + off, 0);
		assert_true(pad_holds(base + off, 0));
	}
	assert_true(bytes_are(memory, sizeof memory, 0x11));
}

static void memory_any_length_cleared_and_looked_at(void **state)
{
	enum { MOST = 1200 };
	static unsigned char room[MOST + 16] HAK_CACHE_ALIGNED;

	for (size_t length = 0; length <= MOST; length += 8) {
		memset(room, 0x22, sizeof room);
		assert_int_equal(memory_is_zero((uintptr_t)room + 8, length), length == 0);
		memory_clear((uintptr_t)room + 8, length);
		assert_true(memory_is_zero((uintptr_t)room + 8, length));
		assert_true(bytes_are(room, 8, 0x22) && bytes_are(room + 8, length, 0));
		assert_true(bytes_are(room + 8 + length, sizeof room - 8 - length, 0x22));
		for (size_t i = 0; i < length; i += 1 + length / 40) {
			room[8 + i] = 1;
			assert_false(memory_is_zero((uintptr_t)room + 8, length));
			room[8 + i] = 0;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(word_any_kind_and_slack_says_both),
		cmocka_unit_test(word_with_any_bit_flipped_broken),
		cmocka_unit_test(word_of_other_block_or_secret_broken),
		cmocka_unit_test(word_of_common_bytes_broken),
		cmocka_unit_test(word_overwritten_from_its_front_broken),
		cmocka_unit_test(pad_byte_neither_zero_nor_text),
		cmocka_unit_test(pad_any_place_fills_that_alone),
		cmocka_unit_test(pad_written_to_at_any_byte_seen),
		cmocka_unit_test(pad_of_nothing_holds),
		cmocka_unit_test(memory_any_length_cleared_and_looked_at),
	};

	return UNIT_RUN(tests);
}
