/* SPDX-License-Identifier: MIT */
/* A static program with libhakmem.a inside: there is nothing to preload and no dynamic linker. */
#include "forks.h"

#include "work.h"
#include "../death/cases.h"

#include <hakmem.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *run_work(void *unused)
{
	work_all_sizes();
	fork_load_once();
	return NULL;
}

static void in_threads(void)
{
	pthread_t threads[4];

	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < 4; i++)
			CHECK(pthread_create(&threads[i], NULL, run_work, NULL) == 0);
		for (size_t i = 0; i < 4; i++)
			CHECK(pthread_join(threads[i], NULL) == 0);
	}
}

/* Not the C library's malloc by accident. */
static void is_ours(void)
{
	void *p = malloc(100);
	char *text = strdup("a block of the C library's");

	CHECK(hak_owns(p));
	CHECK(hak_owns(text));
	CHECK(hak_usable_size(p) == malloc_usable_size(p));
	free(p);
	free(text);
}

static void forked(void)
{
	fork_start_load(2);
	for (int i = 0; i < 40; i++)
		fork_prove_once();
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"all_sizes_in_static_program_serve", work_all_sizes},
		{"threads_of_static_program_serve", in_threads},
		{"malloc_of_static_program_is_ours", is_ours},
		{"fork_of_static_program_gives_whole_child", forked},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
