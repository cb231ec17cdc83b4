/* SPDX-License-Identifier: MIT */
/*
 * What the unit tests share. Each program tests one module, in a process where nothing but os_init and
 * key_init has run. Settings that build options choose are set here, so that every build is tested
 * alike.
 */
#ifndef UNIT_COMMON_H
#define UNIT_COMMON_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../random.h"
#include "base/compiler.h"

#define UNIT_RUN(tests) cmocka_run_group_tests(tests, unit_setup, NULL)

int unit_setup(void **state);

/* Are all `size` bytes of that value? */
bool bytes_are(const void *ptr, size_t size, unsigned char value);

void sleep_ms(unsigned ms);

/* Calls run(0) .. run(count - 1), each on a thread of its own, and waits for them. */
void run_threads(unsigned count, void (*run)(unsigned index));

/* For threads, which must not jump out of a test as cmocka's asserts do: ends the program. */
#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))
_Noreturn void check_failed(const char *file, int line, const char *condition);

#endif
