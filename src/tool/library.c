/* SPDX-License-Identifier: MIT */
#include "tool/library.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "hakmem.h"
#include "tool/tool.h"

const char *library_path(void) {
	static char *path;
	Dl_info info;
	if (path == NULL && dladdr((void *)(uintptr_t)hak_version, &info) != 0 && info.dli_fname != NULL)
		path = realpath(info.dli_fname, NULL);
	if (path == NULL)
		complain("the library cannot be found");
	return path;
}
