/* SPDX-License-Identifier: MIT */
/*
 * What the profiler takes, in memory and in time, and whether the profile is true then. HAKMEM_SAMPLE_TOTALS=1 and
 * HAKMEM_WRAP_TINY=1 must be set, and HAKMEM_THP=never: some hypervisors make huge pages cost more than all else.
 * Usage: stacks many|mixed|live
 *
 *   many   blocks of random sizes from more stacks than are kept: the memory is bounded, and the sums are right
 *   mixed  blocks of very different sizes from one stack: so are those
 *   live   many sampled blocks live: each is found as soon as one of few
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <hakmem.h>

enum { CALLS = 6, FUNCTIONS = 64, SAMPLES = 400000, RING = 512, SITES_MOST = 50000 };

static const size_t metadata_most = (size_t)12 << 20;
static uint64_t random_state = 1;
void *volatile sink;

static size_t next(size_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (random_state >> 33) % below;
}

/* ---- what a profile says ---- */

struct said {
	double live, live_blocks, total; /* estimates */
	size_t sites, deepest;
};

/* As pprof does it. */
static double scaled(double value, double blocks, double bytes, double mean)
{
	return blocks == 0 ? 0 : value / (1 - exp(-bytes / blocks / mean));
}

static bool read_site(char *line, double mean, struct said *said)
{
	size_t live, live_bytes, total, total_bytes, depth = 0;

	if (sscanf(line, "%zu: %zu [%zu: %zu] @", &live, &live_bytes, &total, &total_bytes) != 4)
		return false;
	said->live += scaled((double)live_bytes, (double)live, (double)live_bytes, mean);
	said->live_blocks += scaled((double)live, (double)live, (double)live_bytes, mean);
	said->total += scaled((double)total_bytes, (double)total, (double)total_bytes, mean);
	for (char *at = line; (at = strstr(at, " 0x")) != NULL; at++)
		depth++;
	said->sites++;
	said->deepest = depth > said->deepest ? depth : said->deepest;
	return true;
}

static struct said profile(double mean)
{
	struct said said = {0};
	char path[64], line[4096];
	int file = memfd_create("profile", 0);

	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	hak_profile_stop();
	FILE *text = fdopen(file, "r");
	if (text == NULL || hak_profile_write(path) != 0 || fgets(line, sizeof line, text) == NULL)
		abort();
	while (fgets(line, sizeof line, text) != NULL && read_site(line, mean, &said))
		;
	fclose(text);
	return said;
}

static bool is_near(const char *what, double estimate, double truth, double tolerance)
{
	printf("%s: %.0f estimated, %.0f true\n", what, estimate, truth);
	return fabs(estimate / truth - 1) <= tolerance;
}

/* ---- many stacks ---- */

typedef void *call_fn(unsigned calls, size_t size);
static call_fn *const call[FUNCTIONS];

#define FUNCTION(n) \
	__attribute__((noinline)) static void *call_##n(unsigned calls, size_t size) \
	{ \
		void *p = calls == 0 ? malloc(size) : call[next(FUNCTIONS)](calls - 1, size); \
		__asm__ volatile("# " #n : "+r"(p)); /* no tail call */ \
		return p; \
	}
#define EIGHT(of, n) of(n##0) of(n##1) of(n##2) of(n##3) of(n##4) of(n##5) of(n##6) of(n##7)
#define ALL(of) EIGHT(of, 0) EIGHT(of, 1) EIGHT(of, 2) EIGHT(of, 3) EIGHT(of, 4) EIGHT(of, 5) EIGHT(of, 6) EIGHT(of, 7)
ALL(FUNCTION)
#define ADDRESS(n) call_##n,
static call_fn *const call[FUNCTIONS] = {ALL(ADDRESS)};

static size_t metadata(void)
{
	struct hak_stats stats;

	if (hak_stats_get(&stats, sizeof stats) != 0)
		abort();
	return stats.metadata;
}

static bool many_stacks_are_bounded(void)
{
	static void *ring[RING];
	static size_t size[RING];
	enum { MEAN = 64 };
	size_t live = 0, total = 0, before = metadata();

	if (hak_profile_start(MEAN) != 0)
		return false;
	for (int i = 0; i < SAMPLES; i++) {
		size_t at = next(RING);
		free(ring[at]);
		live -= size[at];
		size[at] = 1 + next(4000);
		ring[at] = call[0](CALLS, size[at]);
		live += size[at];
		total += size[at];
	}
	size_t grown = metadata() - before;
	struct said said = profile(MEAN);
	printf("%zu sites, %zu KiB of metadata\n", said.sites, grown >> 10);
	return is_near("live", said.live, (double)live, 0.02) && is_near("total", said.total, (double)total, 0.02) &&
		grown <= metadata_most && said.sites <= SITES_MOST && said.deepest > CALLS;
}

/* ---- many sizes ---- */

/* Most bytes are in few blocks: what the mean block tells of the others is wrong by a hundred times. */
static bool mixed_sizes_are_told_apart(void)
{
	enum { MEAN = 4096, SMALL = 16, LARGE = 256 << 10, ROUNDS = 100, EACH = 10000 };
	double live = 0;

	if (hak_profile_start(MEAN) != 0)
		return false;
	for (int i = 0; i < ROUNDS * EACH; i++) {
		size_t size = i % EACH == 0 ? LARGE : SMALL;
		sink = malloc(size);
		live += (double)size;
	}
	struct said said = profile(MEAN);
	printf("%zu sites\n", said.sites);
	return is_near("live", said.live, live, 0.05) && is_near("blocks", said.live_blocks, ROUNDS * EACH, 0.1);
}

/* ---- many live blocks ---- */

static double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* For each of `count` sampled blocks, in any order. */
static double ns_to_free(size_t count)
{
	void **block = malloc(count * sizeof *block);

	for (size_t i = 0; i < count; i++) {
		size_t at = next(i + 1);
		block[i] = block[at];
		block[at] = malloc(64);
	}
	double begin = cpu_ns();
	for (size_t i = 0; i < count; i++)
		free(block[i]);
	double ns = (cpu_ns() - begin) / (double)count;
	free(block);
	return ns;
}

static bool live_blocks_are_found_soon(void)
{
	/* Caches hold neither: a miss takes 20 times a hit on some machines. Chains that do not grow: more than 4 times. */
	enum { MEAN = 1, FEW = 150000, MANY = 8 * FEW, SLOWER_MOST = 3 };

	if (hak_profile_start(MEAN) != 0)
		return false;
	double few = fmin(ns_to_free(FEW), fmin(ns_to_free(FEW), ns_to_free(FEW))), many = fmin(ns_to_free(MANY), fmin(ns_to_free(MANY), ns_to_free(MANY)));
	printf("%.0f ns of few, %.0f ns of many\n", few, many);
	return many <= SLOWER_MOST * few;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		bool (*holds)(void);
	} cases[] = {
		{"many", many_stacks_are_bounded}, {"mixed", mixed_sizes_are_told_apart}, {"live", live_blocks_are_found_soon},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (argc == 2 && strcmp(argv[1], cases[i].name) == 0)
			return cases[i].holds() ? 0 : 1;
	return 2;
}
