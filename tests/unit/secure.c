/* SPDX-License-Identifier: MIT */
/* Levels 1 to 3 of HAKMEM_SECURE, by a heap of our own. */
#include "front/secure.h"

#include <string.h>

#include "common.h"
#include "fixture.h"
#include "front/alloc.h"
#include "front/bigcache.h"
#include "front/nursery.h"
#include "front/quarantine.h"
#include "listen.h"
#include "os/os.h"
#include "space/purge.h"

enum { SEEDS = 8 };

static struct heap *heap;

/* The granule of the nursery, which level 1 may use, stays. */
static bool all_is_back(void)
{
	return hak_space.live == (nursery_used() != 0) && hak_space.big + hak_space.large == 0;
}

static int start(unsigned level)
{
	hak_settings.secure = level;
	hak_settings.on_error = ERROR_IGNORE;
	secure_init();
	hak_settings.guard_rate = 0; /* front/guard.h has a test of its own */
	heap = heap_acquire(NULL, false);
	return heap != NULL && all_is_back() ? 0 : -1;
}

static int start_1(void **state)
{
	return start(1);
}

static int start_2(void **state)
{
	return start(2);
}

static int start_3(void **state)
{
	return start(3);
}

/* Whatever a test did, it has freed all its blocks. */
static int end(void **state)
{
	heap_retire(heap);
	quarantine_flush_large();
	bigcache_release(0);
	purge_all(0);
	return all_is_back() ? 0 : -1;
}

static unsigned char *take(size_t size)
{
	unsigned char *p = alloc_block(heap, size, ALLOC_ALIGN, false);

	assert_non_null(p);
	return p;
}

/* Is the block free afterwards? If not, it was reported. */
static bool give(unsigned char *p, size_t size)
{
	size_t is;
	struct pagemap_entry e = pagemap_lookup((uintptr_t)p);

	assert_true(free_block(heap, p));
	if (!tag_is_slab(e.tag))
		return large_of((uintptr_t)p) == NULL;
	return block_usable_size(OP_FREE, p, &is) != BLOCK_OURS && size != 0;
}

static void block_any_size_has_that_and_is_zero(void **state)
{
	for (unsigned round = 0; round < SEEDS; round++)
		for (size_t size = 1; size < 3 * HAK_MIB; size += 1 + size / (5 + round)) {
			unsigned char *p = take(size);
			size_t usable;
			assert_int_equal(block_usable_size(OP_USABLE_SIZE, p, &usable), BLOCK_OURS);
			assert_true(hak_settings.secure >= 2 ? usable == size : usable >= size);
			assert_true(bytes_are(p, usable, 0));
			memset(p, 0x5a, usable);
			assert_true(give(p, size));
		}
}

static uintptr_t not_cleared; /* nobody may while the test runs; 0: anything may be */

void *__real_memset(void *at, int byte, size_t length);
void *__wrap_memset(void *at, int byte, size_t length);
void *__wrap_memset(void *at, int byte, size_t length)
{
	uintptr_t addr = (uintptr_t)at;

	assert_false(not_cleared != 0 && not_cleared >= addr && not_cleared < addr + length);
	return __real_memset(at, byte, length);
}

/* Another thread, which frees a neighbour, may look at it at any moment. */
static void block_made_zero_keeps_its_canary_whole(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		size_t size = hak_size_classes[sc].size - CANARY_BYTES;
		unsigned char *p = take(size), *again;
		__real_memset(p, 0x5a, size);
		block_put(heap, fixture_slab_of((uintptr_t)p), (uintptr_t)p);
		not_cleared = (uintptr_t)p + size;
		again = alloc_block(heap, size, ALLOC_ALIGN, true);
		not_cleared = 0;
		assert_ptr_equal(again, p);
		assert_true(bytes_are(p, size, 0));
		assert_true(give(p, size));
	}
}

static void bytes_behind_block_written_reported(void **state)
{
	static const size_t sizes[] = {1, 7, 8, 20, 24, 100, 1000, 5000, 32760, 32761, 70001, 600001};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		size_t size = sizes[i], usable;
		unsigned char *p = take(size);
		p[size] ^= 1;
		listen_begin();
		assert_true(free_block(heap, p));
		assert_said("write behind %p (%zu-byte block)", (void *)p, size);
		assert_int_equal(block_usable_size(OP_REALLOC, p, &usable), BLOCK_DAMAGED);
		assert_int_equal(usable, size);
		p[size] ^= 1; /* it was left alone */
		assert_true(give(p, size));
	}
}

/* As lists end with a null pointer: the canary is a word of zeros then, as that of a block that nobody had yet. */
static void word_of_zeros_behind_block_reported(void **state)
{
	static const size_t sizes[] = {8, 104, 1016};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		unsigned char *p = take(sizes[i]), canary[CANARY_BYTES];
		memset(p, 0, sizes[i]);
		assert_int_equal(fixture_slab_of((uintptr_t)p)->block_size, sizes[i] + CANARY_BYTES);
		memcpy(canary, p + sizes[i], CANARY_BYTES);
		memset(p + sizes[i], 0, CANARY_BYTES);
		listen_begin();
		assert_true(free_block(heap, p));
		assert_said("write behind %p (%zu-byte block)", (void *)p, sizes[i]);
		memcpy(p + sizes[i], canary, CANARY_BYTES);
		assert_true(give(p, sizes[i]));
	}
}

/* Each byte from the block's end to the end of its pad and canary. */
static void byte_anywhere_behind_block_written_seen(void **state)
{
	for (size_t size = 1; size <= 120; size++) {
		unsigned char *p = take(size);
		size_t room = fixture_slab_of((uintptr_t)p)->block_size, usable;
		for (size_t i = size; i < room; i++) {
			if (i - size >= PAD_MOST - 8 && i < room - CANARY_BYTES)
				continue; /* nobody looks there */
			p[i] ^= 0x10;
			assert_int_equal(block_usable_size(OP_REALLOC, p, &usable), BLOCK_DAMAGED);
			p[i] ^= 0x10;
		}
		assert_true(give(p, size));
	}
}

static bool is_behind_guard(const struct slab *s, const unsigned char *p)
{
	return s->has_guard && (uintptr_t)p == align_up(s->base + os_facts.page_size, os_facts.page_size);
}

/* Of every block of a slab, the first one, too. */
static void byte_before_any_block_written_seen(void **state)
{
	static const size_t sizes[] = {8, 24, 40, 100, 1000, 4080, 9000, 30000};
	static unsigned char *blocks[4096];

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		unsigned count = hak_size_classes[sc_of(sizes[i] + CANARY_BYTES)].capacity;
		size_t usable;
		for (unsigned n = 0; n < count; n++)
			blocks[n] = take(sizes[i]);
		for (unsigned n = 0; n < count; n++) {
			if (is_behind_guard(fixture_slab_of((uintptr_t)blocks[n]), blocks[n]))
				continue; /* that ends the program: see the tests of misuse */
			blocks[n][-1] ^= 2;
			assert_int_equal(block_usable_size(OP_FREE, blocks[n], &usable), BLOCK_DAMAGED);
			assert_int_equal(usable, sizes[i]);
			blocks[n][-1] ^= 2;
		}
		for (unsigned n = 0; n < count; n++)
			assert_true(give(blocks[n], sizes[i]));
	}
}

static void byte_before_block_written_reported(void **state)
{
	unsigned char *p = take(40);

	p[-1] ^= 2;
	listen_begin();
	assert_true(free_block(heap, p));
	assert_said("write before %p (40-byte block)", (void *)p);
	p[-1] ^= 2;
	assert_true(give(p, 40));
}

static void block_freed_twice_reported_wherever_it_waits(void **state)
{
	static const size_t sizes[] = {1, 24, 500, 9000, 50000, 800000};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (int flushed = 0; flushed < 2; flushed++) {
			unsigned char *keeper = take(sizes[i]), *p = take(sizes[i]);
			assert_true(free_block(heap, p));
			if (flushed) {
				quarantine_flush(heap);
				quarantine_flush_large();
			}
			listen_begin();
			free_block(heap, p);
			if (flushed && sizes[i] >= (hak_settings.secure >= 3 ? SC_MAX_SIZE : LARGE_BIG_MIN))
				listen_end(); /* the addresses may be anybody's by now */
			else
				assert_said("double free of %p (%zu-byte block)", (void *)p, sizes[i]);
			assert_true(give(keeper, sizes[i]));
		}
}

static void block_never_handed_out_reported(void **state)
{
	unsigned char *p = take(40);
	const struct slab *s = fixture_slab_of((uintptr_t)p);
	uintptr_t other = 0;

	for (unsigned i = slab_reserved(s); i < s->carved && other == 0; i++)
		if (canary_load(fixture_block(s, i), s->block_size) == 0)
			other = fixture_block(s, i);
	assert_int_not_equal(other, 0);
	listen_begin();
	assert_false(secure_check(OP_FREE, s, other, KIND_MALLOC));
	assert_said("free of invalid pointer %p", (void *)other);
	assert_true(give(p, 40));
}

static const char *other_operator = ""; /* that something else in the process has */

const void *__wrap_elf_find_elsewhere(const char *name, const char *but);
const void *__wrap_elf_find_elsewhere(const char *name, const char *but)
{
	return strcmp(name, other_operator) == 0 ? other_operator : NULL;
}

static void expect_kinds_told_apart(bool from_malloc)
{
	static const char *const by[] = {"", "free", "delete", "delete[]"};
	static const char *const made[] = {"", "malloc", "new", "new[]"};
	static const size_t sizes[] = {30, 60000};

	for (int i = 0; i < 2; i++)
		for (unsigned m = KIND_MALLOC; m <= KIND_NEW_ARRAY; m++)
			for (unsigned b = KIND_MALLOC; b <= KIND_NEW_ARRAY; b++) {
				unsigned char *p = take(sizes[i]);
				secure_set_kind(p, m);
				listen_begin();
				assert_true(free_block_as(heap, p, b));
				if (m == b || (!from_malloc && (m == KIND_MALLOC || b == KIND_MALLOC))) {
					assert_said("%s", "");
					continue;
				}
				assert_said("%s of %p (%zu-byte block) made by %s", by[b], (void *)p, sizes[i], made[m]);
				assert_true(free_block_as(heap, p, KIND_FREED)); /* by whatever */
			}
}

static void block_of_other_kind_reported(void **state)
{
	expect_kinds_told_apart(true);
}

/* Last: once there is such a library this is so for good. It may have new alone. */
static void new_not_told_from_malloc_where_others_have_operators(void **state)
{
	other_operator = sizeof(size_t) == 8 ? "_Znwm" : "_Znwj";
	expect_kinds_told_apart(false);
	other_operator = "";
	expect_kinds_told_apart(false);
}

static void sized_free_of_any_size_accepts_that_alone(void **state)
{
	for (size_t size = 1; size < HAK_MIB; size += 1 + size / 6) {
		unsigned char *p = take(size);
		assert_true(secure_check_sized(p, size, 0, KIND_NEW));
		assert_false(secure_check_sized(p, 2 * size + 100, 0, KIND_NEW));
		if (hak_settings.secure >= 2) {
			assert_false(secure_check_sized(p, size + 1, 0, KIND_NEW));
			assert_true(size == 1 || !secure_check_sized(p, size - 1, 0, KIND_NEW));
		}
		assert_true(free_block(heap, p));
	}
}

static void sized_free_wrong_reported(void **state)
{
	unsigned char *p = take(3000);
	size_t usable;

	assert_int_equal(block_usable_size(OP_FREE, p, &usable), BLOCK_OURS);
	listen_begin();
	assert_false(secure_check_sized(p, 64, 0, KIND_NEW));
	assert_said("free of %p (%zu-byte block) with size 64", (void *)p, usable);
	assert_true(give(p, 3000));

	unsigned char *both = alloc_block(heap, 100, 256, false);
	assert_true(secure_check_sized(both, 100, 256, KIND_NEW));
	assert_true(free_block(heap, both));

	p = take(100); /* of its alignment more is asked than it can have */
	size_t align = 2 * ((uintptr_t)p & -(uintptr_t)p);
	assert_int_equal(block_usable_size(OP_FREE, p, &usable), BLOCK_OURS);
	listen_begin();
	assert_false(secure_check_sized(p, 100, align, KIND_NEW));
	assert_said("free of %p (%zu-byte block) with alignment %zu", (void *)p, usable, align);
	assert_true(give(p, 100));
}

/* A canary that was overwritten while its block was free and out of quarantine. */
static void slab_given_back_with_broken_canary_reported(void **state)
{
	unsigned char *p = take(5000);
	const struct slab *s = fixture_slab_of((uintptr_t)p);
	size_t room = s->block_size - CANARY_BYTES;

	assert_true(give(p, 5000));
	quarantine_flush(heap);
	p[room] ^= 1;
	listen_begin();
	heap_flush(heap);
	assert_said("write behind %p (%zu-byte block)", (void *)p, room);
	assert_true(all_is_back());
}

static void resized_block_has_its_new_size(void **state)
{
	unsigned char *p = take(100);
	size_t room = fixture_slab_of((uintptr_t)p)->block_size - CANARY_BYTES, usable;

	for (size_t size = room; size > 0; size--) {
		assert_true(block_resize(p, size, true));
		assert_int_equal(block_usable_size(OP_REALLOC, p, &usable), BLOCK_OURS);
		assert_int_equal(usable, size);
	}
	assert_false(block_resize(p, room + 1, true));
	assert_true(give(p, 1));
}

static void links_shuffled_are_each_block_once(void **state)
{
	enum { SIZE = 16, MOST = 1000 };
	static const unsigned counts[] = {0, 1, 2, 3, 255, 256, 257, MOST};
	static unsigned char memory[MOST * SIZE] HAK_CACHE_ALIGNED;
	static unsigned char seen[MOST];
	uintptr_t first = (uintptr_t)memory, end = link_encode((uintptr_t)heap | 1);
	unsigned in_order = 0, steps = 0;

	for (unsigned round = 0; round < SEEDS; round++)
		for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
			uintptr_t link = secure_link_shuffled(heap, first, SIZE, counts[c], end), last = first;
			memset(seen, 0, sizeof seen);
			unsigned n = 0;
			for (; link != end; link = block_link(link_decode(link)), n++) {
				uintptr_t at = link_decode(link);
				assert_true(n < counts[c] && at >= first && (at - first) % SIZE == 0);
				assert_true((at - first) / SIZE < counts[c]);
				assert_int_equal(seen[(at - first) / SIZE]++, 0);
				in_order += at == last + SIZE;
				steps++;
				last = at;
			}
			assert_int_equal(n, counts[c]);
		}
	assert_true(in_order < steps / 20);
}

/* Two heaps, or one at two times, hand out in different orders. */
static void placement_differs_between_slabs(void **state)
{
	enum { BLOCKS = 64 };
	uintptr_t offset[2][BLOCKS];
	unsigned char *blocks[2 * BLOCKS];
	unsigned same = 0;

	for (unsigned i = 0; i < 2 * BLOCKS; i++) {
		blocks[i] = take(i < BLOCKS ? 1000 : 900);
		offset[i / BLOCKS][i % BLOCKS] = ((uintptr_t)blocks[i] % GRANULE) /
			fixture_slab_of((uintptr_t)blocks[i])->block_size;
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		same += offset[0][i] == offset[1][i];
	/* Eight blocks are shuffled at a time: an eighth is the same by chance, a half in one run of 10^9. */
	assert_true(same < BLOCKS / 2);
	for (unsigned i = 0; i < 2 * BLOCKS; i++)
		assert_true(give(blocks[i], 1));
}

/* Of any size, though no more than a page is carved at a time otherwise. */
static void large_blocks_of_slab_not_in_order(void **state)
{
	enum { LARGE = 3000, COUNT = 64 };
	char *block[COUNT];
	unsigned rising = 0;

	for (unsigned i = 0; i < COUNT; i++) {
		block[i] = alloc_block(heap, LARGE, ALLOC_ALIGN, false);
		rising += i > 0 && block[i] > block[i - 1];
	}
	for (unsigned i = 0; i < COUNT; i++)
		free_block(heap, block[i]);
	/* Half of them by chance; so many in one run of 10^9. */
	assert_true(rising < COUNT - 8);
}

static void slab_guarded_keeps_its_blocks_off_the_page(void **state)
{
	for (unsigned sc = 1; sc < SC_COUNT; sc++) {
		size_t size = hak_size_classes[sc].size - CANARY_BYTES;
		unsigned char *p = take(size);
		const struct slab *s = fixture_slab_of((uintptr_t)p);
		assert_true(s->has_guard);
		assert_false(os_is_readable((const void *)s->base));
		for (unsigned i = slab_reserved(s); i < s->carved; i++)
			assert_true(fixture_block(s, i) >= s->base + os_facts.page_size);
		assert_true(give(p, size));
	}
}

#define AT(level, test) cmocka_unit_test_setup_teardown(test, start_##level, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		AT(1, block_any_size_has_that_and_is_zero),
		AT(2, block_any_size_has_that_and_is_zero),
		AT(3, block_any_size_has_that_and_is_zero),
		AT(2, block_made_zero_keeps_its_canary_whole),
		AT(2, bytes_behind_block_written_reported),
		AT(2, word_of_zeros_behind_block_reported),
		AT(2, byte_anywhere_behind_block_written_seen),
		AT(2, byte_before_any_block_written_seen),
		AT(3, byte_before_any_block_written_seen),
		AT(2, byte_before_block_written_reported),
		AT(2, block_freed_twice_reported_wherever_it_waits),
		AT(3, block_freed_twice_reported_wherever_it_waits),
		AT(2, block_never_handed_out_reported),
		AT(2, block_of_other_kind_reported),
		AT(1, sized_free_of_any_size_accepts_that_alone),
		AT(2, sized_free_of_any_size_accepts_that_alone),
		AT(1, sized_free_wrong_reported),
		AT(2, sized_free_wrong_reported),
		AT(2, slab_given_back_with_broken_canary_reported),
		AT(2, resized_block_has_its_new_size),
		AT(2, large_blocks_of_slab_not_in_order),
		AT(2, links_shuffled_are_each_block_once),
		AT(2, placement_differs_between_slabs),
		AT(3, slab_guarded_keeps_its_blocks_off_the_page),
		AT(2, new_not_told_from_malloc_where_others_have_operators),
	};

	return UNIT_RUN(tests);
}
