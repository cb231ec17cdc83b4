/* SPDX-License-Identifier: MIT */
/* os/: what the kernel tells a process as it starts. */
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "common.h"
#include "os/os.h"

static char **kernel_env; /* main's: nobody has changed it */

static void facts_are_what_libc_says(char *const *env)
{
	memset(&os_facts, 0, sizeof os_facts);
	os_init(env);
	assert_int_equal(os_facts.page_size, getauxval(AT_PAGESZ));
	assert_int_equal(os_facts.secure, getauxval(AT_SECURE));
	assert_int_equal(os_facts.privileged, getauxval(AT_SECURE) != 0 || getauxval(AT_EUID) == 0);
	assert_ptr_equal(os_facts.started_as, getauxval(AT_EXECFN));
}

static void behind_the_environment(void **state)
{
	facts_are_what_libc_says(kernel_env);
	uint64_t random[2] = { os_facts.random[0], os_facts.random[1] };
	assert_int_not_equal(random[0], 0);
	facts_are_what_libc_says(NULL);
	assert_memory_equal(random, os_facts.random, sizeof random);
}

/* Another environment than the kernel's, with a vector that says other things than this process's. */
struct image {
	char *env[4];
	ElfW(auxv_t) vector[7];
};

static char bytes[16] = "0123456789abcde", name[] = "/somewhere/else";

static void fill(struct image *image)
{
	const unsigned long pairs[][2] = {
		{ AT_HWCAP, 0 }, { AT_PAGESZ, 16384 }, { AT_SECURE, 1 }, { AT_EXECFN, (unsigned long)name },
		{ AT_EUID, 1000 }, { AT_RANDOM, (unsigned long)bytes }, { AT_NULL, 0 },
	};

	memset(image, 0, sizeof *image);
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		image->vector[i].a_type = pairs[i][0];
		image->vector[i].a_un.a_val = pairs[i][1];
	}
}

/* As the loader does for a program with more rights than its caller. */
static void behind_variables_taken_out(void **state)
{
	struct image image;

	for (size_t left = 0; left < 4; left++) {
		fill(&image);
		for (size_t i = 0; i < left; i++)
			image.env[i] = name;
		os_init(image.env);
		assert_int_equal(os_facts.page_size, 16384);
		assert_true(os_facts.secure && os_facts.privileged);
		assert_ptr_equal(os_facts.started_as, name);
	}
}

/* A program may have overwritten its first variable, or have moved them all. */
static void what_lies_there_is_no_vector(void **state)
{
	struct image image;

	for (size_t left = 1; left < 4; left++) {
		fill(&image);
		for (size_t i = 1; i <= left; i++) /* an odd number of words: types are taken for values */
			image.env[i] = name;
		facts_are_what_libc_says(image.env);
	}
}

static void libc_knows_what_is_missing(void **state)
{
	struct image image;

	fill(&image);
	image.vector[1].a_type = AT_IGNORE;
	image.vector[3].a_type = AT_NULL;
	os_init(image.env);
	assert_int_equal(os_facts.page_size, getauxval(AT_PAGESZ));
	assert_true(os_facts.secure && os_facts.privileged);
	assert_ptr_equal(os_facts.started_as, getauxval(AT_EXECFN));
}

int main(int argc, char **argv, char **env)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(behind_the_environment),
		cmocka_unit_test(behind_variables_taken_out),
		cmocka_unit_test(what_lies_there_is_no_vector),
		cmocka_unit_test(libc_knows_what_is_missing),
	};

	kernel_env = env;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
