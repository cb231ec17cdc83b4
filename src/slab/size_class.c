/* SPDX-License-Identifier: MIT */
#include "slab/size_class.h"

#include "base/bits.h"
#include "space/pagemap.h"

/* X(class, size of the class below, size) */
#define CLASS_LIST(X) \
	X(1, -16, 16) X(2, 16, 32) X(3, 32, 48) X(4, 48, 64) X(5, 64, 80) X(6, 80, 96) \
	X(7, 96, 112) X(8, 112, 128) X(9, 128, 144) X(10, 144, 160) X(11, 160, 176) \
	X(12, 176, 192) X(13, 192, 208) X(14, 208, 224) X(15, 224, 240) X(16, 240, 256) \
	X(17, 256, 288) X(18, 288, 320) X(19, 320, 352) X(20, 352, 384) X(21, 384, 416) \
	X(22, 416, 448) X(23, 448, 480) X(24, 480, 512) X(25, 512, 576) X(26, 576, 640) \
	X(27, 640, 704) X(28, 704, 768) X(29, 768, 832) X(30, 832, 896) X(31, 896, 960) \
	X(32, 960, 1024) X(33, 1024, 1152) X(34, 1152, 1280) X(35, 1280, 1408) X(36, 1408, 1536) \
	X(37, 1536, 1664) X(38, 1664, 1792) X(39, 1792, 1920) X(40, 1920, 2048) \
	X(41, 2048, 2560) X(42, 2560, 3072) X(43, 3072, 3584) X(44, 3584, 4096) \
	X(45, 4096, 4672) X(46, 4672, 5440) X(47, 5440, 6528) X(48, 6528, 7232) X(49, 7232, 8192) \
	X(50, 8192, 9344) X(51, 9344, 10880) X(52, 10880, 13056) X(53, 13056, 16384) \
	X(54, 16384, 21824) X(55, 21824, 24576) X(56, 24576, 28672) X(57, 28672, 32768)

#define CAPACITY(size) (GRANULE / (size))
#define MAGIC(size) (uint32_t)((((uint64_t)1 << 32) + (size) - 1) / (size))

#define INVERSE(size) ((((uint64_t)1 << SC_INVERSE_SHIFT) + (size) - 1) / (size))

#define ROW(class, below, bytes) \
	[class] = { .size = bytes, .magic = MAGIC(bytes), .inverse = INVERSE(bytes), \
	            .capacity = CAPACITY(bytes) },
HAK_EVERYDAY_CONST const struct size_class hak_size_classes[SC_COUNT] = { CLASS_LIST(ROW) };

#define CODES(class, below, bytes) [(below) / 16 + 1 ... (bytes) / 16] = (class) << SC_CODE_SHIFT,
HAK_EVERYDAY_CONST static const uintptr_t no_mark = 1;
HAK_FIRST_IN_RELRO const struct class_codes hak_class_codes = { .of = { CLASS_LIST(CODES) }, .no_mark = &no_mark };

unsigned sc_of_aligned(size_t size, size_t align) {
	if (max_size(size, align) > SC_MAX_SIZE)
		return 0;
	size = align_up(max_size(size, 1), align);
	for (unsigned sc = sc_of(size); sc < SC_COUNT; sc++)
		if ((hak_size_classes[sc].size & (align - 1)) == 0)
			return sc;
	return 0;
}
