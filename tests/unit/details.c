/* SPDX-License-Identifier: MIT */
/* What more is said of a block, to the " in " where listening ends. A process has one nursery, so its case is one. */
#include "front/details.h"

#include "common.h"
#include "fixture.h"
#include "front/alloc.h"
#include "front/large.h"
#include "front/nursery.h"
#include "listen.h"
#include "os/os.h"

static void nursery_block_freed_or_not_wherever_it_is_asked_about(void **state)
{
	uintptr_t block = (uintptr_t)nursery_alloc(sc_of(100)), size = hak_size_classes[sc_of(100)].size;

	for (unsigned offset = 0; offset <= 20; offset += 20) {
		listen_begin();
		details_write(block + offset);
		assert_said("  %p is a block of %zu bytes among the process's first,", (void *)block, (size_t)size);
	}
	assert_true(nursery_free(block));
	for (unsigned offset = 0; offset <= 20; offset += 20) {
		listen_begin();
		details_write(block + offset);
		assert_said("  %p is a block of %zu bytes among the process's first, freed", (void *)block, (size_t)size);
	}
}

static void large_block_named_from_inside(void **state)
{
	bool zero = false;
	struct large *l = large_alloc(NULL, 5 * GRANULE, 16, &zero);

	assert_non_null(l);
	listen_begin();
	details_write((uintptr_t)l->span.base + 70000);
	assert_said("  %p is a block of %zu bytes on pages of its own,", l->span.base, (size_t)l->size);
	large_free(NULL, l);
}

static void memory_of_nobody_left_alone(void **state)
{
	listen_begin();
	details_write((uintptr_t)&state);
	assert_said("  found by thread %zu, at", (size_t)os_thread_id());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nursery_block_freed_or_not_wherever_it_is_asked_about),
		cmocka_unit_test(large_block_named_from_inside),
		cmocka_unit_test(memory_of_nobody_left_alone),
	};

	return UNIT_RUN(tests);
}
