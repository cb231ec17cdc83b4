/* SPDX-License-Identifier: MIT */
/*
 * A program with libhakmem.a inside, once dynamic and once static. Its output is TAP by hand, since
 * there is no static cmocka.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hakmem.h>

enum { THREADS = 4, ROUNDS = 20000 };

static int malloc_block_ours(void)
{
	void *block = malloc(2000);
	int ours = hak_owns(block);

	free(block);
	return ours;
}

static int libc_block_ours(void)
{
	size_t size = 3000;
	char *line = malloc(size), *copy;

	if (!line)
		return 0;
	memset(line, 'x', size - 1);
	line[size - 1] = 0;
	copy = strdup(line);
	int ours = hak_owns(copy);
	free(copy);
	free(line);
	return ours;
}

static int every_size_works(void)
{
	for (size_t size = 1; size <= 64 << 20; size = size * 2 + 1) {
		unsigned char *block = calloc(1, size);
		if (!block || block[0] || block[size - 1] || malloc_usable_size(block) < size)
			return 0;
		memset(block, 0xff, size);
		unsigned char *grown = realloc(block, size * 2);
		if (!grown || grown[size - 1] != 0xff)
			return 0;
		free(grown);
	}
	return 1;
}

static int huge_size_enomem(void)
{
	volatile size_t huge = SIZE_MAX;

	errno = 0;
	return malloc(huge) == NULL && errno == ENOMEM;
}

static int heap_destroyed(void)
{
	hak_heap_t *heap = hak_heap_new();

	for (int i = 0; heap && i < 1000; i++)
		if (!hak_heap_malloc(heap, (size_t)i))
			return 0;
	hak_heap_destroy(heap);
	return heap != NULL;
}

static void *churn(void *argument)
{
	void *blocks[64] = {NULL};
	unsigned random = (unsigned)(uintptr_t)argument;

	for (int i = 0; i < ROUNDS; i++) {
		random = random * 1103515245 + 12345;
		unsigned slot = random >> 20 & 63;
		free(blocks[slot]);
		blocks[slot] = malloc(random >> 8 & 4095);
		if (!blocks[slot])
			return NULL;
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	return argument;
}

static int threads_work(void)
{
	pthread_t threads[THREADS];
	int good = 0;

	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) != 0)
			return 0;
	for (int i = 0; i < THREADS; i++) {
		void *result = NULL;
		pthread_join(threads[i], &result);
		good += result != NULL;
	}
	return good == THREADS;
}

int main(void)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} tests[] = {
		{"malloc_block_ours", malloc_block_ours},
		{"libc_block_ours", libc_block_ours},
		{"every_size_works", every_size_works},
		{"huge_size_enomem", huge_size_enomem},
		{"heap_destroyed", heap_destroyed},
		{"threads_work", threads_work},
	};
	const int count = sizeof(tests) / sizeof(tests[0]);

	printf("1..%d\n", count);
	for (int i = 0; i < count; i++)
		printf("%sok %d - %s\n", tests[i].run() ? "" : "not ", i + 1, tests[i].name);
	return 0;
}
