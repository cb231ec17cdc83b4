/* SPDX-License-Identifier: MIT */
/*
 * A cache of a fixed size in bytes, evicting at random, whose values grow tenfold over the run: an
 * in-memory key-value server whose users' objects get bigger month by month, squeezed into seconds.
 * It starts full of the smallest values; then each new value evicts as many as it takes.
 *
 * Live memory is constant, so every byte above it is the allocator's. Random eviction leaves no
 * page empty for long, while the sizes of yesterday are never asked for again. An allocator is good
 * at it if memory of one size class comes back to others: by joining freed neighbours, by refilling
 * the fullest pages first so that the others run empty, or by small pages. One that keeps a page
 * for its class as long as one block lives there holds two or three times what is live.
 */
#include <math.h>
#include <stdio.h>

#include "blocks.h"

static struct parameter parameters[] = {
	{"MEGABYTES", "MiB of the cache", 1, 16384, 100},
	{"TURNOVERS", "how often the cache's size is written after it was filled", 1, 1000, 20},
	{"SEED", "of sizes and evictions", 0, UINT64_MAX, 1},
	{.name = NULL},
};

static struct parameter options[] = {
	{"from", "mean size of the first values", 2 * MIN_BLOCK, 1 << 20, 100},
	{"growth", "how many times as big the last ones are", 1, 1000, 10},
	{"samples", "how often resident memory is looked at", 1, 1000, 40},
	{.name = NULL},
};

static const struct workload workload = {
	.name = "bench_lru_drift",
	.summary = "a full cache with random eviction whose values drift to tenfold size; an operation\n"
		"is one value put in and what it takes evicted",
	.parameters = parameters,
	.options = options,
};

/* Values are evenly spread from half the mean to one and a half of it. */
static size_t value_size(double mean, uint64_t *random) {
	return random_between(random, (uint64_t)(mean / 2), (uint64_t)(mean * 3 / 2));
}

/* Puts `volume` bytes of values into the full cache; returns how many values. */
static uint64_t put(struct blocks *cache, size_t capacity, size_t volume, double mean,
		uint64_t *random) {
	uint64_t values = 0;
	for (size_t done = 0; done < volume; values++) {
		size_t size = value_size(mean, random);
		while (cache->count > 0 && cache->live + size > capacity)
			blocks_remove_random(cache, random);
		blocks_add(cache, size);
		done += size;
	}
	return values;
}

/* The mean size when `part` (0 … 1) of the run is done. */
static double mean_at(double part) {
	return (double)options[0].value * pow((double)options[1].value, part);
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	size_t capacity = parameters[0].value * MIB, samples = options[2].value;
	size_t volume = capacity / samples * parameters[1].value;
	uint64_t random = parameters[2].value;
	struct blocks cache;
	blocks_init(&cache, capacity, options[0].value / 2, options[0].value * 3 / 2);
	size_t before = resident_bytes();

	workload_start();
	workload_stop(put(&cache, capacity, capacity, mean_at(0), &random));
	workload_resident("full", cache.live);
	workload_served(cache.table[0].at);

	double worst = 0, sum = 0, ratio = 0;
	for (size_t i = 1; i <= samples; i++) {
		double part = (double)i / (double)samples;
		workload_start();
		workload_stop(put(&cache, capacity, volume, mean_at(part), &random));
		char label[32];
		snprintf(label, sizeof(label), "mean %.0f B", mean_at(part));
		workload_resident(label, cache.live);
		ratio = (double)resident_since(before) / (double)cache.live;
		worst = ratio > worst ? ratio : worst;
		sum += ratio;
	}
	workload_figure("worst", worst, "resident/live");
	workload_figure("mean", sum / (double)samples, "resident/live");
	workload_figure("last", ratio, "resident/live");
	blocks_remove_from(&cache, 0);
	return workload_end();
}
