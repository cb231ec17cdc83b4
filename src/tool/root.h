/* SPDX-License-Identifier: MIT */
/* Folders that are the root of some system or process, which may be another than ours. */
#ifndef HAK_TOOL_ROOT_H
#define HAK_TOOL_ROOT_H

#include <stdbool.h>

/* Opens what `path` is to who has the folder `root` for a root: symbolic links do not lead out of it. -1 with errno;
   ENOSYS: the system has no means for that (before Linux 5.6), and it is another root than ours. */
int open_in_root(int root, const char *path, int flags);

bool is_other_root(int root);

#endif
