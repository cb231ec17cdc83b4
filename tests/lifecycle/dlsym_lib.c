/* SPDX-License-Identifier: MIT */
/* Stands before dlsym, as overlays and tracers do: what comes next is to libc what comes next after this library. */
#include <dlfcn.h>
#include <stddef.h>

typedef void *dlsym_fn(void *, const char *);

static dlsym_fn *find(void)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5", NULL};
	dlsym_fn *real = NULL;

	for (int i = 0; versions[i] != NULL && real == NULL; i++)
		real = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	return real;
}

void *dlsym(void *handle, const char *name)
{
	void *volatile found = find()(handle, name); /* no jump: libc looks at the return address */

	return found;
}
