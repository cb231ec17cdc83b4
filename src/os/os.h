/* SPDX-License-Identifier: MIT */
/*
 * What HAKMEM asks of the operating system: the whole platform contract. One file per system
 * implements it (os_linux.c).
 *
 * None of these functions but os_init touches errno, allocates, takes a lock or is interposable: they make the
 * system call themselves, but for os_thread_start, os_handle_signal and os_symbol, which go by libc. Sizes are
 * bytes; addresses and sizes are multiples of the page size unless noted.
 */
#ifndef HAK_OS_OS_H
#define HAK_OS_OS_H

#include "base/compiler.h"

/* Facts about the process, set by os_init and constant afterwards. */
struct os_facts {
	size_t page_size;
	bool secure;        /* AT_SECURE: the environment is not to be trusted */
	bool privileged;    /* that, or root: more is at stake than the caller's own rights */
	const char *started_as; /* path given to exec; NULL: not known */
	uint64_t random[2]; /* out of 16 random bytes from the kernel */
	size_t memory;      /* what os_memory said as the process began; 0: it was not asked, or does not know */
};
extern struct os_facts os_facts;

/* Fills os_facts from the auxiliary vector. No system call. `env`: the environment as the kernel laid it down; NULL: not
   known where that is. */
void os_init(char *const *env);

/* Fresh zero memory, readable and writable, near `hint` if that is free (NULL: anywhere). NULL when
   the system has none, or when more than the setting `limit` would then be mapped in all. */
void *os_map(void *hint, size_t size);

/* As os_map with an address that is a multiple of `align` (a power of two, at least a page). */
void *os_map_aligned(size_t size, size_t align);

/* Addresses to be the target of os_move from a mapping of `old_size`: no memory, which two such blocks might not
   find room for, and what is more than the old one counts to the limit alone. */
void *os_map_target(size_t size, size_t align, size_t old_size);

/* Nothing was moved there: the rest of the target counts, too, until it is unmapped. */
void os_target_stays(size_t old_size);

/* Once the settings hold: gives what was mapped before, when the loader allocated, the name that the setting
   `name_maps` wants, as later mappings get it. */
void os_name_early_maps(void);

/* Bytes mapped by the functions above and not unmapped since; where that is kept. */
size_t os_mapped(void);
const void *os_mapped_at(void);

/* Read without order. System calls are not counted without the option `stats`. */
struct os_counters {
	uint64_t mmap, munmap, mremap, madvise;
	uint64_t mapped_most; /* the most os_mapped ever was */
};
extern struct os_counters os_counters;

/* Gives address space back. False if the system refuses (a mapping split would exceed its limit);
   the memory then stays mapped. */
bool os_unmap(void *addr, size_t size);

/* Drops the contents: the pages read as zero afterwards and cost no memory until touched. False if
   the system refuses; contents are then unspecified but the memory stays usable. */
bool os_purge(void *addr, size_t size);

/* Makes pages inaccessible, or readable and writable again. False if the system refuses; some of them
   may then have changed. */
bool os_protect(void *addr, size_t size, bool accessible);

/* Makes pages readable only. Advice only. */
void os_forbid_writes(void *addr, size_t size);

/* Asks for huge pages, or for none. Advice only. */
void os_advise_huge(void *addr, size_t size, bool wanted);

/* Replaces untouched pages of a mapping by a mapping that the system does not join with its neighbours: no huge
   page spans its ends. True, too, where the system refuses such mappings, and all is as it was. False: the pages may be
   gone. */
bool os_map_apart(void *addr, size_t size);

/* Makes accessible pages resident, by one call for all; what they hold stays. Other threads may be using them. False:
   this system has no such call, or forbids it; it is not asked again. */
bool os_populate(void *addr, size_t size);

/* Grows a mapping in place. Not done: unchanged; refused: the system would not move it, either (its pages are locked
   in part, or advised about in part). */
enum os_growth { GROWTH_DONE, GROWTH_NO_ROOM, GROWTH_REFUSED };
enum os_growth os_grow(void *addr, size_t old_size, size_t new_size);

/* Moves the pages of a mapping, without copying, to `target`, which is a mapping of `new_size` that
   is replaced. On failure the old mapping is unchanged; `target` is, too, or (MOVE_TARGET_LOST) the
   system may have unmapped it, so that it must not be touched again. Unless it `must`, the system is not asked
   again for a while. */
enum os_move_result { MOVE_DONE, MOVE_REFUSED, MOVE_TARGET_LOST };
enum os_move_result os_move(void *addr, size_t old_size, size_t new_size, void *target, bool must);

/* Milliseconds of a clock that never goes back; coarse. */
uint64_t os_now_ms(void);

/* A counter that is read without a system call and advances by OS_CYCLES_A_MOMENT in some 20 ms; how fast
   exactly differs from machine to machine, and it may jump when a thread moves to another processor. */
HAK_INLINE uint64_t os_cycles(void) {
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t v;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
	return os_now_ms();
#endif
}

/* How far that counter gets in about a millisecond. x86 does not say: its counters run at 2 to 4 GHz mostly. */
HAK_INLINE uint64_t os_cycles_a_ms(void) {
#if defined(__x86_64__)
	return 2000000;
#elif defined(__aarch64__)
	uint64_t v;
	__asm__("mrs %0, cntfrq_el0" : "=r"(v));
	return v / 1000 + 1;
#else
	return 1;
#endif
}
#if defined(__x86_64__)
#define OS_CYCLES_A_MOMENT ((uint64_t)1 << 26)
#elif defined(__aarch64__)
#define OS_CYCLES_A_MOMENT (20 * os_cycles_a_ms())
#else
#define OS_CYCLES_A_MOMENT 20
#endif

/* Sleeps while *`word` == `value`; may return early. */
void os_wait(const void *word, uint32_t value);

/* The same, for at most `ms` milliseconds. */
void os_wait_ms(const void *word, uint32_t value, uint64_t ms);

/* Wakes one sleeper of os_wait. */
void os_wake(const void *word);

/* Lets another thread run. */
HAK_INLINE void os_pause(void) {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Has `handle` handle a signal, with all of the program's others blocked meanwhile: none of their handlers comes in
   between, and calls exit, say. It restarts system calls, and uses the alternate stack if there is one. */
void os_handle_signal(int number, void (*handle)(int number));

/* Opens a file for reading, never waiting for it. `fd` < 0: it could not be opened. */
struct os_file {
	int fd;
	bool absent;  /* there is none of that name */
	bool regular; /* neither folder, FIFO nor device */
	bool trusted; /* not everybody may write it, and if the process is privileged none but root may */
};
struct os_file os_file_open(const char *path);
void os_file_close(int fd);

/* Reads at most `size` bytes from `offset` on. Number of bytes; 0: there are no more. */
size_t os_file_read(int fd, char *buf, size_t size, size_t offset);

/* Opens a file for writing, as a new one or emptied; no link is followed but of /dev and /proc. Below 0: minus
   an error number. */
int os_file_create(const char *path);

/* Opens a file for adding to its end, made if there is none; no link is followed. Negative: it could not be. */
int os_file_append(const char *path);

/* Another descriptor for the file that is open as `fd`, high enough to be in nobody's way. Negative: none. */
int os_file_keep(int fd);

/* Which file is open as `fd`: 0 if none is. No two of one device have the same number, and of two devices but by chance. */
uint64_t os_file_identity(int fd);

/* Path of the running program, without NUL. Its length; 0: not known, or no shorter than `size`. */
size_t os_executable(char *buf, size_t size);

/* Id of the calling thread, and of the process. */
int os_thread_id(void);
int os_process_id(void);

/* Sends a signal to the calling thread, as raise does. */
void os_raise(int signal);

/* abort() for a thread of our own: another one takes SIGABRT. Returns after a second if its handler lets the process go on. */
void os_abort_process(void);

/* Threads of the process, as the system counts them; 0: it does not tell. */
unsigned os_thread_count(void);

/* Bytes of physical memory, or what the process may have of address space if that is less; 0: not known. */
size_t os_memory(void);

/* The smallest limit on memory among the control groups that the process is in, of either version, and
   those around them; 0: none. `membership` is a file like /proc/self/cgroup, `root` where the
   hierarchies are mounted; not longer than 64 bytes. */
size_t os_cgroup_limit(const char *membership, const char *root);

/* All signals, the C library's own included, are held off from the calling thread until they are restored. */
uint64_t os_block_signals(void);
void os_restore_signals(uint64_t before);

/*
 * Starts a thread that is no thread to the C library: without thread-local memory of its own (it has the
 * starter's: not even errno may be touched), without capabilities, on a stack of some 16 KiB. It takes no signal:
 * the caller has blocked them all, which it inherits. `run` may only use what is in this header and what is as
 * careful. Can be called anywhere, also with locks held. False: the system refuses.
 */
struct os_thread {
	void (*run)(void);
	const char *name; /* 15 bytes at most */
	char *stack; /* NULL before the first start; kept for the next one, in a fork child */
	int id;      /* its own to write, and to be asked whether the caller is it */
};
bool os_thread_start(struct os_thread *thread);

/* What a library that dlopen gave has by that name, or, for RTLD_NEXT, what is behind this one. NULL: nothing, or there is
   no loader. Takes the loader's lock, and the first time allocates. For what few programs have use for: what a library
   refers to itself is looked up at the start of each. */
void *os_symbol_in(void *library, const char *name);

/* What the process sees by that name: in RTLD_DEFAULT. */
HAK_INLINE void *os_symbol(const char *name) {
	return os_symbol_in(NULL, name);
}

/* Where libc says whether there is but one thread; NULL: it does not, before glibc 2.32. Neither takes the loader's lock,
   for whose holder this thread may be waited for, nor allocates, nor is an error of dlsym forgotten by it. */
const char *os_libc_alone(void);

/* Can the word that holds `addr` be read? True also where the system does not say. */
bool os_is_readable(const void *addr);

#endif
