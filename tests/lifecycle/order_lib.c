/* SPDX-License-Identifier: MIT */
#include "order_lib.h"

#include "work.h"

#include <stdbool.h>

static struct work_set from_constructor, from_program;
static bool expecting;

__attribute__((constructor(101))) static void at_load(void)
{
	work_all_sizes();
	work_keep(&from_constructor);
}

void order_lib_release(void)
{
	work_release(&from_constructor);
}

void order_lib_expect_end(void)
{
	work_keep(&from_program);
	expecting = true;
}

__attribute__((destructor(101))) static void at_unload(void)
{
	if (!expecting)
		return;
	work_release(&from_program);
	work_all_sizes();
}
