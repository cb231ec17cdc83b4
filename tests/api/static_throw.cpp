/* SPDX-License-Identifier: MIT */
/*
 * A C++ program with libhakmem.a inside, once dynamic and once static, that uses no container: those would bring along
 * what operator new throws by. Its output is TAP by hand.
 */
#include <cstddef>
#include <cstdio>
#include <new>

volatile std::size_t impossible = static_cast<std::size_t>(1) << 57;

int main()
{
	bool thrown = false;

	try {
		::operator delete(::operator new(impossible));
	} catch (const std::bad_alloc &) {
		thrown = true;
	}
	std::printf("1..1\n%sok 1 - impossible_size_bad_alloc\n", thrown ? "" : "not ");
}
