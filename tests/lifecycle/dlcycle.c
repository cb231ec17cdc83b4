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
#include <stdlib.h>

enum { ROUNDS = 200 };

struct plugin {
	void *handle;
	int (*work)(void);
	void *(*take)(unsigned long);
	void (*release)(void *);
};

static struct plugin open_plugin(int flags)
{
	struct plugin plugin = {.handle = dlopen(getenv("TEST_PLUGIN"), RTLD_NOW | flags)};

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

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"plugin_opened_locally_serves", local},
		{"plugin_opened_globally_serves", global},
		{"plugin_bound_deeply_serves", deep},
		{"plugin_blocks_outlive_dlclose", blocks_kept},
		{"plugin_in_older_thread_serves", threads_around},
		{"plugin_in_new_threads_serves", opened_by_thread},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
