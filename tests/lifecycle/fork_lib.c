/* SPDX-License-Identifier: MIT */
/* A library that stands before the allocator with a fork that does not go by it. */
#include <unistd.h>

pid_t __fork(void);

pid_t fork(void)
{
	return __fork();
}
