/* SPDX-License-Identifier: MIT */
/*
 * A program with an operator new of its own, by malloc, and no delete, which goes by free in most C++ run times: such
 * programs are not what the standard wants, and run.
 */
#include "new_common.hpp"

#include <cstdlib>

void *operator new(std::size_t size)
{
	void *block = std::malloc(size);

	if (!block)
		throw std::bad_alloc();
	return block;
}

namespace {

const std::size_t block_sizes[] = {1, 24, 700, 12 << 10, 100 << 10, 1 << 20};

void object_deleted(void **state)
{
	for (std::size_t size : block_sizes) {
		void *block = ::operator new(size);
		fill(block, size, 1);
		::operator delete(block);
	}
}

void array_deleted(void **state)
{
	for (std::size_t size : block_sizes) {
		auto *block = new unsigned char[size];
		fill(block, size, 1);
		delete[] block;
	}
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(object_deleted),
		cmocka_unit_test(array_deleted),
	};

	return RUN_TESTS(tests);
}
