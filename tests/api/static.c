/* SPDX-License-Identifier: MIT */
/*
 * A program with libhakmem.a inside, once dynamic and once static. Its output is TAP by hand, since
 * there is no static cmocka.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hakmem.h>

enum { THREADS = 4, ROUNDS = 20000 };

static int malloc_block_ours(void)
{
	void *block = malloc(2000);
	int ours = hak_owns(block);

	free(block);
	return ours;
}

static int libc_block_ours(void)
{
	size_t size = 3000;
	char *line = malloc(size), *copy;

	if (!line)
		return 0;
	memset(line, 'x', size - 1);
	line[size - 1] = 0;
	copy = strdup(line);
	int ours = hak_owns(copy);
	free(copy);
	free(line);
	return ours;
}

static int every_size_works(void)
{
	for (size_t size = 1; size <= 64 << 20; size = size * 2 + 1) {
		unsigned char *block = calloc(1, size);
		if (!block || block[0] || block[size - 1] || malloc_usable_size(block) < size)
			return 0;
		memset(block, 0xff, size);
		unsigned char *grown = realloc(block, size * 2);
		if (!grown || grown[size - 1] != 0xff)
			return 0;
		free(grown);
	}
	return 1;
}

static int huge_size_enomem(void)
{
	volatile size_t huge = SIZE_MAX;

	errno = 0;
	return malloc(huge) == NULL && errno == ENOMEM;
}

static int heap_destroyed(void)
{
	hak_heap_t *heap = hak_heap_new();

	for (int i = 0; heap && i < 1000; i++)
		if (!hak_heap_malloc(heap, (size_t)i))
			return 0;
	hak_heap_destroy(heap);
	return heap != NULL;
}

static void *churn(void *argument)
{
	void *blocks[64] = {NULL};
	unsigned random = (unsigned)(uintptr_t)argument;

	for (int i = 0; i < ROUNDS; i++) {
		random = random * 1103515245 + 12345;
		unsigned slot = random >> 20 & 63;
		free(blocks[slot]);
		blocks[slot] = malloc(random >> 8 & 4095);
		if (!blocks[slot])
			return NULL;
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	return argument;
}

static int threads_work(void)
{
	pthread_t threads[THREADS];
	int good = 0;

	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) != 0)
			return 0;
	for (int i = 0; i < THREADS; i++) {
		void *result = NULL;
		pthread_join(threads[i], &result);
		good += result != NULL;
	}
	return good == THREADS;
}

/* What comes before all else, also before our own constructor: what the only argument names is its first call. */
static struct mallinfo2 first_numbers;

static void come_first(int argc, char **argv, char **env)
{
	static char no_block[64];

	(void)env;
	if (argc == 2 && strcmp(argv[1], "free") == 0)
		free(no_block + 16);
	if (argc == 2 && strcmp(argv[1], "numbers") == 0) {
		first_numbers = mallinfo2();
		hak_profile_stop();
	}
}
__attribute__((used, section(".preinit_array"))) static void (*const first)(int, char **, char **) = come_first;

/* How this program ends with that argument, and what it says. */
static int end_with(const char *argument, char *said, size_t size)
{
	int ends[2], status;
	size_t length = 0;
	ssize_t got;

	if (pipe(ends) != 0)
		return -1;
	pid_t child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		execl("/proc/self/exe", "static", argument, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	while (length + 1 < size && (got = read(ends[0], said + length, size - length - 1)) > 0)
		length += (size_t)got;
	said[length] = 0;
	close(ends[0]);
	return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

/* An emulator may start another program in its place. */
static int can_start_itself(void)
{
	char said[200];

	return end_with("nothing", said, sizeof(said)) == 0 && strcmp(said, "started") == 0;
}

static int first_call_asks_for_numbers(void)
{
	char said[200];

	return end_with("numbers", said, sizeof(said)) == 0;
}

static int first_call_with_no_block_told(void)
{
	/* Where small blocks are libc's, so may this one be. */
	const char *told = HAK_TINY_WRAP ? "hakmem: free of invalid pointer" : "free(): invalid pointer";
	char said[200];
	int status = end_with("free", said, sizeof(said));

	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(said, told);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
		bool starts_itself;
	} tests[] = {
		{"malloc_block_ours", malloc_block_ours, false},
		{"libc_block_ours", libc_block_ours, false},
		{"every_size_works", every_size_works, false},
		{"huge_size_enomem", huge_size_enomem, false},
		{"heap_destroyed", heap_destroyed, false},
		{"threads_work", threads_work, false},
		{"first_call_asks_for_numbers", first_call_asks_for_numbers, true},
		{"first_call_with_no_block_told", first_call_with_no_block_told, true},
	};

	if (argc == 2 && strcmp(argv[1], "nothing") == 0)
		return fputs("started", stderr) < 0;
	if (argc == 2)
		return first_numbers.uordblks > 100000; /* the C library may have blocks by then */
	const int can_start = can_start_itself();
	const int count = sizeof(tests) / sizeof(tests[0]);

	printf("1..%d\n", count);
	for (int i = 0; i < count; i++) {
		const char *skip = "";

		if (tests[i].starts_itself && !can_start)
			skip = " # SKIP it cannot start itself";
		/* What nobody knows is handed on, and there is nobody. */
		if (!HAK_TINY_WRAP && IS_WHOLE && tests[i].run == first_call_with_no_block_told)
			skip = " # SKIP not told there";
		const char *how = *skip || tests[i].run() ? "" : "not ";
		printf("%sok %d - %s%s\n", how, i + 1, tests[i].name, skip);
	}
	return 0;
}
