/* SPDX-License-Identifier: MIT */
#include "os/vdso.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sys/auxv.h>
#include <time.h>

#include "common.h"
#include "os/os.h"

enum { ODD_ERRNO = 4242 };

static bool is_hidden;

/* A vDSO with one symbol, and a hash table of either kind. */
static struct image {
	ElfW(Ehdr) header;
	ElfW(Phdr) segment[2];
	ElfW(Dyn) dynamic[4];
	ElfW(Sym) symbol[2];
	struct {
		uint32_t buckets, first, bloom_words, shift;
		size_t bloom;
		uint32_t bucket, chain;
	} gnu_hash;
	struct {
		uint32_t buckets, symbols, bucket, chain[2];
	} hash;
	char names[32];
	char function;
} image;

enum { GNU_HASH_OF_TEST = 0xc222d192 }; /* of "__vdso_of_the_test" */

static const struct image *shown; /* instead of the kernel's, if not NULL */

/* Instead of libc's: with is_hidden, the kernel gives no vDSO, as under valgrind and some sandboxes. */
unsigned long getauxval(unsigned long type)
{
	unsigned long (*next)(unsigned long type);

	if (type == AT_SYSINFO_EHDR && is_hidden) {
		errno = ENOENT;
		return 0;
	}
	if (type == AT_SYSINFO_EHDR && shown != NULL)
		return (unsigned long)shown;
	*(void **)&next = dlsym(RTLD_NEXT, "getauxval");
	return next(type);
}

static uint64_t ms_of_system(void)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC_COARSE, &ts), 0);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void clock_is_asked(void)
{
	uint64_t before = ms_of_system(), now, after;

	errno = ODD_ERRNO;
	now = os_now_ms();
	assert_int_equal(errno, ODD_ERRNO);
	after = ms_of_system();
	assert_in_range(now, before, after);
}

/* First in the program: the clock has never been looked at. */
static void no_vdso_time_from_kernel_errno_kept(void **state)
{
	is_hidden = true;
	errno = ODD_ERRNO;
	assert_null(vdso_find("__vdso_clock_gettime"));
	assert_int_equal(errno, ODD_ERRNO);
	clock_is_asked();
	is_hidden = false;
	clock_is_asked();
}

static void function_unknown_none(void **state)
{
	errno = ODD_ERRNO;
	assert_null(vdso_find("__vdso_no_such_function"));
	assert_null(vdso_find(""));
	assert_int_equal(errno, ODD_ERRNO);
}

/* Some kernels link theirs for the top of the address space, wherever it comes to lie. */
static void function_found_wherever_linked(void **state)
{
	static const uintptr_t linked_for[] = {0, 0x100000, (uintptr_t)-0x900000, UINTPTR_MAX / 2 + 1};

	for (size_t i = 0; i < 2 * sizeof linked_for / sizeof *linked_for; i++) {
		uintptr_t at = linked_for[i / 2];
		bool is_new = i % 2 != 0;
		image = (struct image){
			.header = {.e_phoff = offsetof(struct image, segment), .e_phnum = 2},
			.segment = {
				{.p_type = PT_LOAD, .p_vaddr = at},
				{.p_type = PT_DYNAMIC, .p_offset = offsetof(struct image, dynamic)},
			},
			.dynamic = {
				{.d_tag = DT_SYMTAB, .d_un.d_ptr = at + offsetof(struct image, symbol)},
				{.d_tag = DT_STRTAB, .d_un.d_ptr = at + offsetof(struct image, names)},
				{.d_tag = is_new ? DT_GNU_HASH : DT_HASH,
					.d_un.d_ptr = at + (is_new ? offsetof(struct image, gnu_hash) : offsetof(struct image, hash))},
			},
			.symbol = {{.st_name = 0},
				{.st_name = 1, .st_shndx = 1, .st_value = at + offsetof(struct image, function)}},
			.gnu_hash = {.buckets = 1, .first = 1, .bloom_words = 1, .bucket = 1, .chain = GNU_HASH_OF_TEST | 1},
			.hash = {.buckets = 1, .symbols = 2, .bucket = 1},
			.names = "\0__vdso_of_the_test",
		};
		shown = &image;
		assert_ptr_equal(vdso_find("__vdso_of_the_test"), &image.function);
		assert_null(vdso_find("__vdso_of_the_tes"));
		shown = NULL;
	}
}

static void clock_found_tells_time(void **state)
{
	int (*clock)(clockid_t clock, struct timespec *ts);
	uint64_t before = ms_of_system();
	struct timespec ts;

	*(void **)&clock = vdso_find("__vdso_clock_gettime");
	if (clock == NULL)
		*(void **)&clock = vdso_find("__kernel_clock_gettime");
	if (getauxval(AT_SYSINFO_EHDR) == 0)
		skip();
	assert_non_null(clock);
	assert_int_equal(clock(CLOCK_MONOTONIC_COARSE, &ts), 0);
	assert_in_range((uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000, before, ms_of_system());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_vdso_time_from_kernel_errno_kept),
		cmocka_unit_test(function_unknown_none),
		cmocka_unit_test(function_found_wherever_linked),
		cmocka_unit_test(clock_found_tells_time),
	};

	return UNIT_RUN(tests);
}
