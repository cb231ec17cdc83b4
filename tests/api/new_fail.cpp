/* SPDX-License-Identifier: MIT */
/* Every form of operator new when memory is lacking: bad_alloc, and the new-handler before it. */
#include "new_common.hpp"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>

namespace {

/* Too large for any address space, small enough not to be refused for its size alone. */
const std::size_t IMPOSSIBLE = static_cast<std::size_t>(1) << 57;

enum class Outcome { block, null, bad_alloc, other };

Outcome try_form(const Form &form, std::size_t size)
{
	try {
		void *block = form.allocate(hidden(size));
		if (!block)
			return Outcome::null;
		form.release[0](block, size);
		return Outcome::block;
	} catch (const std::bad_alloc &) {
		return Outcome::bad_alloc;
	} catch (...) {
		return Outcome::other;
	}
}

void expect_refusal(const Form &form, std::size_t size)
{
	Outcome outcome = try_form(form, size);

	if (outcome != (form.is_nothrow ? Outcome::null : Outcome::bad_alloc))
		fail_msg("%s of %#zx: outcome %d", form.name, size, static_cast<int>(outcome));
}

/* libstdc++ 12 gives a block where rounding the size up to the alignment wraps. */
bool libstdcxx_is_wrong(const Form &form, std::size_t size)
{
	return !on_hakmem() && form.alignment && size > SIZE_MAX - form.alignment;
}

void any_form_huge_size_bad_alloc_or_null(void **)
{
	for (std::size_t f = 0; f < forms_count; f++)
		for (std::size_t i = 0; i < huge_sizes_count; i++)
			if (!libstdcxx_is_wrong(forms[f], huge_sizes[i]))
				expect_refusal(forms[f], huge_sizes[i]);
}

void array_expression_huge_count_bad_alloc(void **)
{
	struct Large {
		char bytes[1000];
	};

	for (std::size_t i = 0; i < huge_sizes_count; i++)
		try {
			Large *volatile block = new Large[hidden(huge_sizes[i])];
			delete[] block;
			fail();
		} catch (const std::bad_alloc &) {
		}
}

int calls;

void give_up_at_third_call()
{
	if (++calls == 3)
		std::set_new_handler(nullptr);
}

void handler_uninstalls_itself_called_until_then(void **)
{
	for (std::size_t f = 0; f < forms_count; f++) {
		calls = 0;
		std::set_new_handler(give_up_at_third_call);
		expect_refusal(forms[f], IMPOSSIBLE);
		assert_int_equal(calls, 3);
		assert_true(std::get_new_handler() == nullptr);
	}
}

void handler_huge_size_called_too(void **)
{
	for (std::size_t f = 0; f < forms_count; f++) {
		if (libstdcxx_is_wrong(forms[f], SIZE_MAX))
			continue;
		calls = 0;
		std::set_new_handler(give_up_at_third_call);
		expect_refusal(forms[f], SIZE_MAX);
		assert_int_equal(calls, 3);
	}
}

void throw_bad_alloc()
{
	throw std::bad_alloc();
}

struct Custom : std::bad_alloc {
	const char *what() const noexcept override { return "custom"; }
};

void throw_custom()
{
	throw Custom();
}

void handler_throws_bad_alloc_as_if_given_up(void **)
{
	std::set_new_handler(throw_bad_alloc);
	for (std::size_t f = 0; f < forms_count; f++)
		expect_refusal(forms[f], IMPOSSIBLE);
	std::set_new_handler(nullptr);
}

void handler_throws_derived_exception_arrives(void **)
{
	std::set_new_handler(throw_custom);
	for (std::size_t f = 0; f < forms_count; f++) {
		const char *what = nullptr;
		try {
			assert_null(forms[f].allocate(hidden(IMPOSSIBLE)));
		} catch (const std::bad_alloc &exception) {
			what = exception.what();
		}
		assert_true(forms[f].is_nothrow ? what == nullptr : what && std::strcmp(what, "custom") == 0);
	}
	std::set_new_handler(nullptr);
}

void hand_over()
{
	calls++;
	std::set_new_handler(throw_bad_alloc);
}

void handler_installs_another_that_one_called(void **)
{
	for (std::size_t f = 0; f < forms_count; f++) {
		calls = 0;
		std::set_new_handler(hand_over);
		expect_refusal(forms[f], IMPOSSIBLE);
		assert_int_equal(calls, 1);
	}
	std::set_new_handler(nullptr);
}

/* Lets the address space grow by no more than `more` bytes; 0 lifts the limit. */
void limit_address_space(std::size_t more)
{
	rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
	limit.rlim_cur = more ? mapped_bytes() + more : limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	if (more && is_mappable(2 * more, PROT_NONE))
		skip();
}

void *reserve;

void free_reserve()
{
	calls++;
	std::free(reserve);
	reserve = nullptr;
	if (calls == 2)
		std::set_new_handler(nullptr);
}

void handler_frees_reserve_block_given(void **)
{
	for (std::size_t f = 0; f < forms_count; f++) {
		calls = 0;
		reserve = std::malloc(256 * MIB);
		assert_non_null(reserve);
		malloc_trim(0); /* what was kept of the last one would do */
		limit_address_space(32 * MIB);
		std::set_new_handler(free_reserve);
		Outcome outcome = try_form(forms[f], 200 * MIB);
		std::set_new_handler(nullptr);
		limit_address_space(0);
		assert_int_equal(static_cast<int>(outcome), static_cast<int>(Outcome::block));
		assert_int_equal(calls, 1);
	}
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(any_form_huge_size_bad_alloc_or_null),
		cmocka_unit_test(array_expression_huge_count_bad_alloc),
		cmocka_unit_test(handler_uninstalls_itself_called_until_then),
		cmocka_unit_test(handler_huge_size_called_too),
		cmocka_unit_test(handler_throws_bad_alloc_as_if_given_up),
		cmocka_unit_test(handler_throws_derived_exception_arrives),
		cmocka_unit_test(handler_installs_another_that_one_called),
		cmocka_unit_test(handler_frees_reserve_block_given),
	};

	return RUN_TESTS(tests);
}
