/* SPDX-License-Identifier: MIT */
#include "samples.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hakmem.h>

long samples(void)
{
	int file = memfd_create("profile", 0);
	char path[64], text[256] = "";
	long live = -1;

	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	if (file >= 0 && hak_profile_write(path) == 0 && pread(file, text, sizeof text - 1, 0) > 0)
		sscanf(text, "heap profile: %ld:", &live);
	return live;
}
