/* SPDX-License-Identifier: MIT */
/* A signal handler that frees while its thread ends. */
#include "abi/lifecycle.h"

#include <pthread.h>

#include "common.h"
#include "front/alloc.h"
#include "front/tcache.h"

enum { SIZE = 64, BLOCKS = 3000 };

static void *left; /* block of a thread that has ended: its slab is nobody's */
static int calls;
static bool is_taken; /* into the bins of a thread that ends */

void __wrap_pocket_shut(struct pocket *p);
void __real_pocket_shut(struct pocket *p);
void __wrap_pocket_shut(struct pocket *p)
{
	if (left != NULL) {
		calls++;
		is_taken = tcache_free(left, tcache_code(left));
	}
	__real_pocket_shut(p);
}

/* The last of many: the first ones are not of slabs. */
static void *allocate(void)
{
	struct heap *h = lifecycle_heap();
	void *p = NULL;

	CHECK(h != NULL);
	for (int i = 0; i < BLOCKS; i++) {
		heap_enter(h);
		p = alloc_block(h, SIZE, ALLOC_ALIGN, false);
		heap_leave(h);
	}
	CHECK(p != NULL && tag_is_slab(pagemap_tag((uintptr_t)p)));
	return p;
}

static void *make(void *unused)
{
	void *p = allocate();

	lifecycle_thread_exit();
	return p;
}

static void *in_thread(void *(*run)(void *))
{
	pthread_t thread;
	void *result;

	CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
	CHECK(pthread_join(thread, &result) == 0);
	return result;
}

static void *come_and_go(void *unused)
{
	void *p = allocate();

	CHECK(tcache_free(p, tcache_code(p))); /* there is a bin, with room */
	left = in_thread(make);
	lifecycle_thread_exit();
	return NULL;
}

static void bins_that_are_emptied_take_no_block_of_nobodys_slab(void **state)
{
	in_thread(come_and_go);
	assert_int_equal(calls, 1);
	assert_false(is_taken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bins_that_are_emptied_take_no_block_of_nobodys_slab),
	};

	return UNIT_RUN(tests);
}
