/* SPDX-License-Identifier: MIT */
/* Built with frame pointers, so that there is something to follow. */
#include "os/trace.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "common.h"
#include "listen.h"
#include "observe/stack.h"
#include "os/os.h"

enum { MOST = 16, STACK = 128 * 1024 };

static uintptr_t pc[MOST + 1];
static unsigned count;

/* ---- a chain of known calls ---- */

static uintptr_t back[3];     /* return addresses, innermost first */
static int caller_at;         /* which of them is the program's caller; -1: none is told, -2: nobody */
static unsigned most;

static HAK_NOINLINE void first(void)
{
	back[0] = (uintptr_t)__builtin_return_address(0);
	memset(pc, 0xee, sizeof pc);
	count = trace_walk(pc, most, caller_at == -1 ? NULL : caller_at == -2 ? (void *)0x1234567
	                                                                      : (void *)back[caller_at]);
	__asm__ volatile("" ::: "memory"); /* no tail call */
}

static HAK_NOINLINE void second(void)
{
	back[1] = (uintptr_t)__builtin_return_address(0);
	first();
	__asm__ volatile("" ::: "memory");
}

static HAK_NOINLINE void third(void)
{
	back[2] = (uintptr_t)__builtin_return_address(0);
	second();
	__asm__ volatile("" ::: "memory");
}

static void *on_thread(void *unused)
{
	third();
	return NULL;
}

static void walk(int caller, unsigned frames)
{
	caller_at = caller;
	most = frames;
	third();
}

static void assert_chain(unsigned from, unsigned at)
{
	for (; from < 3; from++, at++)
		assert_int_equal(pc[at], back[from]);
}

static void walk_gives_callers_innermost_first(void **state)
{
	walk(-1, MOST);
	assert_true(count >= 3 && count <= MOST);
	assert_chain(0, 0);
}

static void walk_begins_at_caller(void **state)
{
	for (int i = 0; i < 3; i++) {
		walk(i, MOST);
		assert_true(count >= 3 - (unsigned)i);
		assert_chain((unsigned)i, 0);
	}
}

static void walk_puts_caller_that_is_nobody_first(void **state)
{
	walk(-2, MOST);
	assert_int_equal(pc[0], 0x1234567);
	assert_chain(0, 1);
}

static void walk_writes_no_more_than_asked(void **state)
{
	for (unsigned n = 0; n <= 3; n++)
		for (int caller = -2; caller < 3; caller++) {
			walk(caller, n);
			assert_true(count <= n);
			assert_true(bytes_are(pc + n, sizeof pc - n * sizeof *pc, 0xee));
		}
}

static void walk_on_thread_gives_callers(void **state)
{
	pthread_t thread;

	caller_at = -1;
	most = MOST;
	assert_int_equal(pthread_create(&thread, NULL, on_thread, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(count >= 3);
	assert_chain(0, 0);
}

/* ---- stacks of the program's own, and frame pointers that lead anywhere ---- */

static char *stack; /* STACK bytes; a page that nobody may touch; one that can be read; nothing */
static uintptr_t leads_to;

/* The walk from a frame whose caller's frame pointer is `leads_to`. */
static HAK_NOINLINE void walk_astray(void)
{
	uintptr_t *volatile up = __builtin_frame_address(0);
	uintptr_t saved = *up, caller = (uintptr_t)__builtin_return_address(0);
	struct stack s;
	struct trace t;

	*up = leads_to;
	errno = 77;
	count = trace_walk(pc, MOST, NULL);
	trace_capture(&t, (void *)caller);
	stack_capture(&s, (void *)caller);
	*up = saved;
	CHECK(errno == 77);
	CHECK(pc[0] == caller);
	/* Between there may be code without frame pointers, and their register used for something else: then
	   the caller is not met, and what lies above it not found. */
	CHECK(t.count >= 1 && t.count <= count && t.pc[0] == caller);
	CHECK(s.depth >= 1 && s.depth <= count && s.frame[0] == caller);
}

static ucontext_t main_context, coroutine;

static void coroutine_runs(void)
{
	walk_astray();
}

/* Returns what the walk found on a coroutine whose chain of frames leads there. */
static unsigned astray(uintptr_t to)
{
	leads_to = to;
	assert_int_equal(getcontext(&coroutine), 0);
	coroutine.uc_stack = (stack_t){.ss_sp = stack, .ss_size = STACK};
	coroutine.uc_link = &main_context;
	makecontext(&coroutine, coroutine_runs, 0);
	assert_int_equal(swapcontext(&main_context, &coroutine), 0);
	return count;
}

static int map_stack(void **state)
{
	size_t page = os_facts.page_size;

	stack = mmap(NULL, STACK + 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return stack == MAP_FAILED || mprotect(stack + STACK, page, PROT_NONE) != 0 ||
		munmap(stack + STACK + 2 * page, page) != 0;
}

static int unmap_stack(void **state)
{
	return munmap(stack, STACK + 2 * os_facts.page_size);
}

/* What is there anyway: the frame of walk_astray. */
enum { SURE = 1 };

static void walk_astray_ends_before_inaccessible_page(void **state)
{
	uintptr_t end = (uintptr_t)stack + STACK, word = sizeof(uintptr_t), page = os_facts.page_size;

	for (uintptr_t to = end; to < end + page; to += page / 16)
		assert_int_equal(astray(to), SURE);
	assert_int_equal(astray(end - word), SURE); /* half a record */
	assert_int_equal(astray(end + page - word), SURE);
	assert_int_equal(astray(end + 2 * page), SURE); /* nothing is there */
	assert_int_equal(astray(end + 2 * page - word), SURE);
}

static void walk_astray_goes_no_way_but_up(void **state)
{
	uintptr_t end = (uintptr_t)stack + STACK;
	uintptr_t wrong[] = {0, 1, end - 63, (uintptr_t)stack, (uintptr_t)stack - 4096, UINTPTR_MAX,
		UINTPTR_MAX - 7, UINTPTR_MAX - 15, (uintptr_t)1 << 63, (uintptr_t)1 << 47, (uintptr_t)&wrong};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(astray(wrong[i]), SURE);
}

/* A record that is there is followed, over the gap, too; a ring ends. */
static void walk_astray_follows_what_can_be_read(void **state)
{
	uintptr_t *last = (uintptr_t *)(stack + STACK) - 2;
	uintptr_t *beyond = (uintptr_t *)(stack + STACK + os_facts.page_size);

	last[0] = (uintptr_t)beyond;
	last[1] = 0x7777777;
	beyond[0] = (uintptr_t)last;
	beyond[1] = 0x8888888;
	assert_int_equal(astray((uintptr_t)beyond), SURE + 1);
	assert_int_equal(pc[SURE], 0x8888888);
}

static void handle(int number)
{
	walk_astray();
}

static void walk_on_alternate_stack_ends_at_its_end(void **state)
{
	stack_t old, ours = {.ss_sp = stack, .ss_size = STACK};

	leads_to = (uintptr_t)stack + STACK;
	assert_int_equal(sigaltstack(&ours, &old), 0);
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle, .sa_flags = SA_ONSTACK}, NULL);
	raise(SIGUSR1);
	assert_int_equal(count, SURE);
	signal(SIGUSR1, SIG_DFL);
	assert_int_equal(sigaltstack(&old, NULL), 0);
}

/* ---- memory ---- */

static void readable_says_what_can_be_read(void **state)
{
	const char *end = stack + STACK, *word = "constant";

	errno = 77;
	assert_true(os_is_readable(stack) && os_is_readable(end - 1) && os_is_readable(word));
	assert_false(os_is_readable(end) || os_is_readable(end + os_facts.page_size - 1));
	assert_true(os_is_readable(end + os_facts.page_size));
	assert_false(os_is_readable(end + 2 * os_facts.page_size));
	assert_false(os_is_readable(NULL) || os_is_readable((void *)UINTPTR_MAX));
	assert_false(os_is_readable((void *)((uintptr_t)1 << 63)));
	assert_int_equal(mprotect(stack, os_facts.page_size, PROT_READ), 0);
	assert_true(os_is_readable(stack));
	assert_int_equal(errno, 77);
}

static void address_in_a_file_is_as_the_file_has_it(void **state)
{
	ElfW(Ehdr) header = { .e_type = ET_DYN };
	const Dl_info info = { .dli_fbase = &header };
	uintptr_t at = (uintptr_t)&header + 0x1234;

	assert_int_equal(trace_in_file(at, &info), 0x1234);
	header.e_type = ET_EXEC; /* its addresses are the process's */
	assert_int_equal(trace_in_file(at, &info), at);
}

/* By the loader's list, which takes its lock, and without. */
static void address_named_by_its_file(void **state)
{
	const struct trace here = { .count = 1, .pc = { (uintptr_t)address_named_by_its_file } };
	Dl_info info;

	assert_int_not_equal(dladdr((void *)here.pc[0], &info), 0);
	for (int i = 0; i < 2; i++) {
		listen_begin();
		trace_write(&here);
		assert_said("  #0 %p %s+%p", (void *)here.pc[0], info.dli_fname, (void *)trace_in_file(here.pc[0], &info));
		trace_prepare();
	}
}

static void address_of_library_named_by_its_file(void **state)
{
	const struct trace there = { .count = 1, .pc = { (uintptr_t)__errno_location } };
	Dl_info info;

	assert_int_not_equal(dladdr((void *)there.pc[0], &info), 0);
	trace_prepare();
	listen_begin();
	trace_write(&there);
	assert_said("  #0 %p %s+%p", (void *)there.pc[0], info.dli_fname, (void *)trace_in_file(there.pc[0], &info));
}

#define ON_STACK(test) cmocka_unit_test_setup_teardown(test, map_stack, unmap_stack)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(address_in_a_file_is_as_the_file_has_it),
		cmocka_unit_test(address_named_by_its_file),
		cmocka_unit_test(address_of_library_named_by_its_file),
		cmocka_unit_test(walk_gives_callers_innermost_first),
		cmocka_unit_test(walk_begins_at_caller),
		cmocka_unit_test(walk_puts_caller_that_is_nobody_first),
		cmocka_unit_test(walk_writes_no_more_than_asked),
		cmocka_unit_test(walk_on_thread_gives_callers),
		ON_STACK(walk_astray_ends_before_inaccessible_page),
		ON_STACK(walk_astray_goes_no_way_but_up),
		ON_STACK(walk_astray_follows_what_can_be_read),
		ON_STACK(walk_on_alternate_stack_ends_at_its_end),
		ON_STACK(readable_says_what_can_be_read),
	};

	return UNIT_RUN(tests);
}
