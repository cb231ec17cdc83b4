/* SPDX-License-Identifier: MIT */
/* A C++ program with libhakmem.a inside and plain operators of its own, by which the library's other forms go.
   Its output is TAP by hand. */
#include <cstdio>
#include <cstdlib>
#include <new>

#include <hakmem.h>

#ifndef __clang__ /* it has no such warning */
#pragma GCC diagnostic ignored "-Wsized-deallocation" /* not defining that is what is tried */
#endif

namespace {

int made, freed;

/* Constructed before all objects but the implementation's. */
struct early {
	int made_for_it;
	early()
	{
		int before = made;
		char *volatile array = new char[100]; /* or a compiler may leave both out */
		delete[] array;
		made_for_it = made - before;
	}
};
__attribute__((init_priority(101))) early first;

bool forms_go_by_ours_from_the_first()
{
	return first.made_for_it == 1;
}

bool forms_go_by_ours()
{
	char *array = new char[100], *quiet = new (std::nothrow) char;

	made -= 2;
	::operator delete[](array, std::size_t{100});
	::operator delete(quiet, std::nothrow);
	freed -= 2;
	return made == 0 && freed == 0;
}

bool aligned_form_is_the_librarys()
{
	void *block = ::operator new(2000, std::align_val_t{64});
	bool ours = hak_owns(block) && reinterpret_cast<std::size_t>(block) % 64 == 0;

	::operator delete(block, std::align_val_t{64});
	return ours && made == 0 && freed == 0;
}

} // namespace

void *operator new(std::size_t size)
{
	made++;
	return std::malloc(size);
}

void operator delete(void *block) noexcept
{
	freed++;
	std::free(block);
}

int main()
{
	std::printf("1..3\n");
	made = freed = 0;
	std::printf("%sok 1 - forms_go_by_ours\n", forms_go_by_ours() ? "" : "not ");
	std::printf("%sok 2 - aligned_form_is_the_librarys\n", aligned_form_is_the_librarys() ? "" : "not ");
	std::printf("%sok 3 - forms_go_by_ours_from_the_first\n", forms_go_by_ours_from_the_first() ? "" : "not ");
}
