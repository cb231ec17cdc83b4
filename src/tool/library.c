/* SPDX-License-Identifier: MIT */
#include "tool/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem.h"
#include "tool/tool.h"

/* From the root on, but by the name that it was loaded by: a newer release has that, too. */
static char *from_root(const char *path) {
	static char whole[PATH_MAX];
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
	if (snprintf(whole, sizeof whole, "%.*s", (int)(name - path), path) >= (int)sizeof whole ||
	    realpath(slash != NULL ? whole : ".", folder) == NULL)
		return NULL;
	int len = snprintf(whole, sizeof whole, "%s/%s", strcmp(folder, "/") != 0 ? folder : "", name);
	return len < (int)sizeof whole ? whole : NULL;
}

const char *library_path(void) {
	static char *path;
	Dl_info info;
	if (path == NULL && dladdr((void *)(uintptr_t)hak_version, &info) != 0 && info.dli_fname != NULL)
		path = from_root(info.dli_fname);
	if (path == NULL)
		complain("the library cannot be found");
	return path;
}
