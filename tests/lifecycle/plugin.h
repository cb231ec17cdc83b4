/* SPDX-License-Identifier: MIT */
/* A shared library that is linked with libhakmem, for programs that are not. */
#ifndef TESTS_PLUGIN_H
#define TESTS_PLUGIN_H

/* Allocates and frees in all sizes, through malloc and through the library's own names; also frees
   what the C library allocated. Returns 0, or the line at which something was wrong. */
int plugin_work(void);

/* A block by hak_malloc, for keeping while the plugin comes and goes; to be given back by the next
   plugin_free. */
void *plugin_take(unsigned long size);
void plugin_free(void *ptr);

#endif
