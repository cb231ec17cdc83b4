/* SPDX-License-Identifier: MIT */
/* A C++ program with libhakmem.a inside, once dynamic and once static. Its output is TAP by hand. */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include <hakmem.h>

namespace {

volatile std::size_t impossible = static_cast<std::size_t>(1) << 57;

bool new_block_ours()
{
	std::vector<char> block(2000);
	std::string text(2000, 'x');

	return hak_owns(block.data()) && hak_owns(text.data());
}

/* Nothing here calls malloc by name; this is how it is called. */
bool libc_served()
{
	char *copy = strdup(std::string(2000, 'x').c_str());
	bool owned = hak_owns(copy);

	hak_free(copy);
	return owned;
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
	std::printf("1..4\n");
	std::printf("%sok 1 - new_block_ours\n", new_block_ours() ? "" : "not ");
	std::printf("%sok 2 - impossible_size_bad_alloc\n", impossible_size_bad_alloc() ? "" : "not ");
	std::printf("%sok 3 - handler_called\n", handler_called() ? "" : "not ");
	std::printf("%sok 4 - libc_served\n", libc_served() ? "" : "not ");
}
