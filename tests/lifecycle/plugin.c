/* SPDX-License-Identifier: MIT */
#include "plugin.h"

#include <hakmem.h>
#include <stdlib.h>
#include <string.h>

#define WANT(condition) \
	do { \
		if (!(condition)) \
			return __LINE__; \
	} while (0)

static int work_by_name(size_t size)
{
	char *p = hak_malloc(size), *q;

	WANT(p);
	p[0] = 1;
	p[size - 1] = 2;
	WANT(hak_usable_size(p) >= size);
	q = hak_calloc(3, size);
	WANT(q && q[0] == 0 && q[3 * size - 1] == 0);
	p = hak_realloc(p, size * 2 + 100);
	WANT(p && (p[0] == 1 || size == 1));
	hak_free(q);
	hak_free(p);
	return 0;
}

static int work_by_malloc(size_t size)
{
	char *p = malloc(size), *q;

	WANT(p);
	p[0] = 1;
	q = realloc(p, size * 3);
	WANT(q && q[0] == 1);
	free(q);
	return 0;
}

/* Whoever serves the malloc of this library, the C library's blocks come from its own choice. */
static int free_libc_block(void)
{
	char *text = strdup("allocated by the C library");

	WANT(text);
	text = realloc(text, 1000);
	WANT(text && strcmp(text, "allocated by the C library") == 0);
	free(text);
	return 0;
}

int plugin_work(void)
{
	int wrong = 0;

	for (size_t size = 1; size < 2 << 20 && !wrong; size = size * 3 + 1) {
		wrong = work_by_name(size);
		if (!wrong)
			wrong = work_by_malloc(size);
	}
	return wrong ? wrong : free_libc_block();
}

void *plugin_take(unsigned long size)
{
	char *p = hak_malloc(size);

	if (p)
		memset(p, 0x77, size);
	return p;
}

void plugin_free(void *ptr)
{
	hak_free(ptr);
}
