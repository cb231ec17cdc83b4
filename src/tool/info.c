/* SPDX-License-Identifier: MIT */
/* `hakmem info`: what this library is, and what machine it finds. */
#include "hakmem.h"
#include "tool/commands.h"

#include <unistd.h>

static int run(int argc, char **argv) {
	if (argc > 1)
		return misused("info: what is '%s'?", argv[1]);
	printf("version %s\n", hak_version());
	printf("page size %ld\n", sysconf(_SC_PAGESIZE));
	return TOOL_OK;
}

const struct command command_info = {
	.name = "info",
	.summary = "version, build options and what the machine offers",
	.usage = "usage: hakmem info\n",
	.run = run,
};
