/* SPDX-License-Identifier: MIT */
/* What new_plugin.cpp exports, as C, and what new_plugin_waits.c frees. */
#ifndef HAK_TESTS_API_NEW_PLUGIN_H
#define HAK_TESTS_API_NEW_PLUGIN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLUGIN_EXPORT __attribute__((visibility("default")))

/* 1 if operator new of `size` bytes threw std::bad_alloc, 0 if it gave a block. */
PLUGIN_EXPORT int plugin_throws_bad_alloc(size_t size);
PLUGIN_EXPORT int plugin_aligned_array_throws_bad_alloc(size_t size);
PLUGIN_EXPORT int plugin_nothrow_gives_null(size_t size);

/* How often a new-handler that gives up at once is called. */
PLUGIN_EXPORT int plugin_handler_calls(size_t size);

/* The operator delete that it calls. */
PLUGIN_EXPORT void (*plugin_operator_delete(void))(void *block);

PLUGIN_EXPORT void *plugin_new(size_t size);
PLUGIN_EXPORT void plugin_delete(void *block);

/* The program's; NULL once it is freed. */
PLUGIN_EXPORT extern void *new_plugin_block;

#ifdef __cplusplus
}
#endif

#endif
