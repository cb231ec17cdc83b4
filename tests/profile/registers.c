/* SPDX-License-Identifier: MIT */
/*
 * Registers its own unwind tables at run time, as compilers that work at run time do, and unwinds: the C
 * run time's unwinder then allocates with its lock held. Exit status 0; an alarm ends it if it hangs.
 * Usage: registers early|late     whether the program allocates before that
 */
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

void __register_frame_info(const void *begin, void *object);

static const void *tables;

/* The header says where they are, here as a difference in 32 bits. */
static int find_tables(struct dl_phdr_info *info, size_t size, void *unused)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const unsigned char *header = (const unsigned char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		int32_t offset;

		if (info->dlpi_phdr[i].p_type != PT_GNU_EH_FRAME || header[1] != 0x1b)
			continue;
		memcpy(&offset, header + 4, sizeof offset);
		tables = header + 4 + offset;
	}
	return 1; /* the program itself comes first */
}

static _Unwind_Reason_Code count(struct _Unwind_Context *context, void *frames)
{
	++*(int *)frames;
	return _URC_NO_REASON;
}

int main(int argc, char **argv)
{
	static uint64_t object[32];
	int frames = 0;

	alarm(20);
	for (size_t i = 0; argc > 1 && strcmp(argv[1], "early") == 0 && i < 5000; i += 10)
		free(malloc(i));
	dl_iterate_phdr(find_tables, NULL);
	if (tables == NULL)
		return 77;
	__register_frame_info(tables, object);
	_Unwind_Backtrace(count, &frames);
	_exit(frames > 0 ? 0 : 1);
}
