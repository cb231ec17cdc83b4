/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct option long_options[] = {
	{"seed", required_argument, NULL, 's'},
	{"threads", required_argument, NULL, 't'},
	{"ops", required_argument, NULL, 'o'},
	{"seconds", required_argument, NULL, 'd'},
	{"spoil", required_argument, NULL, 'x'},
	{NULL, 0, NULL, 0},
};

static void print_usage(void)
{
	fputs("usage: stress [--seed N] [--threads N] [--ops N] [--seconds N] [--spoil HOW]\n"
	      "  --seed N      repeat the run of that seed\n"
	      "  --threads N   threads at a time (4)\n"
	      "  --ops N       operations of all threads together (1000000)\n"
	      "  --seconds N   go on for so long, in rounds of that many operations\n"
	      "  --spoil HOW   at the end damage a block, which must be found: overwritten, shared,\n"
	      "                cleared\n",
		stderr);
}

static enum block_spoiling parse_spoiling(const char *name)
{
	static const char *const names[] = {"intact", "overwritten", "shared", "cleared"};

	for (int i = 0; i < 4; i++)
		if (strcmp(name, names[i]) == 0)
			return (enum block_spoiling)i;
	fprintf(stderr, "stress: cannot spoil by '%s'\n", name);
	exit(2);
}

static unsigned long long seed_from_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return ((unsigned long long)now.tv_sec << 20 ^ (unsigned long long)now.tv_nsec ^
		       (unsigned long long)getpid()) %
		1000000000;
}

bool options_parse(struct options *options, int argc, char **argv, long max_threads)
{
	int option;

	*options = (struct options){.seed = seed_from_clock(), .threads = 4, .ops = 1000000};
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) >= 0)
		switch (option) {
		case 's':
			options->seed = strtoull(optarg, NULL, 0);
			break;
		case 't':
			options->threads = atol(optarg);
			break;
		case 'o':
			options->ops = atol(optarg);
			break;
		case 'd':
			options->seconds = atoi(optarg);
			break;
		case 'x':
			options->spoil = parse_spoiling(optarg);
			break;
		default:
			print_usage();
			return false;
		}
	if (optind == argc && options->threads > 0 && options->threads <= max_threads &&
		options->ops > 0 && options->seconds >= 0)
		return true;
	print_usage();
	return false;
}
