/* SPDX-License-Identifier: MIT */
/* The library that this command uses. */
#ifndef HAK_TOOL_LIBRARY_H
#define HAK_TOOL_LIBRARY_H

/* Its path. NULL, after a complaint: not known. */
const char *library_path(void);

#endif
