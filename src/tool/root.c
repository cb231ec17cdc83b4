/* SPDX-License-Identifier: MIT */
#include "tool/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIES = 1000 };

int open_in_root(int root, const char *path, int flags) {
	struct open_how how = { .flags = (unsigned)flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
	int tries = 0;
	long fd;
	do
		fd = TEMP_FAILURE_RETRY(syscall(SYS_openat2, root, path, &how, sizeof how));
	while (fd < 0 && errno == EAGAIN && ++tries < TRIES); /* with "..", a rename anywhere meanwhile is in its way */
	/* Or forbidden by a sandbox that does not know it. */
	if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
		return (int)fd;
	if (!is_other_root(root))
		return TEMP_FAILURE_RETRY(openat(root, path[1] != '\0' ? path + 1 : ".", flags | O_CLOEXEC));
	errno = ENOSYS;
	return -1;
}

bool is_other_root(int root) {
	struct stat theirs, ours;
	return fstat(root, &theirs) != 0 || stat("/", &ours) != 0 || theirs.st_ino != ours.st_ino ||
		theirs.st_dev != ours.st_dev;
}
