/* SPDX-License-Identifier: MIT */
#include "os/elf.h"

#include "common.h"
#include "os/os.h"

/* Of libc's alone, which no sanitizer has a version of. */
#define NAME "ftok"

static void name_of_others_found(void **state)
{
	const void *by_loader = os_symbol(NAME);

	assert_non_null(by_loader);
	assert_ptr_equal(elf_find_elsewhere(NAME, ""), by_loader);
	assert_ptr_equal(elf_find_elsewhere(NAME, "libstdc++.so\0"), by_loader);
	assert_ptr_equal(elf_find_elsewhere(NAME, "ibc.\0so\0/lib\0"), by_loader);
}

static void name_of_those_passed_not_found(void **state)
{
	assert_null(elf_find_elsewhere(NAME, "libc.\0"));
	assert_null(elf_find_elsewhere(NAME, "libstdc++.so\0libc\0"));
}

static void name_of_nobody_not_found(void **state)
{
	assert_null(elf_find_elsewhere(NAME "_", ""));
	assert_null(elf_find_elsewhere("fto", ""));
}

/* In the program's table of symbols. */
__attribute__((visibility("default"))) int hak_test_of_this(void);
int hak_test_of_this(void)
{
	return 1;
}

static void name_of_this_object_not_found(void **state)
{
	assert_null(elf_find_elsewhere("hak_test_of_this", ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name_of_others_found),
		cmocka_unit_test(name_of_those_passed_not_found),
		cmocka_unit_test(name_of_nobody_not_found),
		cmocka_unit_test(name_of_this_object_not_found),
	};

	return UNIT_RUN(tests);
}
