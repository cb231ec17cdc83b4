/* SPDX-License-Identifier: MIT */
/*
 * Size classes: pure arithmetic, no state.
 *
 *   class      sizes (bytes)                     step
 *   0          reserved: "no class"
 *   1..16      16 .. 256                         16
 *   17..24     288 .. 512                        32
 *   25..32     576 .. 1024                       64      Tiny: up to here
 *   33..40     1152 .. 2048                      128
 *   41..44     2560 .. 4096                      512
 *   45..49     4672 .. 8192                      1/14 .. 1/8 of a granule
 *                                                        Small: up to here
 *   50..54     9344 .. 21824                     1/7 .. 1/3 of a granule
 *   55..57     24576, 28672, 32768               4096
 *                                                        Mid: up to here
 *
 * Slabs are one granule, so above 4 KiB what counts is how many blocks fit one: these sizes are a
 * granule's k-th parts, rounded down to cache lines. That they are no multiples of a page spreads the
 * blocks over the sets of the caches.
 *
 * Of the last three, two fit one. If all were 32 KiB, every block would begin on a page whose number is a
 * multiple of 8, and few sets of the processor's address translation would serve them: a random one among a
 * thousand blocks of 8 to 32 KiB took 40 ns to replace, not 30 (Zen 4).
 *
 * At most 1/8 of a block above 128 bytes is waste up to 2 KiB, little over 1/5 up to 16 KiB. Above, it can be a
 * quarter; but that is address space: pages behind what the program uses are not touched.
 *
 * Class 0 is reserved so that zeroed thread-local memory is inert: tag 0 leads to bin 0, whose magic 0
 * refuses every block.
 *
 * A class's *code* is the byte offset of its bin in an array of 16-byte bins: what tags and the
 * lookup table hold, so the fast paths need no multiplication.
 */
#ifndef HAK_SLAB_SIZE_CLASS_H
#define HAK_SLAB_SIZE_CLASS_H

#include "base/bits.h"
#include "base/compiler.h"

enum {
	SC_COUNT = 58,
	SC_CODE_SHIFT = 4,
	SC_CODE_END = SC_COUNT << SC_CODE_SHIFT,
	SC_TINY_MAX = 1024,
	SC_SMALL_MAX = 8192,
	SC_MAX_SIZE = 32768, /* larger requests are large blocks */
	SC_QUANTUM_SHIFT = 4,
};

/* What one class is made of. */
struct size_class {
	uint32_t size;     /* block, bytes */
	uint32_t magic;    /* ceil(2^32 / size); front/tcache.h */
	uint64_t inverse;  /* ceil(2^SC_INVERSE_SHIFT / size), see sc_index */
	uint16_t capacity; /* blocks in a slab */
};
extern HAK_HIDDEN const struct size_class hak_size_classes[SC_COUNT];

/* Bands of sizes: C1 up to 16 bytes, C2 up to 32, ... C7 up to 1024; [8]: above. */
enum { SC_BANDS = 9 };
HAK_INLINE unsigned sc_band(unsigned sc) {
	size_t size = hak_size_classes[sc].size;
	return size > SC_TINY_MAX ? SC_BANDS - 1 : ilog2(size - 1) - 2;
}

/* Does a block of the class with that `magic` begin at `addr` in a slab that has any there? See front/tcache.h. */
HAK_INLINE bool sc_divides(uint32_t magic, uintptr_t addr) {
	return (uint32_t)((uint16_t)addr * magic) < magic;
}

/* offset / size without a division. Exact: with inverse = (2^44 + e) / size, e < size, the error is
   offset * e / 2^44 / size < 1 / size, since offset < 2^16 and e < 2^15. */
#define SC_INVERSE_SHIFT 44
HAK_INLINE uint32_t sc_index(unsigned sc, uintptr_t offset) {
	return (uint32_t)(offset * hak_size_classes[sc].inverse >> SC_INVERSE_SHIFT);
}

/* Code of the smallest class that holds a request, by (size + 15) / 16; and behind it, because malloc then knows where
   that is, what a bin without an array has for its top entry (front/tcache.h): the address of a word that is no mark,
   nor what stands for the mark before there is one, 0. */
struct class_codes {
	uint16_t of[(SC_MAX_SIZE >> SC_QUANTUM_SHIFT) + 1];
	const uintptr_t *no_mark;
};
extern HAK_HIDDEN const struct class_codes hak_class_codes;

/* `size` <= SC_MAX_SIZE; `codes` is hak_class_codes. */
HAK_INLINE unsigned sc_code_by(const struct class_codes *codes, size_t size) {
	return codes->of[(size + (1u << SC_QUANTUM_SHIFT) - 1) >> SC_QUANTUM_SHIFT];
}
HAK_INLINE unsigned sc_code(size_t size) {
	return sc_code_by(&hak_class_codes, size);
}

HAK_INLINE unsigned sc_of(size_t size) {
	return sc_code(size) >> SC_CODE_SHIFT;
}

/* The smallest class whose blocks hold `size` bytes and are all multiples of `align`, a power of
   two; 0 if there is none. Slabs are granule-aligned, so it is enough that the
   block size is a multiple. */
unsigned sc_of_aligned(size_t size, size_t align);

#endif
