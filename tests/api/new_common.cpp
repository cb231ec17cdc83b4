/* SPDX-License-Identifier: MIT */
#include "new_common.hpp"

using std::align_val_t;
using std::nothrow;
using std::size_t;

namespace {

constexpr align_val_t LINE{64}, HUGE_PAGE{2 << 20};

void *plain(size_t size) { return ::operator new(size); }
void *array(size_t size) { return ::operator new[](size); }
void *plain_nothrow(size_t size) { return ::operator new(size, nothrow); }
void *array_nothrow(size_t size) { return ::operator new[](size, nothrow); }

template <align_val_t A> void *plain_aligned(size_t size) { return ::operator new(size, A); }
template <align_val_t A> void *array_aligned(size_t size) { return ::operator new[](size, A); }
template <align_val_t A> void *plain_aligned_nothrow(size_t size)
{
	return ::operator new(size, A, nothrow);
}
template <align_val_t A> void *array_aligned_nothrow(size_t size)
{
	return ::operator new[](size, A, nothrow);
}

void drop(void *block, size_t) { ::operator delete(block); }
void drop_sized(void *block, size_t size) { ::operator delete(block, size); }
void drop_nothrow(void *block, size_t) { ::operator delete(block, nothrow); }
void drop_array(void *block, size_t) { ::operator delete[](block); }
void drop_array_sized(void *block, size_t size) { ::operator delete[](block, size); }
void drop_array_nothrow(void *block, size_t) { ::operator delete[](block, nothrow); }

template <align_val_t A> void drop_aligned(void *block, size_t) { ::operator delete(block, A); }
template <align_val_t A> void drop_aligned_sized(void *block, size_t size)
{
	::operator delete(block, size, A);
}
template <align_val_t A> void drop_aligned_nothrow(void *block, size_t)
{
	::operator delete(block, A, nothrow);
}
template <align_val_t A> void drop_array_aligned(void *block, size_t)
{
	::operator delete[](block, A);
}
template <align_val_t A> void drop_array_aligned_sized(void *block, size_t size)
{
	::operator delete[](block, size, A);
}
template <align_val_t A> void drop_array_aligned_nothrow(void *block, size_t)
{
	::operator delete[](block, A, nothrow);
}

#define PLAIN_DROPS {drop, drop_sized, drop_nothrow}
#define ARRAY_DROPS {drop_array, drop_array_sized, drop_array_nothrow}
#define ALIGNED_DROPS(A) {drop_aligned<A>, drop_aligned_sized<A>, drop_aligned_nothrow<A>}
#define ARRAY_ALIGNED_DROPS(A) \
	{drop_array_aligned<A>, drop_array_aligned_sized<A>, drop_array_aligned_nothrow<A>}

} // namespace

const Form forms[] = {
	{"new", plain, 0, PLAIN_DROPS, false},
	{"new[]", array, 0, ARRAY_DROPS, false},
	{"new nothrow", plain_nothrow, 0, PLAIN_DROPS, true},
	{"new[] nothrow", array_nothrow, 0, ARRAY_DROPS, true},
	{"new 64", plain_aligned<LINE>, 64, ALIGNED_DROPS(LINE), false},
	{"new[] 64", array_aligned<LINE>, 64, ARRAY_ALIGNED_DROPS(LINE), false},
	{"new 64 nothrow", plain_aligned_nothrow<LINE>, 64, ALIGNED_DROPS(LINE), true},
	{"new[] 64 nothrow", array_aligned_nothrow<LINE>, 64, ARRAY_ALIGNED_DROPS(LINE), true},
	{"new 2M", plain_aligned<HUGE_PAGE>, 2 * MIB, ALIGNED_DROPS(HUGE_PAGE), false},
	{"new[] 2M", array_aligned<HUGE_PAGE>, 2 * MIB, ARRAY_ALIGNED_DROPS(HUGE_PAGE), false},
	{"new 2M nothrow", plain_aligned_nothrow<HUGE_PAGE>, 2 * MIB, ALIGNED_DROPS(HUGE_PAGE), true},
	{"new[] 2M nothrow", array_aligned_nothrow<HUGE_PAGE>, 2 * MIB, ARRAY_ALIGNED_DROPS(HUGE_PAGE), true},
};
const std::size_t forms_count = sizeof(forms) / sizeof(forms[0]);
