/* SPDX-License-Identifier: MIT */
/* `hakmem info`: what the library is and what it finds on this machine. */
#include "hakmem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tool/commands.h"
#include "tool/library.h"
#include "tool/preload.h"
#include "tool/process.h"
#include "tool/screen.h"

static void print_row(const char *name, const char *value) {
	printf("%-18s %s\n", name, value);
}

/* The first line of a file, without newline; "not known". */
static void print_file(const char *name, const char *path) {
	char line[256] = "not known";
	FILE *file = fopen(path, "re");
	if (file != NULL && fgets(line, sizeof line, file) == NULL)
		strcpy(line, "not known");
	if (file != NULL)
		fclose(file);
	line[strcspn(line, "\n")] = '\0';
	print_row(name, line);
}

/* The words of the loader's file, however many lines they stand in. */
static void print_preloaded(void) {
	char text[4096], words[sizeof text] = "";
	FILE *file = fopen("/etc/ld.so.preload", "re");
	struct bytes all = { text, file != NULL ? fread(text, 1, sizeof text, file) : 0 };
	struct word word;
	size_t len = 0;
	for (size_t pos = 0; preload_next_word(all, &pos, &word);)
		len += (size_t)snprintf(words + len, sizeof words - len, "%s%.*s", len != 0 ? " " : "", (int)word.len, word.at);
	if (file != NULL)
		fclose(file);
	print_row("preloaded", len != 0 ? words : "nothing");
}

/* How this library was built: as the process that we are says of itself, in its settings. */
static void print_build(void) {
	static const char *const from_build[] = { "wrap_tiny", "tiny_use_superslab", "bigcache_l25" };
	struct process self;
	struct reading_setting s;
	free(malloc(1)); /* so that there is something to read */
	if (process_open(&self, getpid()) != TOOL_OK)
		return;
	print_row("counters", self.reading.number[N_HAS_COUNTERS] != 0 ? "built in" : "not built in");
	for (unsigned row = 0; reading_setting(&self.reading, row, &s); row++)
		for (size_t i = 0; i < sizeof from_build / sizeof *from_build; i++)
			if (strcmp(s.name, from_build[i]) == 0)
				print_row(s.name, s.value);
}

static int run(int argc, char **argv) {
	struct utsname system;
	char text[64];
	if (argc > 1)
		return misused("info: what is '%s'?", argv[1]);
	const char *path = library_path();
	print_row("library", path != NULL ? path : "not known");
	print_row("library version", hak_version());
	print_row("command version", HAKMEM_VERSION);
	print_build();
	snprintf(text, sizeof text, "%ld", sysconf(_SC_PAGESIZE));
	print_row("page size", text);
	snprintf(text, sizeof text, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	print_row("processors", text);
	print_row("memory", amount_of((uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE)).text);
	if (uname(&system) == 0)
		printf("%-18s %s %s %s\n", "system", system.sysname, system.release, system.machine);
	print_file("huge pages", "/sys/kernel/mm/transparent_hugepage/enabled");
	print_file("overcommit", "/proc/sys/vm/overcommit_memory");
	print_file("max_map_count", "/proc/sys/vm/max_map_count");
	print_file("ptrace_scope", "/proc/sys/kernel/yama/ptrace_scope");
	print_preloaded();
	print_row("settings file", access("/etc/hakmem.conf", F_OK) == 0 ? "/etc/hakmem.conf" : "none");
	return TOOL_OK;
}

const struct command command_info = {
	.name = "info",
	.summary = "version, build options and what the machine offers",
	.usage = "usage: hakmem info\n",
	.run = run,
};
