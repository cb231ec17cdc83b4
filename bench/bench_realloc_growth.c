/* SPDX-License-Identifier: MIT */
/*
 * Stands for vectors, strings and output buffers that grow as they are filled: by doubling (most
 * C++ libraries), by half (others), and by small steps (careless programs, and getline). Several
 * grow at a time, so the memory behind a vector is seldom free. Everything is written and read
 * back. Good at it: growing in place, moving large blocks without copying them, and using again
 * what a move left.
 */
#include <stdio.h>
#include <string.h>

#include "workload.h"

enum { ROUNDS, VECTORS, LIMIT, SEED };
static struct parameter parameters[] = {
	[ROUNDS] = { "ROUNDS", "of growing and freeing all vectors", 1, 100000000, 50 },
	[VECTORS] = { "VECTORS", "growing at a time", 1, 100000, 16 },
	[LIMIT] = { "LIMIT", "bytes that each vector reaches at most before it stops; doubling, it may have twice as much", 64, UINT64_C(1) << 32, 1 << 20 },
	[SEED] = { "SEED", "of lengths and turns", 0, UINT64_MAX, 1 },
	{ .name = NULL },
};
static const struct workload workload = {
	"bench_realloc_growth", "Grows vectors by realloc; an operation is a call of it",
	parameters, NULL,
};

/* Words 0 … length - 1 are written: each holds its index times `factor`. */
struct vector {
	uint64_t *words;
	size_t length, capacity, limit;
	uint64_t factor;
};

enum { WORD = sizeof(uint64_t), FIRST = 4, STEP = 8 };

static size_t by_double(size_t capacity) {
	return capacity * 2;
}

static size_t by_half(size_t capacity) {
	return capacity + capacity / 2;
}

static size_t by_step(size_t capacity) {
	return capacity + STEP;
}

static void check(const struct vector *v, size_t from) {
	for (size_t i = from; i < v->length; i++)
		if (v->words[i] != i * v->factor)
			workload_fail("word %zu of a vector of %zu is damaged", i, v->length);
}

/* Grows the vector and fills what was gained. What a move lost would most likely be its end. */
static void grow(struct vector *v, size_t capacity) {
	uint64_t *words = realloc(v->words, capacity * WORD);
	if (words == NULL)
		workload_fail("realloc to %zu bytes failed", capacity * WORD);
	v->words = words;
	v->capacity = capacity;
	check(v, v->length > FIRST ? v->length - FIRST : 0);
	for (; v->length < capacity; v->length++)
		words[v->length] = v->length * v->factor;
}

/* Grows vectors in random turns until all are at their limits; returns how often. */
static uint64_t grow_all(struct vector *vectors, size_t count, size_t (*next)(size_t),
		uint64_t *random) {
	uint64_t calls = 0;
	for (size_t growing = count; growing > 0;) {
		size_t i = random_between(random, 0, growing - 1);
		struct vector *v = &vectors[i];
		grow(v, v->capacity == 0 ? FIRST : next(v->capacity));
		calls++;
		if (v->capacity < v->limit)
			continue;
		growing--;
		struct vector full = *v;
		*v = vectors[growing];
		vectors[growing] = full;
	}
	return calls;
}

static void free_all(struct vector *vectors, size_t count) {
	workload_served(vectors[0].words);
	for (size_t i = 0; i < count; i++) {
		check(&vectors[i], 0);
		free(vectors[i].words);
	}
}

/* Limits from a 64th of the greatest on; those that grow by steps end at a sixteenth, since their
   calls are so many. */
static void measure(const char *name, size_t (*next)(size_t), struct vector *vectors) {
	size_t count = parameters[VECTORS].value;
	size_t limit = parameters[LIMIT].value / WORD / (next == by_step ? 16 : 1);
	uint64_t random = parameters[SEED].value, calls = 0;
	double before = cpu_seconds();
	for (uint64_t round = 0; round < parameters[ROUNDS].value; round++) {
		for (size_t i = 0; i < count; i++)
			vectors[i] = (struct vector){ .factor = round * count + i + 1,
				.limit = random_between(&random, limit / 64 + 1, limit + 1) };
		workload_start();
		uint64_t now = grow_all(vectors, count, next, &random);
		free_all(vectors, count);
		workload_stop(now);
		calls += now;
	}
	char label[32];
	snprintf(label, sizeof(label), "growth %s", name);
	workload_figure(label, (cpu_seconds() - before) * 1e9 / (double)calls, "ns");
}

int main(int argc, char **argv) {
	workload_begin(&workload, argc, argv);
	struct vector *vectors = scratch(parameters[VECTORS].value * sizeof(*vectors));
	measure("x2", by_double, vectors);
	measure("x1.5", by_half, vectors);
	measure("+64 B", by_step, vectors);
	return workload_end();
}
