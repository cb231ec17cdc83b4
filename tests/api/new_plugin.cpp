/* SPDX-License-Identifier: MIT */
/* A C++ library for a C program to load: see new_plugin_host.c. */
#include "new_plugin.h"

#include <new>

namespace {

int calls;

void give_up()
{
	calls++;
	std::set_new_handler(nullptr);
}

} // namespace

int plugin_throws_bad_alloc(size_t size)
{
	try {
		::operator delete(::operator new(size));
		return 0;
	} catch (const std::bad_alloc &) {
		return 1;
	}
}

int plugin_aligned_array_throws_bad_alloc(size_t size)
{
	try {
		::operator delete[](::operator new[](size, std::align_val_t{4096}), std::align_val_t{4096});
		return 0;
	} catch (const std::bad_alloc &) {
		return 1;
	}
}

int plugin_nothrow_gives_null(size_t size)
{
	void *block = ::operator new(size, std::nothrow);

	::operator delete(block, std::nothrow);
	return !block;
}

int plugin_handler_calls(size_t size)
{
	calls = 0;
	std::set_new_handler(give_up);
	plugin_throws_bad_alloc(size);
	std::set_new_handler(nullptr);
	return calls;
}

void (*plugin_operator_delete())(void *)
{
	return ::operator delete;
}

void *plugin_new(size_t size)
{
	return ::operator new(size);
}

void plugin_delete(void *block)
{
	::operator delete(block);
}
