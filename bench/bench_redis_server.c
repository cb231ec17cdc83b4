/* SPDX-License-Identifier: MIT */
/*
 * The real one: redis-server, served by the allocator that serves this workload, under
 * redis-benchmark over a socket in a temporary folder. The catalogue's bench_redis_like is a model
 * of this; here parsing, the event loop and the network take their share.
 *
 * Only the server counts. Keys are random among many, values grow from one test to the next, and
 * the last tests make lists, sets, hashes and sorted sets; then the database is emptied, and the
 * server idles for a while (its clock still ticks). An allocator is good at it if small strings are
 * cheap to make and to replace by longer ones, and if what the emptied database held comes back.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "program.h"
#include "workload.h"

static struct parameter parameters[] = {
	{"REQUESTS", "requests of each test", 1000, 1000000000, 200000},
	{"KEYS", "keys that the requests are spread over", 1, 1000000000, 100000},
	{.name = NULL},
};

static struct parameter options[] = {
	{"clients", "connections", 1, 10000, 20},
	{"pipeline", "requests sent at a time on each", 1, 10000, 16},
	{"idle", "seconds from the emptying to the last look", 0, 3600, 3},
	{.name = NULL},
};

static const struct workload workload = {
	.name = "bench_redis_server",
	.summary = "redis-server under redis-benchmark; an operation is a request; time and memory are\n"
		"the server's",
	.parameters = parameters,
	.options = options,
};

/* What redis-benchmark is asked for: commands of its own, and the size of values. */
static const struct test {
	const char *name, *commands, *bytes;
	unsigned count; /* of commands */
} tests[] = {
	{"set_64", "set", "64", 1},
	{"set_400", "set", "400", 1},
	{"get", "get", "400", 1},
	{"set_900", "set", "900", 1},
	{"incr", "incr", "8", 1},
	{"lists", "lpush,rpush,lpop,rpop", "100", 4},
	{"sets", "sadd,hset,zadd", "100", 3},
};

enum { TESTS = sizeof(tests) / sizeof(tests[0]) };

static char server_path[PATH_MAX], client_path[PATH_MAX], socket_path[FOLDER_PATH_MAX];

/* ---- The server ---- */

struct server_process {
	pid_t pid;
	clockid_t clock; /* its CPU time */
};

static pid_t start_server(void) {
	char folder[FOLDER_PATH_MAX], log[FOLDER_PATH_MAX];
	const char *const argv[] = {server_path, "--port", "0", "--unixsocket", socket_path, "--save",
		"", "--appendonly", "no", "--daemonize", "no", "--dir", folder_path(folder, ""), NULL};
	return program_start(&(struct program){
		.argv = argv,
		.output = folder_path(log, "log"),
		.server = SERVER_SAME,
	});
}

/* A connection to the server, or -1. */
static int try_connect(void) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(socket_path) >= sizeof(address.sun_path))
		workload_fail("the path of the socket %s is too long; set TMPDIR", socket_path);
	strcpy(address.sun_path, socket_path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

static int connect_to(pid_t server) {
	for (unsigned tries = 0; tries < 500; tries++) {
		int fd = try_connect();
		if (fd >= 0)
			return fd;
		if (waitpid(server, NULL, WNOHANG) == server)
			workload_fail("redis-server ended at once");
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	}
	workload_fail("redis-server does not answer");
}

/* Sends one command and waits for the beginning of the answer. */
static void ask(int fd, const char *line, char *answer, size_t size) {
	ssize_t got = write(fd, line, strlen(line)) < 0 ? -1 : read(fd, answer, size - 1);
	if (got <= 0)
		workload_fail("redis-server does not answer to %s", line);
	answer[got] = 0;
}

/* Drops all keys, and does not return before all memory of theirs has been freed. */
static void flush_all(int fd) {
	char answer[64];
	ask(fd, "FLUSHALL SYNC\r\n", answer, sizeof(answer));
	if (strncmp(answer, "-ERR", 4) == 0) /* before 6.2 it knows no other way */
		ask(fd, "FLUSHALL\r\n", answer, sizeof(answer));
	if (strncmp(answer, "+OK", 3) != 0)
		workload_fail("redis-server answers '%s' to FLUSHALL", answer);
}

static struct server_process begin_server(int *fdp) {
	struct server_process server = {.pid = start_server()};
	*fdp = connect_to(server.pid);
	if (clock_getcpuclockid(server.pid, &server.clock) != 0)
		workload_fail("redis-server has no clock");
	return server;
}

/* Takes the process's end, which SHUTDOWN must have brought about; returns its peak memory. */
static size_t end_server(const struct server_process *server, int fd) {
	static const char line[] = "SHUTDOWN NOSAVE\r\n";
	struct usage usage;
	if (write(fd, line, strlen(line)) < 0)
		kill(server->pid, SIGKILL);
	close(fd);
	int status = program_wait(server->pid, &usage);
	if (status != 0)
		workload_fail("redis-server ended with wait status %d", status);
	return usage.peak;
}

/* Whether the server needs a library of such a name: asked so, the loader lists them, and does not run it. */
static bool is_linked_with(const char *name) {
	char list[FOLDER_PATH_MAX], line[PATH_MAX + 128];
	const char *const argv[] = {server_path, "--version", NULL};
	setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
	program_run(&(struct program){.argv = argv, .output = folder_path(list, "libraries")});
	unsetenv("LD_TRACE_LOADED_OBJECTS");
	FILE *file = fopen(list, "re");
	bool found = false;
	while (!found && file != NULL && fgets(line, sizeof(line), file) != NULL)
		found = strstr(line, name) != NULL;
	if (file != NULL)
		fclose(file);
	return found;
}

/* The jemalloc that comes with Redis' sources may be built into the server, under names of its own: then no other
   allocator serves it, whatever its libraries bind. A distribution's is a library, and a preload wins over it. */
static bool has_own_allocator(void) {
	char line[256];
	const char *const version[] = {server_path, "--version", NULL};
	return program_ask(version, line, sizeof(line)) && strstr(line, "malloc=jemalloc") != NULL &&
	       !is_linked_with("libjemalloc");
}

/* ---- The tests ---- */

static double cpu_of(const struct server_process *server) {
	struct timespec used;
	if (clock_gettime(server->clock, &used) != 0)
		workload_fail("redis-server has ended");
	return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static size_t memory_of(const struct server_process *server, const char *key) {
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)server->pid);
	return proc_kib(path, key);
}

/* Its memory now, which becomes a figure; 0, and none, if it cannot be read. */
static size_t look(const struct server_process *server, const char *name) {
	size_t bytes = memory_of(server, "\nVmRSS:");
	if (bytes > 0)
		workload_figure(name, (double)bytes / (1 << 20), "MiB");
	return bytes;
}

static void run_client(const struct test *test) {
	char requests[24], keys[24], clients[24], pipeline[24];
	snprintf(requests, sizeof(requests), "%llu", (unsigned long long)parameters[0].value);
	snprintf(keys, sizeof(keys), "%llu", (unsigned long long)parameters[1].value);
	snprintf(clients, sizeof(clients), "%llu", (unsigned long long)options[0].value);
	snprintf(pipeline, sizeof(pipeline), "%llu", (unsigned long long)options[1].value);
	const char *const argv[] = {client_path, "-s", socket_path, "-q", "-n", requests, "-r", keys,
		"-c", clients, "-P", pipeline, "-t", test->commands, "-d", test->bytes, NULL};
	program_run(&(struct program){.argv = argv});
}

static void run_test(const struct server_process *server, const struct test *test) {
	char name[64];
	uint64_t requests = parameters[0].value * test->count;
	double wall = wall_seconds(), cpu = cpu_of(server);
	run_client(test);
	wall = wall_seconds() - wall;
	cpu = cpu_of(server) - cpu;
	workload_add(wall, cpu, requests);
	snprintf(name, sizeof(name), "%s_rate", test->name);
	workload_figure(name, (double)requests / wall, "requests/s");
	snprintf(name, sizeof(name), "%s_cpu", test->name);
	workload_figure(name, cpu * 1e9 / (double)requests, "ns/request");
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	if (!program_find("redis-server", server_path) || !program_find("redis-benchmark", client_path))
		workload_exit(77, "redis-server and redis-benchmark are not installed");
	void *block = block_new(64);
	workload_served(block);
	folder_make();
	folder_path(socket_path, "socket");
	program_prove((const char *const[]){server_path, "--version", NULL});
	if (has_own_allocator())
		workload_exit(77, "redis-server has an allocator of its own built in");

	int fd;
	struct server_process server = begin_server(&fd);
	for (size_t i = 0; i < TESTS; i++)
		run_test(&server, &tests[i]);
	look(&server, "full");
	flush_all(fd);
	look(&server, "flushed");
	nanosleep(&(struct timespec){.tv_sec = (time_t)options[2].value}, NULL);
	size_t end = look(&server, "settled"), peak = memory_of(&server, "\nVmHWM:");
	size_t peak_by_usage = end_server(&server, fd);
	workload_memory(peak > 0 ? peak : peak_by_usage, end);
	block_free(block, 64);
	return workload_end();
}
