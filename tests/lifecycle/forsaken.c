/* SPDX-License-Identifier: MIT */
/*
 * A signal handler forks amid slow paths; the child frees blocks of a thread that has ended, then returns into the
 * interrupted call, which goes on with the heap that the thread has forsaken: the blocks must not get into that
 * heap's bins.
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <hakmem.h>

enum {
	SIZE = 48,
	OTHERS = 3000, /* blocks of the ended thread */
	AT_ONCE = 200, /* of them are freed in the handler */
	BATCH = 4096,
	SECONDS = 3,
	CHILDREN = 200, MORE_SECONDS = 60, /* at least so many, if it takes no longer than that */
	MICROSECONDS = 700, /* between two signals */
	FEW = 50, /* one child in so many may be accused falsely: the call had half done what hak_check adds up */
	ACCUSED = 2, /* status of such */
};

static void *other[OTHERS];
static int freed;
static volatile sig_atomic_t is_child, may_fork, children, accused, failed;

static void *make_blocks(void *unused)
{
	for (int i = 0; i < OTHERS; i++)
		other[i] = malloc(SIZE);
	return unused;
}

static void fork_here(int signal)
{
	pid_t child;
	int status;

	if (!may_fork || is_child)
		return;
	child = fork();
	if (child == 0) {
		is_child = 1;
		while (freed < AT_ONCE)
			free(other[freed++]);
	} else if (child > 0 && waitpid(child, &status, 0) == child) {
		children++;
		if (WIFEXITED(status) && WEXITSTATUS(status) == ACCUSED)
			accused++;
		else
			failed += status != 0;
	}
	may_fork = 0;
}

static void go_on(void)
{
	static unsigned char *block[BATCH];

	while (freed < OTHERS)
		free(other[freed++]);
	for (int i = 0; i < BATCH; i++) {
		block[i] = malloc(SIZE);
		memset(block[i], i % 251, SIZE);
	}
	for (int i = 0; i < BATCH; i++) {
		if (block[i][0] != i % 251 || block[i][SIZE - 1] != i % 251)
			_exit(1);
		free(block[i]);
	}
	_exit(hak_check() != 0 ? ACCUSED : 0);
}

int main(void)
{
	struct itimerval often = {{0, MICROSECONDS}, {0, MICROSECONDS}};
	static void *block[BATCH];
	time_t end = time(NULL) + SECONDS;
	pthread_t maker;

	if (pthread_create(&maker, NULL, make_blocks, NULL) != 0 || pthread_join(maker, NULL) != 0)
		return 1;
	signal(SIGALRM, fork_here);
	setitimer(ITIMER_REAL, &often, NULL);
	while (time(NULL) < end || (children < CHILDREN && time(NULL) < end + MORE_SECONDS)) {
		for (int i = 0; i < BATCH; i++)
			block[i] = malloc(SIZE);
		may_fork = 1;
		for (int i = 0; i < BATCH; i++)
			free(block[i]);
		malloc_trim((size_t)1 << 30); /* the caches alone */
		if (is_child)
			go_on();
		may_fork = 0;
	}
	printf("%d children, %d of them failed, %d are accused\n", (int)children, (int)failed, (int)accused);
	return children == 0 || failed != 0 || accused > children / FEW;
}
