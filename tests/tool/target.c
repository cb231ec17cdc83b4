/* SPDX-License-Identifier: MIT */
/*
 * A program to look into: holds blocks whose number and bytes it says on standard output, and waits until its
 * standard input ends.
 *
 * usage: target [churn | wide | titled | mapped FILE | notes NUMBER | silent | uncaught SIGNAL | told SIGNAL |
 *                headless]
 *   churn     a thread allocates and frees meanwhile
 *   wide      32 MiB are resident that are no heap's
 *   titled    churns, after a title was written over the path by which this was started
 *   mapped    FILE is mapped to be read, as symbolizers do
 *   notes     a file with the library's note is mapped so often, from which nothing leads on
 *   silent    a file is mapped whose contents are waited for in vain
 *   uncaught  nothing catches SIGNAL any more
 *   told      says '!' on standard output whenever SIGNAL comes, and does nothing else for it
 *   headless  main's thread ends, and another one waits
 */
#include <elf.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "observe/descriptor.h"

enum { SMALL = 5000, SMALL_SIZE = 500, LARGE = 10, LARGE_SIZE = 100000, HUGE_SIZE = 5 << 20, SLOTS = 1000,
	WIDE = 32 << 20 };

static volatile bool stop;

static void *churn(void *arg)
{
	static void *slots[SLOTS];
	unsigned seed = 1;

	while (!stop) {
		seed = seed * 1664525 + 1013904223;
		void **slot = &slots[(seed >> 8) % SLOTS];
		free(*slot);
		*slot = malloc((seed >> 18) % 3000 * (seed % 50 == 0 ? 40 : 1));
	}
	return arg;
}

static void tell(int number)
{
	(void)number;
	(void)!write(STDOUT_FILENO, "!", 1);
}

/* Writes the line and waits. In one piece, and by write: what waits for this line may look at once, and dprintf frees its
   buffer only behind it. */
static int say_and_wait(void)
{
	char line[100], byte;
	int length = snprintf(line, sizeof line, "%d %d %d %d %d\n", SMALL, SMALL_SIZE, LARGE, LARGE_SIZE,
		HUGE_SIZE);

	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		return 1;
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}

static void *live_on(void *arg)
{
	char byte;
	struct iovec local = { &byte, 1 }, remote = { &byte, 1 };

	/* As long as main's thread is there, so is its memory. */
	while (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1)
		usleep(1000);
	exit(say_and_wait());
}

/* False: that cannot be done. */
static bool map_notes(int times)
{
	static const struct {
		Elf64_Ehdr file;
		Elf64_Phdr header;
		Elf64_Nhdr note;
		char name[(sizeof DESCRIPTOR_NOTE + 3) / 4 * 4];
		struct descriptor descriptor;
	} image = {
		.file = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64 }, .e_phoff = sizeof image.file,
			.e_phentsize = sizeof image.header, .e_phnum = 1 },
		.header = { .p_type = PT_NOTE, .p_vaddr = offsetof(__typeof__(image), note),
			.p_memsz = sizeof image - offsetof(__typeof__(image), note) },
		.note = { sizeof DESCRIPTOR_NOTE, sizeof image.descriptor, DESCRIPTOR_NOTE_TYPE },
		.name = DESCRIPTOR_NOTE,
		.descriptor = { .format = DESCRIPTOR_FORMAT, .to_roots = 1 },
	};
	char path[] = "/tmp/target.XXXXXX";
	int file = mkstemp(path);

	if (file < 0 || unlink(path) || write(file, &image, sizeof image) != sizeof image)
		return false;
	for (; times > 0; times--)
		if (mmap(NULL, 1, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED)
			return false;
	return true;
}

/* Likewise. */
static bool map_silent(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int file = memfd_create("silent", 0), faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (file < 0 || faults < 0 || ftruncate(file, (off_t)page) != 0)
		return false;
	void *at = mmap(NULL, page, PROT_READ, MAP_SHARED, file, 0);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register all = { .range = { (uintptr_t)at, page }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	return at != MAP_FAILED && ioctl(faults, UFFDIO_API, &api) == 0 && ioctl(faults, UFFDIO_REGISTER, &all) == 0;
}

int main(int argc, char **argv)
{
	static void *blocks[SMALL + LARGE + 1];
	pthread_t thread;

	/* Some systems let only a process's parent read its memory. Others know nothing of this call. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	for (int i = 0; i < SMALL; i++)
		blocks[i] = malloc(SMALL_SIZE);
	for (int i = 0; i < LARGE; i++)
		blocks[SMALL + i] = malloc(LARGE_SIZE);
	blocks[SMALL + LARGE] = malloc(HUGE_SIZE);
	for (int i = 0; i < 3 * SMALL; i++)
		free(malloc(3000));
	bool is_titled = argc > 1 && strcmp(argv[1], "titled") == 0;
	if (is_titled)
		snprintf(argv[0], strlen(argv[0]) + 1, "target: its worker at a/b");
	if (argc > 1 && (is_titled || strcmp(argv[1], "churn") == 0) && pthread_create(&thread, NULL, churn, NULL) != 0)
		return 1;
	if (argc > 1 && strcmp(argv[1], "wide") == 0 &&
			mmap(NULL, WIDE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED)
		return 1;
	if (argc > 2 && strcmp(argv[1], "mapped") == 0) {
		int file = open(argv[2], O_RDONLY);
		if (mmap(NULL, (size_t)lseek(file, 0, SEEK_END), PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED)
			return 1;
	}
	if (argc > 2 && strcmp(argv[1], "notes") == 0 && !map_notes(atoi(argv[2])))
		return 1;
	if (argc > 1 && strcmp(argv[1], "silent") == 0 && !map_silent())
		return 1;
	if (argc > 2 && strcmp(argv[1], "uncaught") == 0)
		signal(atoi(argv[2]), SIG_DFL);
	if (argc > 2 && strcmp(argv[1], "told") == 0)
		signal(atoi(argv[2]), tell);
	if (argc > 1 && strcmp(argv[1], "headless") == 0) {
		if (pthread_create(&thread, NULL, live_on, NULL) != 0)
			return 1;
		pthread_exit(NULL);
	}
	int failed = say_and_wait();
	stop = true;
	return failed || blocks[0] == NULL;
}
