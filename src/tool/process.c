/* SPDX-License-Identifier: MIT */
/*
 * HAKMEM is found by its note (observe/descriptor.h): of everything that is mapped from the beginning of a
 * file, the program headers are read in memory, and the notes they tell of. So it does not matter whether the
 * file is still there, what it is called, or whether it is the program itself.
 */
#include "tool/process.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { READS_MOST = 1 << 22 }; /* a few seconds; 100 GiB of small blocks take a tenth of it */

volatile uint64_t *process_beats;

static bool may_read(struct process *p) {
	if (process_beats != NULL)
		++*process_beats;
	p->reads -= p->reads != 0;
	return p->reads != 0;
}

static bool copy_from(void *arg, uint64_t from, void *to, size_t size) {
	struct process *p = arg;
	if (!may_read(p))
		return false;
	struct iovec local = { to, size }, remote = { (void *)(uintptr_t)from, size };
	return process_vm_readv(p->thread, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

static FILE *open_file(pid_t pid, const char *file) {
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
	return fopen(path, "re");
}

FILE *process_file(const struct process *p, const char *file) {
	return open_file(p->thread, file);
}

/* ---- the note ---- */

enum { NOTES_MOST = 4096 };

static uint64_t pad4(uint64_t n) {
	return (n + 3) & ~(uint64_t)3;
}

/* The address of the descriptor among notes; 0: it is not there. */
static uint64_t find_in_notes(struct process *p, uint64_t at, uint64_t size) {
	char notes[NOTES_MOST];
	if (size > sizeof notes || !copy_from(p, at, notes, size))
		return 0;
	for (uint64_t off = 0; off + sizeof(Elf64_Nhdr) <= size;) {
		Elf64_Nhdr note;
		memcpy(&note, notes + off, sizeof note);
		uint64_t name = off + sizeof note, desc = name + pad4(note.n_namesz);
		if (desc + note.n_descsz > size)
			return 0;
		if (note.n_type == DESCRIPTOR_NOTE_TYPE && note.n_namesz == sizeof DESCRIPTOR_NOTE &&
		    memcmp(notes + name, DESCRIPTOR_NOTE, sizeof DESCRIPTOR_NOTE) == 0)
			return at + desc;
		off = desc + pad4(note.n_descsz);
	}
	return 0;
}

/* Likewise in the ELF file that is mapped at `base`. */
static uint64_t find_in_file(struct process *p, uint64_t base) {
	enum { HEADERS_MOST = 64 };
	Elf64_Ehdr elf;
	Elf64_Phdr headers[HEADERS_MOST];
	if (!copy_from(p, base, &elf, sizeof elf) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
	    elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_phentsize != sizeof *headers || elf.e_phnum > HEADERS_MOST)
		return 0;
	if (!copy_from(p, base + elf.e_phoff, headers, elf.e_phnum * sizeof *headers))
		return 0;
	uint64_t bias = base, found = 0;
	for (unsigned i = 0; i < elf.e_phnum; i++)
		if (headers[i].p_type == PT_LOAD) {
			bias = base - (headers[i].p_vaddr - headers[i].p_offset);
			break;
		}
	for (unsigned i = 0; i < elf.e_phnum && found == 0; i++)
		if (headers[i].p_type == PT_NOTE)
			found = find_in_notes(p, bias + headers[i].p_vaddr, headers[i].p_memsz);
	return found;
}

/* Is what lies there mapped to be written to? */
static bool is_writable(struct process *p, uint64_t address) {
	FILE *maps = process_file(p, "maps");
	char line[512], writing = '-';
	while (maps != NULL && may_read(p) && fgets(line, sizeof line, maps) != NULL) {
		unsigned long long start, end;
		if (sscanf(line, "%llx-%llx %*c%c", &start, &end, &writing) == 3 && address >= start && address < end)
			break;
		writing = '-';
	}
	if (maps != NULL)
		fclose(maps);
	return writing == 'w';
}

/* Symbolizers map a library's file to read in it: then the roots are not where the descriptor says. */
static bool is_loaded(struct process *p, uint64_t descriptor) {
	struct descriptor d;
	if (!copy_from(p, descriptor, &d, sizeof d))
		return false;
	return d.format != DESCRIPTOR_FORMAT ||
		is_writable(p, descriptor + offsetof(struct descriptor, to_roots) + (uint64_t)d.to_roots);
}

/* Beyond what the library asks of itself: metrics are told apart by the sizes of classes, and names of settings fit. */
static bool is_readable(const struct reading *r) {
	uint64_t last = 0;
	for (unsigned sc = 1; sc < HAK_STATS_CLASSES && sc < r->number[N_CLASSES]; sc++) {
		uint64_t size = reading_class_size(r, sc);
		if (size <= last)
			return false;
		last = size;
	}
	return r->number[N_SETTING_NAME] <= sizeof((struct reading_setting *)0)->name;
}

/* The first descriptor that leads to a HAKMEM in use. `maps` says the same file again for each of its parts: the one at
   offset 0 is it. */
static enum tool_exit open_descriptor(struct process *p) {
	FILE *maps = process_file(p, "maps");
	char line[512];
	enum tool_exit why = TOOL_NO_PROCESS; /* a zombie maps nothing */
	if (maps == NULL && (errno == EACCES || errno == EPERM))
		return TOOL_NO_PERMISSION;
	if (maps == NULL)
		return (errno == ENOENT || errno == ESRCH) && access("/proc/self", F_OK) == 0 ? TOOL_NO_PROCESS : TOOL_FAILED;
	bool any = false;
	while (why != TOOL_OK && may_read(p) && fgets(line, sizeof line, maps) != NULL) {
		unsigned long long start, offset;
		char path;
		if (!any)
			why = TOOL_NO_HAKMEM;
		any = true;
		if (sscanf(line, "%llx-%*x %*4s %llx %*s %*u %c", &start, &offset, &path) != 3 || path != '/' || offset != 0)
			continue;
		uint64_t descriptor = find_in_file(p, start);
		if (descriptor == 0 || !is_loaded(p, descriptor))
			continue;
		enum tool_exit this = process_why(p, reading_open(&p->reading, descriptor));
		if (this == TOOL_OK && !is_readable(&p->reading))
			this = TOOL_OTHER_VERSION;
		/* One that nobody uses is the worst reason. */
		if (this == TOOL_OK || why == TOOL_NO_HAKMEM)
			why = this;
	}
	fclose(maps);
	return p->reads == 0 ? TOOL_FAILED : why;
}

/* ---- opening ---- */

static void read_name(struct process *p) {
	FILE *comm = process_file(p, "comm");
	strcpy(p->name, "?");
	if (comm == NULL)
		return;
	if (fgets(p->name, sizeof p->name, comm) == NULL)
		strcpy(p->name, "?");
	p->name[strcspn(p->name, "\n")] = '\0';
	make_printable(p->name);
	fclose(comm);
}

static void read_resident(struct process *p) {
	FILE *statm = process_file(p, "statm");
	unsigned long long pages = 0;
	if (statm != NULL && fscanf(statm, "%*u %llu", &pages) != 1)
		pages = 0;
	if (statm != NULL)
		fclose(statm);
	p->resident = pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t process_status(pid_t pid, const char *key, int base) {
	FILE *status = open_file(pid, "status");
	size_t len = strlen(key);
	uint64_t value = 0;
	char line[256];
	while (status != NULL && fgets(line, sizeof line, status) != NULL)
		if (strncmp(line, key, len) == 0)
			value = strtoull(line + len, NULL, base);
	if (status != NULL)
		fclose(status);
	return value;
}

/* The system counts it late: it may lie below what is resident. */
static void read_resident_peak(struct process *p) {
	uint64_t kib = process_status(p->thread, "VmHWM:", 10);
	p->resident_peak = kib * 1024 > p->resident ? kib * 1024 : p->resident;
}

/* May we read it? The list of its mappings can be open to us and its memory not. */
static enum tool_exit try_memory(pid_t thread) {
	char byte;
	struct iovec local = { &byte, 1 }, remote = { (void *)8, 1 };
	if (process_vm_readv(thread, &local, 1, &remote, 1, 0) >= 0 || errno == EFAULT)
		return TOOL_OK;
	return errno == ESRCH ? TOOL_NO_PROCESS : errno == EPERM ? TOOL_NO_PERMISSION : TOOL_FAILED;
}

/* Likewise, by any thread: main may have ended its own with pthread_exit. */
static enum tool_exit find_memory(struct process *p) {
	char path[64];
	enum tool_exit why = try_memory(p->thread);
	snprintf(path, sizeof path, "/proc/%d/task", (int)p->pid);
	DIR *tasks = why == TOOL_NO_PROCESS ? opendir(path) : NULL;
	struct dirent *entry;
	while (why == TOOL_NO_PROCESS && tasks != NULL && (entry = readdir(tasks)) != NULL) {
		pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
		if (thread > 0 && (why = try_memory(thread)) != TOOL_NO_PROCESS)
			p->thread = thread;
	}
	if (tasks != NULL)
		closedir(tasks);
	return why;
}

enum tool_exit process_why(const struct process *p, enum reading_result result) {
	if (p->reads == 0)
		return TOOL_FAILED;
	switch (result) {
	case READING_OK: return TOOL_OK;
	case READING_GONE: return TOOL_NO_PROCESS;
	case READING_OTHER_VERSION: return TOOL_OTHER_VERSION;
	case READING_NOT_STARTED: return TOOL_NO_HAKMEM;
	}
	return TOOL_FAILED;
}

enum tool_exit process_open(struct process *p, pid_t pid) {
	memset(p, 0, sizeof *p);
	p->pid = p->thread = pid;
	p->reads = READS_MOST;
	p->reading.copy = copy_from;
	p->reading.arg = p;
	p->reading.room = &p->room;
	read_name(p);
	enum tool_exit why = find_memory(p);
	read_resident(p);
	/* What a process maps that is ending looks like that of one without HAKMEM. And where only the thread has ended,
	   another finds the memory; but not for ever. */
	enum { THREADS_MOST = 16 };
	for (int i = 0; why == TOOL_OK; i++) {
		why = open_descriptor(p);
		if (why == TOOL_OK || try_memory(p->thread) != TOOL_NO_PROCESS)
			break;
		why = i < THREADS_MOST ? find_memory(p) : TOOL_FAILED;
	}
	if (why == TOOL_OK)
		read_resident_peak(p);
	return why;
}

enum tool_exit process_stats(struct process *p, struct hak_stats *stats) {
	return process_why(p, reading_stats(&p->reading, stats));
}

enum tool_exit process_settings_why(const struct process *p, unsigned row) {
	return process_why(p, row < p->reading.number[N_SETTINGS] ? READING_GONE : READING_OK);
}

enum tool_exit process_setting(const struct process *p, const char *name, struct reading_setting *s) {
	unsigned row = 0;
	for (; reading_setting(&p->reading, row, s); row++)
		if (strcmp(s->name, name) == 0)
			return TOOL_OK;
	memset(s, 0, sizeof *s);
	return process_settings_why(p, row);
}

enum tool_exit process_complain(const struct process *p, enum tool_exit why) {
	int pid = (int)p->pid;
	switch (why) {
	case TOOL_OK: break;
	case TOOL_NO_PROCESS: complain("process %d: there is none, or it has ended", pid); break;
	case TOOL_NO_PERMISSION:
		complain("process %d (%s): permission denied; it is another user's, or protected: try as root",
		         pid, p->name);
		break;
	case TOOL_NO_HAKMEM: complain("process %d (%s) does not use HAKMEM", pid, p->name); break;
	case TOOL_OTHER_VERSION:
		complain("process %d (%s) uses HAKMEM %s, which this command (%s) cannot read", pid, p->name,
		         p->reading.version[0] != '\0' ? p->reading.version : "of another version", HAKMEM_VERSION);
		break;
	default: complain("process %d (%s): its memory cannot be read", pid, p->name); break;
	}
	return why;
}

bool process_parse(const char *command, const char *text, pid_t *pidp) {
	char *end;
	errno = 0;
	long pid = strtol(text, &end, 10);
	if (errno != 0 || *end != '\0' || end == text || pid <= 0 || pid > 1 << 30) {
		misused("%s: '%s' is no process id", command, text);
		return false;
	}
	*pidp = (pid_t)pid;
	return true;
}
