/* SPDX-License-Identifier: MIT */
/* A library of the program needs HAKMEM, the program does not: libc comes first in the order of look-ups, and HAKMEM
   behind it. Usage: behind_libc */
#include <stdlib.h>

#include "behind_libc.h"

int main(void)
{
	/* What the program has of libc is libc's. */
	free(malloc(10));
	return size_of_libcs() < 13 || !size_of_ours_is_right();
}
