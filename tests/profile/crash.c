/* SPDX-License-Identifier: MIT */
/*
 * Crashes on an address of the kind that the argument names, after printing what the report should call it:
 * "ADDRESS" or, in a block, "ADDRESS OFFSET BLOCK".
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NEAR_END = 4900 };

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static char *page_of(const char *p)
{
	return (char *)((uintptr_t)p & ~(uintptr_t)(page_size() - 1));
}

static void crash_at(char *p)
{
	__asm__ volatile("" : "+r"(p)); /* the compiler would see where it lies */
	fflush(stdout);
	*(volatile char *)p = 1;
}

static void crash_in(char *block, size_t offset)
{
	char *p = block + offset;

	printf("%p %zu %p\n", (void *)p, offset, (void *)block);
	fflush(stdout);
	mprotect(page_of(p), 1, PROT_NONE);
	crash_at(p);
}

/* A small block in the middle of many, so that its pages have no other use. Its first word lies on another page
   than its byte NEAR_END. */
static char *small_block(void)
{
	char *blocks[600];
	size_t chosen = 400;

	for (size_t i = 0; i < 600; i++)
		blocks[i] = malloc(5000);
	while (page_of(blocks[chosen]) == page_of(blocks[chosen] + NEAR_END))
		if (++chosen == 600)
			exit(1);
	return blocks[chosen];
}

/* Where it ends with its page, so that the byte behind it cannot be touched. */
static char *guarded_block(size_t size)
{
	char *p;

	do
		p = malloc(size);
	while (((uintptr_t)p + size) % page_size() != 0);
	return p;
}

static volatile int goes_on = 1;

static int fill_stack(int depth)
{
	volatile char page[4096];

	page[0] = page[4095] = (char)depth;
	return goes_on ? fill_stack(depth + 1) + page[depth % 2 * 4095] : 0;
}

static void overflow_stack(void)
{
	stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};

	sigaltstack(&stack, NULL);
	fill_stack(0);
}

/* As the system does when memory fails that nobody is about to use, and when it has noticed in between that a tag of
   memory differs (SEGV_MTEAERR), which comes without an address. */
static void tell_late(int number, int code)
{
	siginfo_t info = {.si_signo = number, .si_code = code};

	if (number == SIGBUS)
		info.si_addr = mmap(NULL, page_size(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf("%p\n", info.si_addr);
	fflush(stdout);
	syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, &info);
}

enum { TOGETHER = 4 };

static void *crash_when_all_are_here(void *address)
{
	static atomic_int here;

	atomic_fetch_add(&here, 1);
	while (atomic_load(&here) < TOGETHER)
		continue;
	crash_at(address);
	return NULL;
}

static void crash_together(void *address)
{
	pthread_t thread;

	for (int i = 1; i < TOGETHER; i++)
		pthread_create(&thread, NULL, crash_when_all_are_here, address);
	crash_when_all_are_here(address);
}

int main(int argc, char **argv)
{
	volatile uintptr_t small = 24;
	const char *what = argc == 2 ? argv[1] : "";
	char *p;

	if (strcmp(what, "live_small") == 0)
		crash_in(small_block(), NEAR_END);
	else if (strcmp(what, "unreadable") == 0)
		crash_in(small_block(), 8);
	else if (strcmp(what, "live_large") == 0)
		crash_in(malloc(300000), 200001);
	else if (strcmp(what, "freed_small") == 0) {
		p = small_block();
		free(p);
		printf("%p 9 %p\n", (void *)(p + 9), (void *)p);
		fflush(stdout);
		/* Its first word, which says that it is free, must stay readable. */
		char *next_page = page_of(p) + page_size();
		mprotect(next_page, 1, PROT_NONE);
		crash_at(next_page);
	} else if (strcmp(what, "quarantined") == 0) {
		p = malloc(100);
		puts(""); /* as below */
		free(p);
		printf("%p 0 %p\n", (void *)p, (void *)p);
		fflush(stdout);
		((void (*)(void))(uintptr_t)p)(); /* its first word is readable, and zero */
	} else if (strcmp(what, "freed_large") == 0) {
		p = malloc(8 << 20);
		puts(""); /* what it allocates must not take the place */
		free(p);
		printf("%p %d %p\n", (void *)(p + (5 << 20)), 5 << 20, (void *)p);
		crash_at(p + (5 << 20));
	} else if (strcmp(what, "guarded_behind") == 0) {
		p = guarded_block(96);
		printf("%p 0 %p\n", (void *)(p + 96), (void *)p);
		crash_at(p + 96);
	} else if (strcmp(what, "guarded_before") == 0) {
		p = guarded_block(2 * page_size());
		printf("%p 3 %p\n", (void *)(p - 3), (void *)p);
		crash_at(p - 3);
	} else if (strcmp(what, "guarded_freed") == 0) {
		p = guarded_block(96);
		printf("%p 8 %p\n", (void *)(p + 8), (void *)p);
		free(p);
		crash_at(p + 8);
	} else if (strcmp(what, "reused") == 0) {
		/* Now something else's. */
		p = malloc(64 << 20);
		puts("");
		free(p);
		p = mmap(p, page_size(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		printf("%p\n", (void *)p);
		crash_at(p);
	} else if (strcmp(what, "not_ours") == 0) {
		p = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		printf("%p\n", (void *)p);
		crash_at(p);
	} else if (strcmp(what, "null") == 0)
		crash_at((char *)(uintptr_t)small);
	else if (strcmp(what, "no_address") == 0)
		crash_at((char *)(uintptr_t)0xdead000000000000);
	else if (strcmp(what, "abort") == 0)
		abort();
	else if (strcmp(what, "sent") == 0)
		kill(getpid(), SIGBUS);
	else if (strcmp(what, "late") == 0)
		tell_late(SIGBUS, BUS_MCEERR_AO);
	else if (strcmp(what, "late_tag") == 0)
		tell_late(SIGSEGV, 8);
	else if (strcmp(what, "stack") == 0)
		overflow_stack();
	else if (strcmp(what, "together") == 0)
		crash_together((void *)small);
	return 1;
}
