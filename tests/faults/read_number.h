/* SPDX-License-Identifier: MIT */
/* What the system says of itself in a file; a case without the file is skipped. */
#ifndef TESTS_FAULTS_READ_NUMBER_H
#define TESTS_FAULTS_READ_NUMBER_H

#include "../death/cases.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

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

#endif
