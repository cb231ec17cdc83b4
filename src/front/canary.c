/* SPDX-License-Identifier: MIT */
#include "front/canary.h"

#include <string.h>

#include "base/bits.h"

uint64_t hak_canary_key;
unsigned char hak_pad_byte;

void canary_init(const uint64_t random[2]) {
	hak_canary_key = random[1] * 0xd6e8feb86659fd93 ^ (random[0] >> 23 | random[0] << 41);
	/* Neither 0, which is what an overflow by one mostly writes, nor ASCII. */
	hak_pad_byte = (unsigned char)(0x81 | (hak_canary_key >> 19 & 0x7e));
}

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the bytes before a pad are the low ones of its word");

/* Pads end at a word; of long ones the first PAD_MOST bytes count, by words. */
static uintptr_t pad_end(uintptr_t at, size_t length) {
	return min_size(at + length, align_down(at, sizeof(uint64_t)) + PAD_MOST);
}

static uint64_t pad_word(void) {
	return hak_pad_byte * (uint64_t)0x0101010101010101;
}

void pad_fill(uintptr_t at, size_t length) {
	uintptr_t end = pad_end(at, length);
	unsigned before = at % sizeof(uint64_t) * 8; /* bits of the first word that are the program's */
	uint64_t *word = (uint64_t *)align_down(at, sizeof(uint64_t));
	if (before != 0 && at < end) {
		*word = (*word & (((uint64_t)1 << before) - 1)) | pad_word() << before;
		word++;
	}
	while ((uintptr_t)word < end)
		*word++ = pad_word();
}

bool pad_holds(uintptr_t at, size_t length) {
	uintptr_t end = pad_end(at, length);
	unsigned before = at % sizeof(uint64_t) * 8;
	const uint64_t *word = (const uint64_t *)align_down(at, sizeof(uint64_t));
	uint64_t differs = 0;
	if (before != 0 && at < end)
		differs = *word++ >> before ^ pad_word() >> before;
	while ((uintptr_t)word < end)
		differs |= *word++ ^ pad_word();
	return differs == 0;
}

bool memory_is_zero(uintptr_t at, size_t length) {
	const uint64_t *word = (const uint64_t *)at, *end = (const uint64_t *)(at + length);
	for (; end - word >= 8; word += 8)
		if ((word[0] | word[1] | word[2] | word[3] | word[4] | word[5] | word[6] | word[7]) != 0)
			return false;
	uint64_t any = 0;
	while (word < end)
		any |= *word++;
	return any == 0;
}

void memory_clear(uintptr_t at, size_t length) {
	enum { INLINE_MOST = 512 }; /* bytes; above, a call pays */
	if (length > INLINE_MOST) {
		memset((void *)at, 0, length);
		return;
	}
	for (uint64_t *word = (uint64_t *)at; (uintptr_t)word < at + length; word++)
		*word = 0;
}
