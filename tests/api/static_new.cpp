/* SPDX-License-Identifier: MIT */
/*
 * A C++ program with libhakmem.a inside, once dynamic and once static. Its output is TAP by hand. It uses no container:
 * those would bring along what throws.
 */
#include <cstdint>
#include <cstdio>
#include <new>

#include <hakmem.h>

namespace {

volatile std::size_t impossible = static_cast<std::size_t>(1) << 57;

bool new_block_ours()
{
	char *block = new char[2000];
	bool ours = hak_owns(block);

	delete[] block;
	return ours;
}

bool impossible_size_bad_alloc()
{
	int thrown = 0;

	try {
		::operator delete(::operator new(impossible));
	} catch (const std::bad_alloc &) {
		thrown++;
	}
	try {
		::operator delete[](::operator new[](impossible, std::align_val_t{64}), std::align_val_t{64});
	} catch (const std::bad_alloc &) {
		thrown++;
	}
	return thrown == 2 && !::operator new(impossible, std::nothrow);
}

int calls;

void give_up()
{
	if (++calls == 3)
		std::set_new_handler(nullptr);
}

bool handler_called()
{
	std::set_new_handler(give_up);
	return impossible_size_bad_alloc() && calls == 3;
}

} // namespace

int main()
{
	std::printf("1..3\n");
	std::printf("%sok 1 - new_block_ours\n", new_block_ours() ? "" : "not ");
	std::printf("%sok 2 - impossible_size_bad_alloc\n", impossible_size_bad_alloc() ? "" : "not ");
	std::printf("%sok 3 - handler_called\n", handler_called() ? "" : "not ");
}
