/* SPDX-License-Identifier: MIT */
/*
 * What programs may rely on under hardening, and that one goes on after a misuse where HAKMEM_ON_ERROR says
 * so. Judged by quiet.c, under several settings; a case that they do not concern is skipped.
 */
#include "cases.h"
#include "hakmem.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t sizes[] = {1, 24, 48, 700, 3000, 12 << 10, 32 << 10, 100 << 10, 700 << 10, 3 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void *opaque(void *p)
{
	__asm__ volatile("" : "+r"(p));
	return p;
}

static int level(void)
{
	const char *value = getenv("HAKMEM_SECURE");

	return value ? atoi(value) : 0;
}

static void need_going_on(void)
{
	const char *value = getenv("HAKMEM_ON_ERROR");

	if (!value || strcmp(value, "ignore") != 0)
		case_skip();
}

/* The allocator is in order: blocks are whole and their own. */
static void work(void)
{
	static unsigned char *blocks[500];

	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < 500; i++) {
			size_t size = sizes[(i * 7 + round) % (SIZES - 1)];

			CHECK((blocks[i] = malloc(size)));
			blocks[i][0] = blocks[i][size - 1] = (unsigned char)i;
		}
		for (unsigned i = 0; i < 500; i++) {
			size_t size = sizes[(i * 7 + round) % (SIZES - 1)];

			CHECK(blocks[i][0] == (unsigned char)i && blocks[i][size - 1] == (unsigned char)i);
			free(blocks[i]);
		}
	}
}

static void double_free_goes_on(void)
{
	need_going_on();
	for (unsigned i = 0; i < SIZES; i++) {
		void *p = malloc(sizes[i]);

		free(p);
		free(opaque(p));
	}
	work();
}

static void invalid_pointers_go_on(void)
{
	_Alignas(16) char buffer[64];

	need_going_on();
	free(opaque(buffer));
	free((void *)0xdeadbee0);
	CHECK(malloc_usable_size(opaque(buffer)) == 0);
	for (unsigned i = 1; i < SIZES; i++) {
		char *p = malloc(sizes[i]);

		free(opaque(p + 16));
		CHECK(malloc_usable_size(opaque(p + 8)) == 0);
		free(p);
	}
	work();
}

static void realloc_of_wrong_pointer_gives_block(void)
{
	_Alignas(16) char buffer[64];
	char *p;

	need_going_on();
	p = realloc(opaque(buffer), 1000);
	CHECK(p);
	memset(p, 1, 1000);
	free(p);
	CHECK(realloc(opaque(buffer), 0) == NULL);
	work();
}

static void overflow_goes_on(void)
{
	need_going_on();
	if (level() < 2)
		case_skip();
	for (unsigned i = 0; i < SIZES; i++) {
		char *p = malloc(sizes[i]);

		((char *)opaque(p))[sizes[i]] = 0x41;
		free(p);
	}
	work();
}

static void write_after_free_goes_on(void)
{
	need_going_on();
	if (level() < 2)
		case_skip();
	for (unsigned i = 0; i < SIZES; i++) {
		char *p = malloc(sizes[i]);

		free(p);
		((char *)opaque(p))[0] = 0x41;
	}
	malloc_trim(0);
	work();
}

/* The blocks behind it on its list are lost, no others. */
static void write_to_link_goes_on(void)
{
	enum { COUNT = 60 };
	static void *blocks[COUNT];

	need_going_on();
	for (unsigned i = 0; i < SIZES && sizes[i] <= 12 << 10; i++) {
		for (unsigned k = 0; k < COUNT; k++)
			CHECK((blocks[k] = malloc(sizes[i] + 8)));
		for (unsigned k = 0; k < COUNT; k++)
			free(blocks[k]);
		for (unsigned k = 0; k < COUNT; k += 20)
			memset(opaque(blocks[k]), (int)(k / 20 * 127), 8);
		work();
	}
}

/* Where small blocks were, whose links and canaries nobody may read. */
static void grown_blocks_gain_zeros(void)
{
	enum { SMALL = 4000, LARGE = 20, ROUNDS = 20 };
	static unsigned char *small[SMALL], *large[LARGE];

	if (level() == 0)
		case_skip();
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < SMALL; i++)
			CHECK((small[i] = malloc(1000)));
		for (unsigned i = 0; i < SMALL; i++)
			free(small[i]);
		for (unsigned i = 0; i < LARGE; i++) {
			CHECK((large[i] = malloc(40 << 10)));
			size_t had = malloc_usable_size(large[i]);
			for (size_t size = 44 << 10; size <= 60 << 10; size += 4 << 10) {
				CHECK((large[i] = realloc(large[i], size)));
				for (size_t at = had; at < size; at++)
					CHECK(large[i][at] == 0);
			}
		}
		for (unsigned i = 0; i < LARGE; i++)
			free(large[i]);
	}
}

static void fresh_blocks_read_zero(void)
{
	if (level() < 1)
		case_skip();
	for (unsigned i = 0; i < 20000; i++) {
		size_t size = sizes[i % 7] + i % 61;
		unsigned char *p = malloc(size);

		CHECK(p);
		for (size_t at = 0; at < size; at++)
			CHECK(p[at] == 0);
		memset(p, 0xff, size);
		free(p);
	}
}

/* One that lies with another: a sampled block (guard_rate) stands alone, and is not to be read when it is freed.
   Where all are sampled, any. */
static unsigned char *take_unsampled(size_t size)
{
	char *before = malloc(size), *p = malloc(size);

	while (!getenv("HAKMEM_GUARD_RATE") && ((uintptr_t)p ^ (uintptr_t)before) >> 16 != 0) {
		before = p;
		p = malloc(size);
		CHECK(p);
	}
	return (unsigned char *)p;
}

/* Written by free, not by the next malloc. */
static void freed_blocks_are_wiped(void)
{
	volatile unsigned char *p;

	if (level() < 1)
		case_skip();
	free(malloc(1000));
	p = take_unsampled(1000);
	memset((void *)(uintptr_t)p, 0x77, 1000);
	free(opaque((void *)(uintptr_t)p));
	for (unsigned i = 8; i < 1000; i++)
		CHECK(p[i] != 0x77);
}

static void order_of_blocks_is_random(void)
{
	char *before = malloc(48);
	unsigned ascending = 0;

	if (level() < 2)
		case_skip();
	for (unsigned i = 0; i < 400; i++) {
		char *p = malloc(48);

		ascending += p == before + 64;
		before = p;
	}
	CHECK(ascending < 40);
}

static void freed_blocks_wait(void)
{
	void *p = malloc(48);

	if (level() < 2 || getenv("HAKMEM_GUARD_RATE")) /* slots wait for their turn only */
		case_skip();
	free(opaque(p));
	for (unsigned i = 0; i < 500; i++) {
		void *q = malloc(48);

		CHECK(q != p);
		free(opaque(q));
	}
}

static void sizes_are_exact(void)
{
	if (level() < 2)
		case_skip();
	for (size_t size = 1; size < 100000; size += 1 + size / 9) {
		char *p = malloc(size);

		CHECK(malloc_usable_size(p) == size);
		CHECK((p = realloc(p, size + 3)) && malloc_usable_size(p) == size + 3);
		free(p);
	}
}

static void faults_of_the_program_kill_it(void)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		*(volatile char *)opaque((void *)64) = 1;
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* Pages of its own that it has shut are no business of ours. */
static void faults_in_pages_it_shut_kill_it(void)
{
	static const size_t pages[] = {1, 4, 25, 256, 2048};
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			char *p = memalign(page, pages[i] * page);

			CHECK(p && mprotect(p, page, PROT_NONE) == 0);
			*(volatile char *)opaque(p + 100) = 1;
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	}
}

/* To let such an access through would not help: it would fault again, for ever. */
static void jump_into_freed_block_kills_it(void)
{
	int status;

	need_going_on();
	pid_t child = fork();
	if (child == 0) {
		char *p = opaque(malloc(200 << 10));
		void (*jump)(void);

		free(p);
		memcpy(&jump, &p, sizeof jump);
		alarm(20);
		jump();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* It comes once, and not by running an instruction again. */
static void faults_that_are_sent_kill_it(void)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		kill(getpid(), SIGSEGV);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static volatile sig_atomic_t handled;

static void handle(int number)
{
	handled++;
	_exit(handled == 1 ? 7 : 8);
}

static void handlers_of_the_program_are_called(void)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		signal(SIGSEGV, handle);
		*(volatile char *)opaque((void *)64) = 1;
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* ---- what frees say of sizes ---- */

static void *lookup(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	CHECK(found);
	return found;
}

static void free_sized_as(void *p, size_t size)
{
	CHECK(malloc_usable_size(p) >= size);
	((__typeof__(hak_free_size) *)lookup("hak_free_size"))(p, size);
}

/* Also where realloc leaves the block in its place. */
static void resized_blocks_have_their_new_size(void)
{
	for (size_t i = 0; i < SIZES; i++)
		for (size_t eighths = 1; eighths < 16; eighths++) {
			size_t size = sizes[i] * eighths / 8 + 1;
			void *p = malloc(sizes[i]), *aligned = aligned_alloc(64, sizes[i]);

			CHECK(p && aligned);
			CHECK((p = realloc(p, size)) && (aligned = realloc(aligned, size)));
			free_sized_as(p, size);
			free_sized_as(aligned, size);
		}
}

static void expanded_blocks_have_their_new_size(void)
{
	__typeof__(hak_expand) *expand = lookup("hak_expand");

	for (size_t i = 0; i < SIZES; i++) {
		size_t more = sizes[i] + sizes[i] / 16 + 1;
		void *p = malloc(sizes[i]);

		CHECK(p);
		free_sized_as(p, expand(p, more) ? more : sizes[i]);
	}
}

static void expand_of_wrong_pointer_gives_none(void)
{
	__typeof__(hak_expand) *expand = lookup("hak_expand");
	char *p = malloc(100), *next = malloc(100);

	need_going_on();
	CHECK(p && next);
	CHECK(!expand(opaque(p + 16), 60) && !expand(opaque(p + 16), 300));
	free(p);
	CHECK(!expand(opaque(p), 50));
	free(next);
	work();
}

static hak_heap_t *new_heap(void)
{
	__typeof__(hak_heap_new) *make = lookup("hak_heap_new");
	hak_heap_t *heap = make();

	CHECK(heap);
	return heap;
}

static void destroy_heap(hak_heap_t *heap)
{
	__typeof__(hak_heap_destroy) *destroy = lookup("hak_heap_destroy");

	destroy(heap);
}

/* A block that was written to behind its end is left alone, but what is in it the program wants. */
static void resizing_of_overflown_block_keeps_contents(void)
{
	enum { WAYS = 3 };
	__typeof__(hak_rezalloc) *rezalloc = lookup("hak_rezalloc");
	__typeof__(hak_heap_realloc) *take = lookup("hak_heap_realloc");
	hak_heap_t *heap = new_heap();

	need_going_on();
	if (level() < 2)
		case_skip();
	for (size_t i = 0; i < SIZES * WAYS; i++) {
		size_t size = sizes[i / WAYS], more = size + 100;
		unsigned char *p = malloc(size), *copy;

		CHECK(p);
		for (size_t at = 0; at < size; at++)
			p[at] = (unsigned char)(at * 31 + 7);
		((unsigned char *)opaque(p))[size] ^= 0x41;
		copy = i % WAYS == 0 ? realloc(opaque(p), more) :
			i % WAYS == 1 ? rezalloc(opaque(p), more) : take(heap, opaque(p), more);
		CHECK(copy);
		for (size_t at = 0; at < size; at++)
			CHECK(copy[at] == (unsigned char)(at * 31 + 7));
		free(copy);
	}
	destroy_heap(heap);
	work();
}

/* A new block then, as realloc gives one. */
static void resizing_of_freed_block_gives_another(void)
{
	__typeof__(hak_rezalloc) *rezalloc = lookup("hak_rezalloc");
	__typeof__(hak_heap_realloc) *take = lookup("hak_heap_realloc");
	hak_heap_t *heap = new_heap();

	need_going_on();
	for (size_t i = 0; i < SIZES; i++) {
		size_t size = sizes[i];
		unsigned char *freed = malloc(size), *zero, *of_heap;

		CHECK(freed);
		memset(freed, 1, size);
		free(freed);
		CHECK(!rezalloc(opaque(freed), 0) && !take(heap, opaque(freed), 0));
		CHECK((zero = rezalloc(opaque(freed), size * 2)));
		for (size_t at = 0; at < size * 2; at++)
			CHECK(zero[at] == 0);
		CHECK((of_heap = take(heap, opaque(zero + 4), size)));
		free(zero);
		free(of_heap);
	}
	destroy_heap(heap);
	work();
}

static void blocks_of_heaps_have_their_new_size(void)
{
	__typeof__(hak_heap_realloc) *take = lookup("hak_heap_realloc");
	hak_heap_t *heap = new_heap();

	for (size_t i = 0; i < SIZES; i++)
		for (size_t eighths = 1; eighths < 16; eighths++) {
			size_t size = sizes[i] * eighths / 8 + 1;
			void *p = take(heap, NULL, sizes[i]);

			CHECK(p && (p = take(heap, p, size)));
			free_sized_as(p, size);
		}
	destroy_heap(heap);
}

/* ---- memory that waits ---- */

static size_t address_space(void)
{
	char text[64] = "";
	int fd = open("/proc/self/statm", O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
		case_skip();
	close(fd);
	return strtoul(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Freed memory may be kept from the program, but not when it asks for memory and there is no other. */
static void quarantine_gives_way(void)
{
	enum { ROOM = 128 << 20, MANY = 1024 };
	static void *blocks[MANY];
	static const size_t big[] = {8 << 20, 20 << 20, 400 << 10};
	struct rlimit limit;

	CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
	limit.rlim_cur = address_space() + ROOM;
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	for (size_t i = 0; i < sizeof big / sizeof *big; i++) {
		unsigned most = 0;

		for (unsigned round = 0; round < 4; round++) {
			unsigned n = 0;

			while (n < MANY && (blocks[n] = malloc(big[i])))
				n++;
			CHECK(n > 0 && n + n / 4 + 2 >= most);
			most = n > most ? n : most;
			for (unsigned k = 0; k < n; k++)
				free(blocks[k]);
		}
	}
}

/* What was written after a free, and let go on, is in no later block. */
static void written_after_free_is_seen_by_nobody(void)
{
	enum { COUNT = 300 };
	static unsigned char *blocks[COUNT];

	need_going_on();
	for (size_t i = 0; i < SIZES; i++) {
		size_t size = sizes[i];
		unsigned char *p = malloc(size);

		CHECK(p);
		if (level() < 2)
			return;
		free(opaque(p));
		p[size - 1] = 0x41;
		for (unsigned k = 0; k < COUNT && size * k < 200 << 20; k++) {
			CHECK((blocks[k] = calloc(1, size)));
			CHECK(blocks[k][0] == 0 && memcmp(blocks[k], blocks[k] + 1, size - 1) == 0);
		}
		for (unsigned k = 0; k < COUNT; k++) {
			free(blocks[k]);
			blocks[k] = NULL;
		}
	}
}

/* ---- what a walk finds ---- */

static int count_block(const struct hak_area *area, void *arg)
{
	static size_t (*usable_size)(const void *);

	if (usable_size == NULL)
		*(void **)&usable_size = lookup("hak_usable_size");
	if (area->kind == HAK_AREA_BLOCK)
		CHECK(area->size == usable_size(area->start));
	*(size_t *)arg += area->kind == HAK_AREA_BLOCK;
	return 0;
}

static void walk_finds_live_blocks_alone(void)
{
	enum { COUNT = 500 };
	static void *blocks[COUNT];
	__typeof__(hak_heap_visit) *visit = lookup("hak_heap_visit");
	size_t before = 0, full = 0, after = 0;

	CHECK(visit(count_block, &before) == 0);
	for (size_t i = 0; i < COUNT; i++)
		CHECK((blocks[i] = malloc(100)));
	CHECK(visit(count_block, &full) == 0);
	for (size_t i = 0; i < COUNT; i++)
		free(blocks[i]);
	CHECK(visit(count_block, &after) == 0);
	CHECK(full >= before + COUNT && after < before + COUNT / 4);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"resized_blocks_have_their_new_size", resized_blocks_have_their_new_size},
		{"expanded_blocks_have_their_new_size", expanded_blocks_have_their_new_size},
		{"blocks_of_heaps_have_their_new_size", blocks_of_heaps_have_their_new_size},
		{"quarantine_gives_way", quarantine_gives_way},
		{"written_after_free_is_seen_by_nobody", written_after_free_is_seen_by_nobody},
		{"walk_finds_live_blocks_alone", walk_finds_live_blocks_alone},
		{"double_free_goes_on", double_free_goes_on},
		{"invalid_pointers_go_on", invalid_pointers_go_on},
		{"expand_of_wrong_pointer_gives_none", expand_of_wrong_pointer_gives_none},
		{"resizing_of_freed_block_gives_another", resizing_of_freed_block_gives_another},
		{"realloc_of_wrong_pointer_gives_block", realloc_of_wrong_pointer_gives_block},
		{"overflow_goes_on", overflow_goes_on},
		{"resizing_of_overflown_block_keeps_contents", resizing_of_overflown_block_keeps_contents},
		{"write_after_free_goes_on", write_after_free_goes_on},
		{"write_to_link_goes_on", write_to_link_goes_on},
		{"grown_blocks_gain_zeros", grown_blocks_gain_zeros},
		{"fresh_blocks_read_zero", fresh_blocks_read_zero},
		{"freed_blocks_are_wiped", freed_blocks_are_wiped},
		{"order_of_blocks_is_random", order_of_blocks_is_random},
		{"freed_blocks_wait", freed_blocks_wait},
		{"sizes_are_exact", sizes_are_exact},
		{"faults_of_the_program_kill_it", faults_of_the_program_kill_it},
		{"faults_in_pages_it_shut_kill_it", faults_in_pages_it_shut_kill_it},
		{"jump_into_freed_block_kills_it", jump_into_freed_block_kills_it},
		{"faults_that_are_sent_kill_it", faults_that_are_sent_kill_it},
		{"handlers_of_the_program_are_called", handlers_of_the_program_are_called},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
