/* SPDX-License-Identifier: MIT */
/*
 * The program that `hakmem preload` tries. It is linked with libc alone: whose malloc serves it is up to
 * the loader. Says nothing and exits 0 if all is well, else names on standard error what is not.
 *
 *   preload-probe work | threads | forks | secure   does so and checks that HAKMEM serves it
 *   preload-probe server                            prints what serves malloc
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 200, THREADS = 8, CHILDREN = 8, BIG = 100000 };

static int fail(const char *what) {
	fprintf(stderr, "%s\n", what);
	return 1;
}

/* The loader's own name of the object that has the function. */
static const char *object_of(const char *name) {
	Dl_info info;
	void *function = dlsym(RTLD_DEFAULT, name);
	return function != NULL && dladdr(function, &info) != 0 ? info.dli_fname : "";
}

static int is_hakmem(const char *object) {
	const char *name = strrchr(object, '/');
	return name != NULL && strncmp(name, "/libhakmem.so", sizeof "/libhakmem.so" - 1) == 0;
}

/* It hands everything on to libc if it is told to. */
static int is_on(void) {
	int (*owns)(const void *block);
	*(void **)&owns = dlsym(RTLD_DEFAULT, "hak_owns");
	void *block = malloc(BIG);
	int is_owned = block != NULL && owns != NULL && owns(block);
	free(block);
	return is_owned;
}

static const char *server(void) {
	const char *object = object_of("malloc");
	return is_hakmem(object) && !is_on() ? object_of("printf") : object;
}

static int check_server(void) {
	if (!is_hakmem(object_of("malloc")))
		return fail("the library is not loaded");
	return is_on() ? 0 : fail("the library is loaded, but switched off by /etc/hakmem.conf");
}

/* From 1 to 70,000 bytes, spread evenly. All threads' blocks together are 60 MiB: small machines must not
   run out of memory for a trial. */
static size_t size_of(size_t i) {
	return i * 7919 % 70001 + 1;
}

/* Blocks of many sizes keep what is written into them, resized and not. */
static int work(void) {
	static __thread unsigned char *blocks[BLOCKS];
	for (size_t i = 0; i < BLOCKS; i++) {
		size_t size = size_of(i);
		if ((blocks[i] = malloc(size)) == NULL)
			return fail("malloc fails");
		memset(blocks[i], (int)(i & 0xff), size);
	}
	for (size_t i = 0; i < BLOCKS; i++) {
		size_t size = size_of(i);
		unsigned char *block = realloc(blocks[i], size + 1000);
		if (block == NULL)
			return fail("realloc fails");
		if (block[0] != (i & 0xff) || block[size - 1] != (i & 0xff))
			return fail("a block lost its contents");
		free(block);
	}
	return 0;
}

static void *work_in_thread(void *arg) {
	*(int *)arg = work();
	return NULL;
}

static int work_in_threads(void) {
	pthread_t threads[THREADS];
	int failed[THREADS] = { 0 };
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work_in_thread, &failed[i]) != 0)
			return fail("a thread cannot be made");
	int result = 0;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		result |= failed[i];
	}
	return result;
}

static int work_in_children(void) {
	for (int i = 0; i < CHILDREN; i++) {
		int status;
		pid_t pid = fork();
		if (pid == 0)
			_exit(work());
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			return fail("a child does not end well");
		if (work() != 0)
			return 1;
	}
	return 0;
}

static int work_in_secure_mode(void) {
	if (getauxval(AT_SECURE) == 0)
		return fail("more rights than its caller has are not noticed by the kernel");
	return work();
}

int main(int argc, char **argv) {
	static const struct {
		const char *name;
		int (*run)(void);
	} kinds[] = {
		{ "work", work },
		{ "threads", work_in_threads },
		{ "forks", work_in_children },
		{ "secure", work_in_secure_mode },
	};
	if (argc == 2 && strcmp(argv[1], "server") == 0)
		return printf("%s", server()) < 0 || fflush(stdout) != 0;
	for (size_t i = 0; argc == 2 && i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(argv[1], kinds[i].name) == 0)
			return check_server() != 0 ? 1 : kinds[i].run();
	fputs("usage: preload-probe work | threads | forks | secure | server\n", stderr);
	return 2;
}
