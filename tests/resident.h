/* SPDX-License-Identifier: MIT */
/* How much memory of the calling process is resident. */
#ifndef TESTS_RESIDENT_H
#define TESTS_RESIDENT_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What follows the word in the file; -1: it is not there. By system calls alone: an allocation might be what gives
   memory back. */
static inline long number_behind(const char *word, const char *path)
{
	char text[256] = "";
	const char *at = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
		at = strstr(text, word);
	if (fd >= 0)
		close(fd);
	return at != NULL ? atol(at + strlen(word)) : -1;
}

/* Counted page by page: the sum in statm is kept in parts for each processor by kernels from 6.2 to 6.15, and wrong by up
   to 32 pages of each. Kernels before 4.14 have nothing else. -1: neither is there. */
static inline long resident_kib(void)
{
	long kib = number_behind("\nRss:", "/proc/self/smaps_rollup"), pages;

	if (kib >= 0)
		return kib;
	pages = number_behind(" ", "/proc/self/statm");
	return pages >= 0 ? pages * (sysconf(_SC_PAGESIZE) / 1024) : -1;
}

#endif
