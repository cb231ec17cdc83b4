/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target without a fuzzer: every file of a folder, then variants of them made at random,
 * the same ones each time.
 *
 * Usage: replay FOLDER VARIANTS [FILE]...; FILE: only these inputs, as a fuzzer left them.
 */
#include "target.h"
#include "../random.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 256, LENGTH = 4096 };

static struct input {
	uint8_t bytes[LENGTH];
	size_t length;
} inputs[FILES];
static size_t count;

static uint64_t seed = 0x853c49e6748fea9b;

static int read_input(const char *path)
{
	struct input *input = &inputs[count];
	FILE *file = fopen(path, "rb");

	if (!file || count == FILES) {
		perror(path);
		return 0;
	}
	input->length = fread(input->bytes, 1, LENGTH, file);
	fclose(file);
	count++;
	return 1;
}

static int read_folder(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	char name[4096];

	if (!folder) {
		perror(path);
		return 0;
	}
	while ((entry = readdir(folder)))
		if (entry->d_name[0] != '.') {
			snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
			if (!read_input(name))
				return 0;
		}
	closedir(folder);
	return count > 0;
}

/* Bytes changed, a piece of another input put in, cut short. */
static struct input vary(void)
{
	struct input input = inputs[next_random(&seed) % count];
	const struct input *other = &inputs[next_random(&seed) % count];

	for (uint64_t n = next_random(&seed) % 12; n > 0 && input.length > 0; n--)
		input.bytes[next_random(&seed) % input.length] = (uint8_t)next_random(&seed);
	if (next_random(&seed) % 2 && other->length > 0 && input.length > 0) {
		size_t from = next_random(&seed) % other->length, to = next_random(&seed) % input.length;
		size_t length = next_random(&seed) % (other->length - from) + 1;

		if (to + length > LENGTH)
			length = LENGTH - to;
		memcpy(input.bytes + to, other->bytes + from, length);
		input.length = to + length > input.length ? to + length : input.length;
	}
	if (next_random(&seed) % 8 == 0)
		input.length = next_random(&seed) % (input.length + 1);
	return input;
}

int main(int argc, char **argv)
{
	long variants = argc > 2 ? atol(argv[2]) : -1;

	if (variants < 0) {
		fprintf(stderr, "usage: replay FOLDER VARIANTS [FILE]...\n");
		return 2;
	}
	for (int i = 3; i < argc; i++)
		if (!read_input(argv[i]))
			return 2;
	if (argc <= 3 && !read_folder(argv[1]))
		return 2;
	for (size_t i = 0; i < count; i++)
		LLVMFuzzerTestOneInput(inputs[i].bytes, inputs[i].length);
	for (; variants > 0; variants--) {
		struct input input = vary();

		LLVMFuzzerTestOneInput(input.bytes, input.length);
	}
	return 0;
}
