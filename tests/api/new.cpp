/* SPDX-License-Identifier: MIT */
/* Every form of operator new and delete when there is memory; new_fail.cpp has the other side. */
#include "new_common.hpp"

#include <dlfcn.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <hakmem.h>

namespace {

void any_form_any_size_aligned_and_writable(void **)
{
	for (std::size_t f = 0; f < forms_count; f++)
		for (std::size_t i = 0; i < sizes_count; i++) {
			void *block = forms[f].allocate(sizes[i]);
			assert_non_null(block);
			assert_true(is_aligned(block, 16));
			assert_true(forms[f].alignment == 0 || is_aligned(block, forms[f].alignment));
			assert_true(malloc_usable_size(block) >= sizes[i]);
			if (sizes[i] <= 1 * MIB)
				fill(block, sizes[i], 1);
			static_cast<char *>(block)[sizes[i] - 1] = 1;
			forms[f].release[i % 3](block, sizes[i]);
		}
}

void any_form_live_blocks_disjoint(void **)
{
	void *blocks[200];

	for (std::size_t f = 0; f < forms_count; f++) {
		for (unsigned i = 0; i < 200; i++) {
			blocks[i] = forms[f].allocate(i * 13);
			assert_non_null(blocks[i]);
			fill(blocks[i], i * 13, i);
		}
		for (unsigned i = 0; i < 200; i++) {
			assert_true(is_filled(blocks[i], i * 13, i));
			forms[f].release[i % 3](blocks[i], i * 13);
		}
	}
}

/* What a bin has room for stays there, by whatever form it comes. First of all: once many blocks have been freed,
   every free is out of line for a while. (A quarantine hands on what has left it, many at once.) */
void any_form_small_block_no_bin_runs_over(void **)
{
	enum { SIZE = 100, LIVE = 300, PAIRS = 100 };
	const char *secure = std::getenv("HAKMEM_SECURE");
	if (!on_hakmem() || (secure != nullptr && std::atoi(secure) > 1))
		skip();
	auto get = reinterpret_cast<decltype(&hak_stats_get)>(find_function("hak_stats_get"));
	hak_stats before, after;
	void *live[LIVE]; /* more than the first blocks of a process, which are in no bin */

	for (void *&block : live)
		block = forms[0].allocate(SIZE);
	for (std::size_t f = 0; f < forms_count; f++)
		for (auto release : forms[f].release) {
			assert_int_equal(get(&before, sizeof before), 0);
			for (unsigned i = 0; i < PAIRS; i++)
				release(forms[f].allocate(SIZE), SIZE);
			assert_int_equal(get(&after, sizeof after), 0);
			assert_int_equal(after.full_bins, before.full_bins);
		}
	for (void *block : live)
		forms[0].release[0](block, SIZE);
}

void any_form_zero_size_distinct_blocks(void **)
{
	for (std::size_t f = 0; f < forms_count; f++) {
		void *a = forms[f].allocate(0), *b = forms[f].allocate(0);
		assert_non_null(a);
		assert_non_null(b);
		assert_ptr_not_equal(a, b);
		forms[f].release[0](a, 0);
		forms[f].release[1](b, 0);
	}
}

void delete_null_does_nothing(void **)
{
	for (std::size_t f = 0; f < forms_count; f++)
		for (auto release : forms[f].release)
			release(nullptr, 0);
}

void delete_any_form_errno_kept(void **)
{
	for (std::size_t f = 0; f < forms_count; f++)
		for (std::size_t i = 0; i < sizes_count; i += 3)
			for (auto release : forms[f].release) {
				void *block = forms[f].allocate(sizes[i]);
				errno = ODD_ERRNO;
				release(block, sizes[i]);
				assert_int_equal(errno, ODD_ERRNO);
			}
}

struct alignas(256) Overaligned {
	char bytes[300];
};

void new_of_overaligned_type_aligned(void **)
{
	std::vector<std::unique_ptr<Overaligned>> singles;
	std::vector<std::unique_ptr<Overaligned[]>> arrays;

	for (int i = 0; i < 100; i++) {
		singles.push_back(std::make_unique<Overaligned>());
		arrays.push_back(std::make_unique<Overaligned[]>(5));
		assert_true(is_aligned(singles.back().get(), 256));
		assert_true(is_aligned(arrays.back().get(), 256));
	}
}

/* Throws from the `countdown`-th constructor: new must hand the memory back through delete. */
struct Thrower {
	static int countdown;
	char room[1000]; /* of the array, whose memory new gives back; the string is the destructor's */
	std::string text;

	Thrower() : text(1000, 'x')
	{
		if (--countdown == 0)
			throw 42;
	}
};

int Thrower::countdown;

void new_constructor_throws_memory_given_back(void **)
{
	std::size_t before = mapped_bytes();

	for (int i = 0; i < 20000; i++) {
		Thrower::countdown = 1 + i % 20;
		try {
			delete[] new Thrower[20];
			fail();
		} catch (int value) {
			assert_int_equal(value, 42);
		}
	}
	assert_true(mapped_bytes() < before + 64 * MIB); /* 400 MB if arrays leaked, 200 if strings did */
}

void standard_containers_contents_kept(void **)
{
	std::map<std::string, std::vector<int>> map;

	for (int i = 0; i < 3000; i++)
		for (int j = 0; j < 10; j++)
			map["a key long enough to be allocated " + std::to_string(i)].push_back(i + j);
	assert_int_equal(map.size(), 3000);
	for (int i = 0; i < 3000; i++)
		assert_int_equal(map["a key long enough to be allocated " + std::to_string(i)][9], i + 9);
}

/* Each row: one form for objects, the same for arrays. */
const char *const pairs[][2] = {
	{"_Znwm", "_Znam"},
	{"_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t"},
	{"_ZnwmSt11align_val_t", "_ZnamSt11align_val_t"},
	{"_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t"},
	{"_ZdlPv", "_ZdaPv"},
	{"_ZdlPvm", "_ZdaPvm"},
	{"_ZdlPvRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t"},
	{"_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t"},
	{"_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t"},
	{"_ZdlPvSt11align_val_tRKSt9nothrow_t", "_ZdaPvSt11align_val_tRKSt9nothrow_t"},
};

/* Tools that pair new with delete tell the forms apart by address. */
void plain_and_array_form_different_addresses(void **)
{
	for (auto &pair : pairs) {
		void *plain = find_function(pair[0]), *array = find_function(pair[1]);
		assert_ptr_not_equal(plain, array);
	}
}

void any_form_served_by_the_library_of_malloc(void **)
{
	if (!on_hakmem())
		skip();
	for (auto &pair : pairs)
		for (const char *name : pair) {
			Dl_info info;
			assert_int_not_equal(dladdr(find_function(name), &info), 0);
#ifdef __PIC__
			assert_non_null(std::strstr(info.dli_fname, "libhakmem"));
#endif
		}
}

/* In code: then a program that is not position-independent has addresses of its own for them. They are no
   operators of its own that new[] and delete[] would go by: of those only one would be. */
void operator_whose_address_is_taken_is_the_same(void **)
{
	const std::align_val_t line{64};
	void (*volatile dropped)(void *) = ::operator delete;
	void (*volatile aligned_dropped)(void *, std::align_val_t) = ::operator delete;

	for (std::size_t size : {std::size_t(10), std::size_t(100000)}) {
		dropped(::operator new(hidden(size)));
		::operator delete[](::operator new[](hidden(size)));
		aligned_dropped(::operator new(hidden(size), line), line);
		::operator delete[](::operator new[](hidden(size), line), line);
	}
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(any_form_small_block_no_bin_runs_over),
		cmocka_unit_test(operator_whose_address_is_taken_is_the_same),
		cmocka_unit_test(any_form_any_size_aligned_and_writable),
		cmocka_unit_test(any_form_live_blocks_disjoint),
		cmocka_unit_test(any_form_zero_size_distinct_blocks),
		cmocka_unit_test(delete_null_does_nothing),
		cmocka_unit_test(delete_any_form_errno_kept),
		cmocka_unit_test(new_of_overaligned_type_aligned),
		cmocka_unit_test(new_constructor_throws_memory_given_back),
		cmocka_unit_test(standard_containers_contents_kept),
		cmocka_unit_test(plain_and_array_form_different_addresses),
		cmocka_unit_test(any_form_served_by_the_library_of_malloc),
	};

	return RUN_TESTS(tests);
}
