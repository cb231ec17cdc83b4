/* SPDX-License-Identifier: MIT */
/* What the system says of itself in a file; a case without the file is skipped. */
#ifndef TESTS_FAULTS_READ_NUMBER_H
#define TESTS_FAULTS_READ_NUMBER_H

#include "../death/cases.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* Beyond it exhausting them takes too long; what one takes of the kernel's memory, with the same one in a child. */
enum { MAX_MAPPINGS = 1100000, MAPPING_BYTES = 600 };

/* The first number in the file, without malloc. */
static inline long read_number(const char *path)
{
	char text[64] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
		case_skip();
	close(fd);
	return strtol(text, NULL, 10);
}

/* How many mappings a process may have. A case is skipped where they are too many, or take more than a quarter of
   the memory there is. */
static inline long read_mapping_limit(void)
{
	long count = read_number("/proc/sys/vm/max_map_count");
	struct sysinfo info;

	if (count > MAX_MAPPINGS || sysinfo(&info) != 0 ||
	    (unsigned long)count > info.totalram / 4 / MAPPING_BYTES * info.mem_unit)
		case_skip();
	return count;
}

#endif
