/* SPDX-License-Identifier: MIT */
/*
 * hakmem.conf: lines `name = value`, comments from # to the end of the line, and sections
 * [exe:/path/of/program] or [exe:name], with * and ?, whose lines hold for matching programs only.
 */
#ifndef HAK_ABI_CONF_FILE_H
#define HAK_ABI_CONF_FILE_H

#include "abi/conf_table.h"

/* Bytes of a file that are looked at, and of a line that is understood. */
enum { CONF_FILE_MAX = 64 * 1024, CONF_LINE_MAX = 4095 };

/* Called with each assignment that holds for this program (`verdict` is CONF_TAKEN), without comment and
   outer spaces, and with each line that cannot be one. */
typedef void conf_line_fn(void *arg, unsigned number, enum conf_verdict verdict, struct text line);

/* Reads the file that is open as `fd` from its beginning. */
void conf_file_read(int fd, conf_line_fn *fn, void *arg);

/* As if every section held. */
void conf_file_read_all(int fd, conf_line_fn *fn, void *arg);

/* Does the pattern hold for a program with this path? With a / it is compared with all of the path,
   else with what stands behind its last one. * stands for any text, ? for one character. */
bool conf_exe_matches(struct text pattern, struct text path);

#endif
