/* SPDX-License-Identifier: MIT */
/*
 * A program with some operators of its own, as the standard allows: the others go by them. Built twice: with
 * its own plain new and delete (and those with an alignment), or with its own new[] and delete[].
 */
#include "new_common.hpp"

#include <cstdlib>
#include <cstring>

#ifdef REPLACE_ARRAYS
#define OP []
#else
#define OP
#endif

namespace {

/* In front of each block: one that the library frees itself is no block of its own. */
const std::size_t FRONT = 64;

int made, freed;
bool refuses;

void *make(std::size_t size, std::size_t align)
{
	std::size_t front = align > FRONT ? align : FRONT;
	void *block;

	if (refuses || posix_memalign(&block, front, front + size) != 0)
		throw std::bad_alloc();
	made++;
	return static_cast<char *>(block) + front;
}

void drop(void *block, std::size_t align)
{
	freed += block != nullptr;
	if (block)
		std::free(static_cast<char *>(block) - (align > FRONT ? align : FRONT));
}

} // namespace

void *operator new OP(std::size_t size) { return make(size, 0); }
void *operator new OP(std::size_t size, std::align_val_t align) { return make(size, static_cast<std::size_t>(align)); }
void operator delete OP(void *block) noexcept { drop(block, 0); }
void operator delete OP(void *block, std::align_val_t align) noexcept { drop(block, static_cast<std::size_t>(align)); }

namespace {

bool goes_by_ours(const Form &form)
{
#ifdef REPLACE_ARRAYS
	return std::strstr(form.name, "[]") != nullptr;
#else
	return true;
#endif
}

void any_form_goes_by_the_programs_own(void **)
{
	for (std::size_t f = 0; f < forms_count; f++)
		for (auto release : forms[f].release) {
			made = freed = 0;
			void *block = forms[f].allocate(hidden(1000));
			assert_non_null(block);
			std::memset(block, 1, 1000);
			if (made != goes_by_ours(forms[f]))
				fail_msg("%s: the program's own was called %d times", forms[f].name, made);
			release(block, 1000);
			if (freed != made)
				fail_msg("%s: delete called the program's own %d times", forms[f].name, freed);
			release(nullptr, 1000);
			assert_int_equal(freed, made);
		}
}

/* Over and over: a catch that forgot something would not go on for long. */
void form_without_throw_catches_what_the_programs_own_throws(void **)
{
	refuses = true;
	for (int i = 0; i < 100; i++)
		for (std::size_t f = 0; f < forms_count; f++) {
			if (!goes_by_ours(forms[f]))
				continue;
			bool thrown = false;
			void *block = &thrown;
			try {
				block = forms[f].allocate(hidden(100));
			} catch (const std::bad_alloc &) {
				thrown = true;
			}
			assert_int_equal(thrown, !forms[f].is_nothrow);
			assert_true(thrown || block == nullptr);
		}
	refuses = false;
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(any_form_goes_by_the_programs_own),
		cmocka_unit_test(form_without_throw_catches_what_the_programs_own_throws),
	};

	return RUN_TESTS(tests);
}
