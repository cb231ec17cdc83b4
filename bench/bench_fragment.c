/* SPDX-License-Identifier: MIT */
/*
 * Phases of different sizes with survivors: each phase fills memory with its own mix of sizes, then
 * frees all but a few blocks, chosen at random, that live to the end. So does an application server
 * that starts up, loads, serves and reports, leaving a little of each behind: sessions, caches,
 * interned names.
 *
 * Survivors pin the pages they lie on. An allocator is good at it if the free memory around them
 * serves the next phase or goes back to the system, and if at the very end, when the survivors are
 * freed too, nothing stays.
 */
#include <stdio.h>

#include "blocks.h"

static struct parameter parameters[] = {
	{"MEGABYTES", "live MiB when a phase is full", 1, 16384, 100},
	{"ROUNDS", "how often all phases run", 1, 73, 2}, /* 2 samples a phase: SAMPLES_MAX */
	{"SEED", "of sizes and survivors", 0, UINT64_MAX, 1},
	{.name = NULL},
};

static struct parameter options[] = {
	{"survivors", "of 1000 blocks so many outlive their phase", 0, 500, 10},
	{.name = NULL},
};

static const struct workload workload = {
	.name = "bench_fragment",
	.summary = "phases of different sizes, each leaving a few survivors; an operation is a malloc\n"
		"or a free",
	.parameters = parameters,
	.options = options,
};

struct phase {
	const char *name;
	size_t low, high;
};

static const struct phase phases[] = {
	{"nodes", 16, 64},
	{"records", 200, 1000},
	{"strings", 24, 240},
	{"buffers", 4096, 16384},
	{"objects", 48, 480},
	{"images", 65536, 1 << 20},
	{"everything", 16, 4096},
};

enum { PHASES = sizeof(phases) / sizeof(phases[0]) };

/* Of resident÷live when a phase was full. */
struct seen {
	double worst, sum;
	size_t before;
};

static void look(struct seen *seen, const char *phase, size_t live) {
	char label[64];
	snprintf(label, sizeof(label), "%s full", phase);
	workload_resident(label, live);
	double ratio = (double)resident_since(seen->before) / (double)live;
	seen->worst = ratio > seen->worst ? ratio : seen->worst;
	seen->sum += ratio;
}

/* Moves the survivors of the phase, random ones, from `blocks` to `kept`, and frees the rest. */
static uint64_t thin_out(struct blocks *blocks, struct blocks *kept, uint64_t *random) {
	size_t stay = blocks->count * options[0].value / 1000;
	for (size_t i = 0; i < stay && kept->count < kept->capacity; i++) {
		size_t chosen = random_between(random, 0, blocks->count - 1);
		struct block block = blocks->table[chosen];
		blocks->table[chosen] = blocks->table[--blocks->count];
		blocks->live -= block.size;
		kept->table[kept->count++] = block;
		kept->live += block.size;
	}
	uint64_t freed = blocks->count;
	blocks_remove_from(blocks, 0);
	return freed;
}

static void run_phase(const struct phase *phase, struct blocks *blocks, struct blocks *kept,
		struct seen *seen, uint64_t *random) {
	size_t live = parameters[0].value * MIB;
	size_t room = live > kept->live ? live - kept->live : phase->high;
	workload_start();
	workload_stop(blocks_fill(blocks, room, phase->low, phase->high, random));
	workload_served(blocks->table[0].at);
	look(seen, phase->name, blocks->live + kept->live);
	workload_start();
	workload_stop(thin_out(blocks, kept, random));
	char label[64];
	snprintf(label, sizeof(label), "%s freed", phase->name);
	workload_resident(label, kept->live);
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	size_t live = parameters[0].value * MIB;
	uint64_t random = parameters[2].value;
	struct blocks blocks, kept;
	blocks_init(&blocks, live, phases[0].low, phases[0].high);
	blocks_init(&kept, live, phases[0].low, phases[0].high);

	struct seen seen = {.before = resident_bytes()};
	for (uint64_t round = 0; round < parameters[1].value; round++)
		for (size_t i = 0; i < PHASES; i++)
			run_phase(&phases[i], &blocks, &kept, &seen, &random);
	double resident = (double)resident_since(seen.before);
	double phases_run = (double)(parameters[1].value * PHASES);
	workload_figure("worst", seen.worst, "resident/live");
	workload_figure("mean", seen.sum / phases_run, "resident/live");
	workload_figure("survivors", resident / MIB, "MiB");

	size_t survivors = kept.count;
	workload_start();
	blocks_remove_from(&kept, 0);
	workload_stop(survivors);
	workload_figure("left", (double)resident_since(seen.before) / MIB, "MiB");
	return workload_end();
}
