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

void pad_fill(uintptr_t at, size_t length) {
	memset((void *)at, hak_pad_byte, min_size(length, PAD_MOST));
}

bool pad_holds(uintptr_t at, size_t length) {
	const unsigned char *p = (const unsigned char *)at;
	for (size_t i = 0; i < length && i < PAD_MOST; i++)
		if (p[i] != hak_pad_byte)
			return false;
	return true;
}

bool memory_is_zero(uintptr_t at, size_t length) {
	const unsigned char *p = (const unsigned char *)at;
	for (; length >= 64; p += 64, length -= 64) {
		uint64_t w[8];
		memcpy(w, p, sizeof w);
		if ((w[0] | w[1] | w[2] | w[3] | w[4] | w[5] | w[6] | w[7]) != 0)
			return false;
	}
	for (size_t i = 0; i < length; i++)
		if (p[i] != 0)
			return false;
	return true;
}
