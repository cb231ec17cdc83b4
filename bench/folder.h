/* SPDX-License-Identifier: MIT */
/*
 * A temporary folder for workloads that run programs. A process of its own waits for the end of the
 * workload, however that comes about, and removes the folder then.
 */
#ifndef HAK_BENCH_FOLDER_H
#define HAK_BENCH_FOLDER_H

#include <stdio.h>

enum { FOLDER_PATH_MAX = 256 };

/* Makes the folder, below $TMPDIR or /tmp. Once, while the workload has one thread. */
void folder_make(void);

/* Writes the path of the file `name` in the folder, or of the folder if `name` is "", to `path`;
   returns `path`. */
char *folder_path(char path[FOLDER_PATH_MAX], const char *name);

/* Opens the file `name` in the folder for writing; never NULL. folder_close ends the workload if
   anything was not written. */
FILE *folder_create(const char *name);
void folder_close(FILE *file);

#endif
