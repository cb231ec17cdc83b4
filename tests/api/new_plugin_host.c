/* SPDX-License-Identifier: MIT */
/*
 * Operator new for a C++ library that a C program loads with RTLD_LOCAL: the C++ runtime comes with
 * it and is in nobody's global scope, yet std::bad_alloc and the new-handler must be the library's.
 * If it is inside the library, and bound to itself (-Bsymbolic), the library calls operators of its own,
 * and what it passes on is freed by others'.
 * The arguments are the path of new_plugin, or of new_plugin_symbolic, which is that, and of new_plugin_waits.
 */
#include "common.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "new_plugin.h"

void *new_plugin_block;

#define IMPOSSIBLE ((size_t)1 << 57)

static void *plugin;
static const char *waits;
static bool is_bound_to_itself;

static void *entry(const char *name)
{
	void *function = dlsym(plugin, name);

	if (!function)
		fail_msg("%s", dlerror());
	return function;
}

/* Rather than the process's, which the library under test brings. */
static bool calls_its_own(void)
{
	void (*(*operator_delete)(void))(void *) = entry("plugin_operator_delete");

	return (void *)operator_delete() != dlsym(RTLD_DEFAULT, "_ZdlPv");
}

static void runtime_of_plugin_not_in_global_scope(void **state)
{
	assert_true(!is_bound_to_itself || calls_its_own());
	assert_null(dlsym(RTLD_DEFAULT, "_ZSt15get_new_handlerv"));
}

static void expect_blocks_freed(void *(*allocate)(size_t), void (*release)(void *))
{
	for (size_t i = 0; i < sizes_count; i++) {
		void *block = allocate(sizes[i]);
		assert_non_null(block);
		fill(block, sizes[i], 1);
		release(block);
	}
}

/* First: the next are told by what this finds out. */
static void block_freed_by_thread_that_a_constructor_waits_for(void **state)
{
	void *(*allocate)(size_t) = find_function(sizeof(size_t) == 8 ? "_Znwm" : "_Znwj");

	if (!is_bound_to_itself)
		skip(); /* there it would be misuse */
	new_plugin_block = allocate((size_t)1 << 20); /* of large ones HAKMEM knows at each level who made them */
	assert_non_null(new_plugin_block);
	void *module = dlopen(waits, RTLD_NOW | RTLD_LOCAL);
	if (!module)
		fail_msg("%s", dlerror());
	assert_null(new_plugin_block);
	dlclose(module);
}

static void new_possible_size_block_freed(void **state)
{
	expect_blocks_freed(entry("plugin_new"), entry("plugin_delete"));
}

static void new_huge_size_bad_alloc(void **state)
{
	int (*throws)(size_t) = entry("plugin_throws_bad_alloc");
	int (*aligned_throws)(size_t) = entry("plugin_aligned_array_throws_bad_alloc");
	int (*gives_null)(size_t) = entry("plugin_nothrow_gives_null");

	for (size_t i = 0; i < huge_sizes_count; i++) {
		assert_int_equal(throws(huge_sizes[i]), 1);
		assert_int_equal(gives_null(huge_sizes[i]), 1);
		/* libstdc++ 12 gives a block where rounding the size up to the alignment wraps. */
		if (!calls_its_own() || huge_sizes[i] <= SIZE_MAX - 4096)
			assert_int_equal(aligned_throws(huge_sizes[i]), 1);
	}
}

static void new_handler_of_the_plugin_called(void **state)
{
	int (*handler_calls)(size_t) = entry("plugin_handler_calls");

	assert_int_equal(handler_calls(IMPOSSIBLE), 1);
	assert_int_equal(handler_calls(100), 0);
}

static void block_passed_on_freed_by_the_process(void **state)
{
	expect_blocks_freed(entry("plugin_new"), find_function("_ZdlPv"));
}

static void block_of_the_process_freed_by_the_plugin(void **state)
{
	expect_blocks_freed(find_function(sizeof(size_t) == 8 ? "_Znwm" : "_Znwj"), entry("plugin_delete"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(block_freed_by_thread_that_a_constructor_waits_for),
		cmocka_unit_test(runtime_of_plugin_not_in_global_scope),
		cmocka_unit_test(new_possible_size_block_freed),
		cmocka_unit_test(new_huge_size_bad_alloc),
		cmocka_unit_test(new_handler_of_the_plugin_called),
		cmocka_unit_test(block_passed_on_freed_by_the_process),
		cmocka_unit_test(block_of_the_process_freed_by_the_plugin),
	};

	plugin = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	if (!plugin) {
		fprintf(stderr, "%s\n", argc == 3 ? dlerror() : "usage: new_plugin_host PLUGIN NEW_PLUGIN_WAITS");
		return 1;
	}
	waits = argv[2];
	is_bound_to_itself = strstr(argv[1], "symbolic") != NULL;
	return RUN_TESTS(tests);
}
