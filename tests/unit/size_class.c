/* SPDX-License-Identifier: MIT */
#include "slab/size_class.h"

#include "base/bits.h"
#include "common.h"
#include "space/pagemap.h"

#define CLASS(sc) (&hak_size_classes[sc])

static void class_zero_is_reserved(void **state)
{
	assert_int_equal(CLASS(0)->size, 0);
	assert_int_equal(CLASS(0)->magic, 0);
	assert_int_equal(CLASS(0)->capacity, 0);
}

static void classes_grow_by_bounded_steps(void **state)
{
	assert_int_equal(CLASS(1)->size, 16);
	assert_int_equal(CLASS(SC_COUNT - 1)->size, SC_MAX_SIZE);
	for (unsigned sc = 2; sc < SC_COUNT; sc++) {
		uint32_t step = CLASS(sc)->size - CLASS(sc - 1)->size;
		assert_true(CLASS(sc)->size > CLASS(sc - 1)->size);
		assert_int_equal(CLASS(sc)->size % 16, 0);
		if (CLASS(sc)->size > 128)
			assert_true(step * (CLASS(sc)->size <= 2048 ? 8 : 3) <= CLASS(sc - 1)->size);
	}
}

static void class_of_any_size_is_smallest(void **state)
{
	for (size_t size = 0; size <= SC_MAX_SIZE; size++) {
		unsigned sc = sc_of(size);
		assert_in_range(sc, 1, SC_COUNT - 1);
		assert_true(CLASS(sc)->size >= size);
		assert_true(sc == 1 || CLASS(sc - 1)->size < size);
		assert_int_equal(sc_code(size), sc << SC_CODE_SHIFT);
	}
}

static void slab_any_class_filled_with_blocks(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		size_t used = CLASS(sc)->capacity * CLASS(sc)->size;
		assert_true(used <= GRANULE && GRANULE - used < CLASS(sc)->size);
		assert_true(CLASS(sc)->capacity >= 2);
	}
}

/* What is left over at a granule's end is address space nobody uses: little, or what the next class takes for its two
   blocks. */
static void slab_above_4_kib_little_left_over(void **state)
{
	for (unsigned sc = sc_of(4097); sc < SC_COUNT; sc++)
		assert_true(GRANULE - CLASS(sc)->capacity * CLASS(sc)->size <= GRANULE / 100 ||
			(CLASS(sc)->capacity == 2 && CLASS(sc + 1)->capacity == 2));
}

/* Where the second of two blocks begins differs by class: the processor's address translation goes by that. */
static void second_of_two_blocks_on_another_page_by_class(void **state)
{
	for (unsigned sc = sc_of(21825); sc < SC_COUNT - 1; sc++)
		assert_true(CLASS(sc)->size / 4096 % 16 != CLASS(sc + 1)->size / 4096 % 16);
}

static void index_any_offset_exact(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		uint32_t size = CLASS(sc)->size, index = 0, within = 0, wrong = 0;
		for (uintptr_t offset = 0; offset < GRANULE; offset++) {
			wrong += sc_index(sc, offset) != index;
			if (++within == size) {
				within = 0;
				index++;
			}
		}
		assert_int_equal(wrong, 0);
	}
}

static void magic_any_offset_tells_multiples(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		uint32_t magic = CLASS(sc)->magic, within = 0, wrong = 0;
		for (uint32_t offset = 0; offset < GRANULE; offset++) {
			wrong += (offset * magic < magic) != (within == 0);
			within = within + 1 == CLASS(sc)->size ? 0 : within + 1;
		}
		assert_int_equal(wrong, 0);
	}
}

static unsigned slow_aligned(size_t size, size_t align)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++)
		if (CLASS(sc)->size >= size && CLASS(sc)->size % align == 0)
			return sc;
	return 0;
}

static void aligned_class_any_request_is_smallest(void **state)
{
	for (size_t align = 1; align <= SC_MAX_SIZE; align *= 2)
		for (size_t size = 0; size <= SC_MAX_SIZE; size += size < 4200 ? 1 : 61)
			assert_int_equal(sc_of_aligned(size, align), slow_aligned(size, align));
	assert_int_equal(sc_of_aligned(SC_MAX_SIZE, SC_MAX_SIZE), SC_COUNT - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(class_zero_is_reserved),
		cmocka_unit_test(classes_grow_by_bounded_steps),
		cmocka_unit_test(class_of_any_size_is_smallest),
		cmocka_unit_test(slab_any_class_filled_with_blocks),
		cmocka_unit_test(slab_above_4_kib_little_left_over),
		cmocka_unit_test(second_of_two_blocks_on_another_page_by_class),
		cmocka_unit_test(index_any_offset_exact),
		cmocka_unit_test(magic_any_offset_tells_multiples),
		cmocka_unit_test(aligned_class_any_request_is_smallest),
	};

	return UNIT_RUN(tests);
}
