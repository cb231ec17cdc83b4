/* SPDX-License-Identifier: MIT */
#include "common.h"
#include "../resident.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define AROUND(n) (n) - 1, (n), (n) + 1

const size_t sizes[] = {
	1, 2, 7, 8, 9, AROUND(16), 24, AROUND(32), AROUND(48), AROUND(64), 100, AROUND(128),
	AROUND(256), 500, AROUND(512), AROUND(1 * KIB), 1500, AROUND(2 * KIB), AROUND(4 * KIB),
	AROUND(8 * KIB), 12345, AROUND(16 * KIB), AROUND(32 * KIB), AROUND(64 * KIB), 100000,
	AROUND(128 * KIB), AROUND(256 * KIB), AROUND(512 * KIB), 777777, AROUND(1 * MIB),
	AROUND(2 * MIB), AROUND(4 * MIB), AROUND(16 * MIB), AROUND(32 * MIB), 64 * MIB,
};
const size_t sizes_count = sizeof(sizes) / sizeof(sizes[0]);

#define TOP ((size_t)PTRDIFF_MAX)

/* The distances below SIZE_MAX are those at which rounding up, or adding a header, wraps. */
const size_t huge_sizes[] = {
	(size_t)1 << 48, (size_t)1 << 57, (size_t)1 << 62, TOP - 2 * MIB, TOP - 64 * KIB, TOP - 4096,
	TOP - 15, TOP - 1, TOP, TOP + 1, TOP + 2, SIZE_MAX - 1 * GIB, SIZE_MAX - 2 * MIB,
	SIZE_MAX - 64 * KIB, SIZE_MAX - 4096, SIZE_MAX - 4095, SIZE_MAX - 64, SIZE_MAX - 16,
	SIZE_MAX - 15, SIZE_MAX - 8, SIZE_MAX - 1, SIZE_MAX,
};
const size_t huge_sizes_count = sizeof(huge_sizes) / sizeof(huge_sizes[0]);

bool on_hakmem(void)
{
	const char *expect = getenv("HAKMEM_EXPECT");

	return expect && strcmp(expect, "1") == 0;
}

bool has_stats(void)
{
	return HAK_STATS || !on_hakmem();
}

bool is_unwrapped(size_t size)
{
	return !HAK_TINY_WRAP && size <= 1 * KIB;
}

size_t hidden(size_t value)
{
	volatile size_t copy = value;

	return copy;
}

void stain(void *block, size_t size)
{
	memset(block, STAIN, size);
}

static uint64_t pattern_word(size_t index, unsigned seed)
{
	return (index + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u + 0x5a5a5a5a;
}

void fill(void *block, size_t size, unsigned seed)
{
	unsigned char *bytes = block;
	size_t words = size / 8;

	for (size_t i = 0; i < words; i++) {
		uint64_t word = pattern_word(i, seed);
		memcpy(bytes + i * 8, &word, 8);
	}
	if (size % 8) {
		uint64_t word = pattern_word(words, seed);
		memcpy(bytes + words * 8, &word, size % 8);
	}
}

bool is_filled(const void *block, size_t size, unsigned seed)
{
	const unsigned char *bytes = block;
	size_t words = size / 8;
	uint64_t differ = 0;

	for (size_t i = 0; i < words; i++) {
		uint64_t word;
		memcpy(&word, bytes + i * 8, 8);
		differ |= word ^ pattern_word(i, seed);
	}
	if (size % 8) {
		uint64_t word = pattern_word(words, seed);
		differ |= memcmp(bytes + words * 8, &word, size % 8) != 0;
	}
	return differ == 0;
}

bool is_zero(const void *block, size_t size)
{
	const unsigned char *bytes = block;

	return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

bool is_aligned(const void *block, size_t alignment)
{
	return (uintptr_t)block % alignment == 0;
}

void *find_function(const char *name)
{
	void *function = dlsym(RTLD_DEFAULT, name);

	if (!function && on_hakmem())
		fail_msg("%s is missing", name);
	if (!function)
		skip();
	return function;
}

/* The number there is of pages. */
static size_t bytes_in_statm(int field)
{
	unsigned long pages = 0;
	FILE *statm = fopen("/proc/self/statm", "re");

	assert_non_null(statm);
	for (int i = 1; i <= field; i++)
		assert_int_equal(fscanf(statm, "%lu", &pages), 1);
	fclose(statm);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

size_t mapped_bytes(void)
{
	return bytes_in_statm(1);
}

size_t data_bytes(void)
{
	return bytes_in_statm(6);
}

size_t resident_bytes(void)
{
	long kib = resident_kib();

	assert_true(kib >= 0);
	return (size_t)kib * KIB;
}

uint64_t random_next(uint64_t *statep)
{
	uint64_t x = *statep;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *statep = x;
}

int check_allocator(void)
{
	Dl_info info;
	void *function = dlsym(RTLD_DEFAULT, "malloc");
	const char *object = dladdr(function, &info) ? info.dli_fname : "?";
	bool ours = strstr(object, "libhakmem") != NULL;

	if (ours == on_hakmem())
		return 0;
	fprintf(stderr, "malloc is served by %s\n", object);
	return 1;
}

bool has_guards(void)
{
	const char *level = getenv("HAKMEM_SECURE");

	return level && strcmp(level, "3") == 0;
}

bool is_mappable(size_t size, int protection)
{
	void *p = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return false;
	munmap(p, size);
	return true;
}
