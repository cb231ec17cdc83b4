/* SPDX-License-Identifier: MIT */
#include "os/elf.h"

#include "common.h"

/* Of libc's alone, which no sanitizer has a version of. */
#define NAME "ftok"

static void name_of_others_found(void **state)
{
	assert_true(elf_others_define(NAME, ""));
	assert_true(elf_others_define(NAME, "libstdc++.so\0"));
	assert_true(elf_others_define(NAME, "ibc.\0so\0/lib\0"));
}

static void name_of_those_passed_not_found(void **state)
{
	assert_false(elf_others_define(NAME, "libc.\0"));
	assert_false(elf_others_define(NAME, "libstdc++.so\0libc\0"));
}

static void name_of_nobody_not_found(void **state)
{
	assert_false(elf_others_define(NAME "_", ""));
	assert_false(elf_others_define("fto", ""));
}

/* In the program's table of symbols. */
__attribute__((visibility("default"))) int hak_test_of_this(void);
int hak_test_of_this(void)
{
	return 1;
}

static void name_of_this_object_not_found(void **state)
{
	assert_false(elf_others_define("hak_test_of_this", ""));
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
