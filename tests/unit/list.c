/* SPDX-License-Identifier: MIT */
#include "base/list.h"

#include <string.h>

#include "common.h"

enum { NODES = 12, ROUNDS = 5000 };

struct item {
	int value;
	struct list_node link;
};

static void list_pushed_last_comes_first(void **state)
{
	struct item items[3] = {{.value = 0}, {.value = 1}, {.value = 2}};
	struct list list = {0};
	int expected = 2;

	for (int i = 0; i < 3; i++)
		list_push(&list, &items[i].link);
	for (struct list_node *n = list.first; n != NULL; n = n->next)
		assert_int_equal(LIST_ENTRY(n, struct item, link)->value, expected--);
	assert_int_equal(expected, -1);
}

static void node_pushed_and_removed_knows_it(void **state)
{
	struct list list = {0};
	struct list_node node = {0};

	assert_false(list_is_linked(&node));
	list_push(&list, &node);
	assert_true(list_is_linked(&node));
	list_remove(&node);
	assert_false(list_is_linked(&node));
	assert_null(list.first);
}

/* `model[0..count)`: what the list should hold, first to last. */
static void drop(int *model, int *count, int at)
{
	memmove(model + at, model + at + 1, (size_t)(--*count - at) * sizeof *model);
}

static void list_random_use_matches_model(void **state)
{
	struct list_node nodes[NODES] = {{0}};
	struct list list = {0};
	int model[NODES], count = 0;
	uint64_t seed = 3;

	for (int round = 0; round < ROUNDS; round++) {
		int i = (int)(next_random(&seed) % NODES), at = 0;
		struct list_node *n = list.first;
		if (list_is_linked(&nodes[i])) {
			while (model[at] != i)
				at++;
			drop(model, &count, at);
			list_remove(&nodes[i]);
		} else {
			memmove(model + 1, model, (size_t)count++ * sizeof *model);
			model[0] = i;
			list_push(&list, &nodes[i]);
		}
		n = list.first;
		for (at = 0; at < count; at++, n = n->next)
			assert_ptr_equal(n, &nodes[model[at]]);
		assert_null(n);
	}
}

static void queue_random_use_matches_model(void **state)
{
	struct queue_node nodes[NODES] = {{0}};
	struct queue queue = {0};
	int model[NODES], count = 0;
	uint64_t seed = 4;

	for (int round = 0; round < ROUNDS; round++) {
		int i = (int)(next_random(&seed) % NODES), at = 0;
		struct queue_node *n, *before = NULL;
		while (at < count && model[at] != i)
			at++;
		if (at < count) {
			drop(model, &count, at);
			queue_remove(&queue, &nodes[i]);
		} else if (round % 2 == 0) {
			model[count++] = i;
			queue_append(&queue, &nodes[i]);
		} else {
			at = (int)(next_random(&seed) % (unsigned)(count + 1));
			memmove(&model[at + 1], &model[at], (size_t)(count++ - at) * sizeof *model);
			model[at] = i;
			queue_insert(&queue, at > 0 ? &nodes[model[at - 1]] : NULL, &nodes[i]);
		}
		assert_int_equal(queue.count, count);
		n = queue.first;
		for (at = 0; at < count; at++, before = n, n = n->next) {
			assert_ptr_equal(n, &nodes[model[at]]);
			assert_ptr_equal(n->prev, before);
		}
		assert_null(n);
		assert_ptr_equal(queue.last, before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(list_pushed_last_comes_first),
		cmocka_unit_test(node_pushed_and_removed_knows_it),
		cmocka_unit_test(list_random_use_matches_model),
		cmocka_unit_test(queue_random_use_matches_model),
	};

	return UNIT_RUN(tests);
}
