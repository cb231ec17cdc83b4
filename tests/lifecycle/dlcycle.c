/* SPDX-License-Identifier: MIT */
/*
 * Opens and closes a plugin that is linked with libhakmem, from a program that is not linked with
 * it. Usage as in cases.h; the plugin's path comes in the variable TEST_PLUGIN.
 */
#include "plugin.h"
#include "work.h"
#include "../death/cases.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 200 };

struct plugin {
	void *handle;
	int (*work)(void);
	void *(*take)(unsigned long);
	void (*release)(void *);
};

static const char *plugin_path; /* NULL: the environment knows */

static struct plugin open_plugin(int flags)
{
	const char *path = plugin_path != NULL ? plugin_path : getenv("TEST_PLUGIN");
	struct plugin plugin = {.handle = dlopen(path, RTLD_NOW | flags)};

	CHECK(plugin.handle);
	plugin.work = (int (*)(void))dlsym(plugin.handle, "plugin_work");
	plugin.take = (void *(*)(unsigned long))dlsym(plugin.handle, "plugin_take");
	plugin.release = (void (*)(void *))dlsym(plugin.handle, "plugin_free");
	CHECK(plugin.work && plugin.take && plugin.release);
	return plugin;
}

static void close_plugin(const struct plugin *plugin)
{
	CHECK(dlclose(plugin->handle) == 0);
}

static void cycle(int flags)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct plugin plugin = open_plugin(flags);

		CHECK(plugin.work() == 0);
		close_plugin(&plugin);
		work_give(work_take(1000), 1000);
	}
}

static void local(void)
{
	cycle(RTLD_LOCAL);
}

static void global(void)
{
	cycle(RTLD_GLOBAL);
}

static void deep(void)
{
	cycle(RTLD_LOCAL | RTLD_DEEPBIND);
}

static void blocks_kept(void)
{
	unsigned char *kept = NULL;

	for (int i = 0; i < ROUNDS; i++) {
		struct plugin plugin = open_plugin(RTLD_LOCAL);

		CHECK(!kept || kept[99] == 0x77);
		plugin.release(kept);
		kept = plugin.take(100);
		CHECK(kept);
		close_plugin(&plugin);
		CHECK(kept[0] == 0x77); /* still mapped */
	}
}

static void *work_in_thread(void *plugin)
{
	CHECK(((struct plugin *)plugin)->work() == 0);
	return NULL;
}

/* Threads that began before the plugin was there, and that end after it was closed. */
static pthread_barrier_t barrier;

static void *outlive_plugin(void *plugin)
{
	pthread_barrier_wait(&barrier);
	work_in_thread(plugin);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void threads_around(void)
{
	pthread_t thread;
	struct plugin plugin;

	CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
	for (int i = 0; i < 50; i++) {
		CHECK(pthread_create(&thread, NULL, outlive_plugin, &plugin) == 0);
		plugin = open_plugin(RTLD_LOCAL);
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
		close_plugin(&plugin);
		pthread_barrier_wait(&barrier);
		CHECK(pthread_join(thread, NULL) == 0);
	}
}

static void opened_by_thread(void)
{
	for (int i = 0; i < 50; i++) {
		struct plugin plugin = open_plugin(RTLD_LOCAL);
		pthread_t threads[3];

		for (size_t t = 0; t < 3; t++)
			CHECK(pthread_create(&threads[t], NULL, work_in_thread, &plugin) == 0);
		for (size_t t = 0; t < 3; t++)
			CHECK(pthread_join(threads[t], NULL) == 0);
		close_plugin(&plugin);
	}
}

/* A thread that never uses the plugin forks while the first one is amid it; the child does use it. */
enum { FORKS = 300, PROVE_SECONDS = 30 };
static atomic_bool has_forked;

static void *only_fork(void *arg)
{
	const struct plugin *plugin = arg;

	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();
		int status;

		if (child == 0) {
			alarm(PROVE_SECONDS);
			_exit(plugin->work() != 0);
		}
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
	has_forked = true;
	return NULL;
}

static void forks_amid_it(int flags)
{
	struct plugin plugin = open_plugin(flags);
	pthread_t thread;

	CHECK(plugin.work() == 0);
	CHECK(pthread_create(&thread, NULL, only_fork, &plugin) == 0);
	while (!has_forked)
		for (unsigned long size = 40000; size < 2 << 20; size += 40000)
			plugin.release(plugin.take(size));
	CHECK(pthread_join(thread, NULL) == 0);
	close_plugin(&plugin);
}

static void forks_amid_local(void)
{
	forks_amid_it(RTLD_LOCAL);
}

static void forks_amid_deep(void)
{
	forks_amid_it(RTLD_LOCAL | RTLD_DEEPBIND);
}

/* Nor does the library see one then. */
static void forks_amid_deep_without_environment(void)
{
	plugin_path = getenv("TEST_PLUGIN"); /* clearenv leaves the text itself */
	CHECK(clearenv() == 0);
	forks_amid_deep();
}

static void expect_forked(void *module)
{
	const int *status;

	CHECK(module != NULL);
	status = dlsym(module, "fork_module_status");
	CHECK(status != NULL && *status == 0);
}

static void forks_in_constructor(void)
{
	expect_forked(dlopen(getenv("TEST_FORK_MODULE"), RTLD_NOW));
}

/* Of which the allocator is not told beforehand, as of libc's own. */
static void forks_in_constructor_by_dlmopen(void)
{
	expect_forked(dlmopen(LM_ID_BASE, getenv("TEST_FORK_MODULE"), RTLD_NOW));
}

/* What the loader has to say is the program's. */
static void error_is_kept(void)
{
	CHECK(dlsym(RTLD_DEFAULT, "no_such_function") == NULL);
	for (size_t size = 100; size < 10000000; size *= 10)
		free(malloc(size));
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(0);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(dlerror() != NULL);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"plugin_opened_locally_serves", local},
		{"plugin_opened_globally_serves", global},
		{"plugin_bound_deeply_serves", deep},
		{"plugin_blocks_outlive_dlclose", blocks_kept},
		{"plugin_in_older_thread_serves", threads_around},
		{"plugin_in_new_threads_serves", opened_by_thread},
		{"plugin_forked_amid_serves_in_child", forks_amid_local},
		{"plugin_bound_deeply_forked_amid_serves_in_child", forks_amid_deep},
		{"plugin_loaded_without_environment_forked_amid_serves_in_child", forks_amid_deep_without_environment},
		{"thread_of_constructor_forks", forks_in_constructor},
		{"thread_of_constructor_forks_where_dlmopen_loads", forks_in_constructor_by_dlmopen},
		{"error_of_dlsym_is_kept", error_is_kept},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
