// SPDX-License-Identifier: MIT
/* Sends itself signals where there is little stack: on an alternate one of the least size that programs give,
 * with an inaccessible page before it, and in a thread with the least stack there may be.
 *
 *   small_stack SIGNAL
 *
 * Prints how many bytes of the alternate stack were written to: 0, if the handler does not go there.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALTERNATE = 8192, PAINT = 0xa5 };

static int number;

#define REQUIRE(x) \
	do { \
		if (!(x)) { \
			perror(#x); \
			exit(1); \
		} \
	} while (0)

static unsigned char *give_alternate_stack(void)
{
	size_t page = sysconf(_SC_PAGESIZE), size = ALTERNATE > page ? ALTERNATE : page;
	unsigned char *base = mmap(NULL, page + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(base != MAP_FAILED && mprotect(base + page, size, PROT_READ | PROT_WRITE) == 0);
	memset(base + page, PAINT, size);
	REQUIRE(sigaltstack(&(stack_t){.ss_sp = base + page, .ss_size = size}, NULL) == 0);
	return base + page;
}

static void *on_least_stack(void *arg)
{
	free(malloc(100));
	REQUIRE(raise(number) == 0);
	return arg;
}

int main(int argc, char **argv)
{
	unsigned char *stack = give_alternate_stack();
	size_t untouched = 0;
	pthread_attr_t attr;
	pthread_t thread;

	number = argc == 2 ? atoi(argv[1]) : 0;
	free(malloc(100));
	REQUIRE(raise(number) == 0);
	while (untouched < ALTERNATE && stack[untouched] == PAINT)
		untouched++;
	printf("%zu\n", ALTERNATE - untouched);
	REQUIRE(pthread_attr_init(&attr) == 0 &&
	        pthread_attr_setstacksize(&attr, sysconf(_SC_THREAD_STACK_MIN)) == 0);
	REQUIRE(pthread_create(&thread, &attr, on_least_stack, NULL) == 0 && pthread_join(thread, NULL) == 0);
	return 0;
}
