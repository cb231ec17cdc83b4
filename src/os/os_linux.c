/* SPDX-License-Identifier: MIT */
/*
 * The platform contract on Linux: raw system calls, so that neither errno nor a library that
 * interposes libc's wrappers (a fake clock, an mmap tracer) is involved. But for clone and sigaction, which take
 * assembly that libc has (how a thread begins, and how a handler returns).
 *
 * After the constructor only mmap, munmap, mremap, madvise, mprotect and futex are used:
 * sandboxes that permit what libc's malloc needs permit us. The clock is read
 * without a system call, unless the machine has none that can be. What else is here is for settings
 * that ask for it (background, name_maps, sample, stats, crash_report), for reports, and for the
 * constructor, which reads the settings and asks how much memory there is; and for a signal handler that forks amid a
 * slow path, which asks how many threads there are.
 */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/probe.h"
#include "base/report.h"
#include "base/settings.h"
#include "base/syscall.h"
#include "base/text.h"
#include "build_options.h"
#include "os/alone.h"
#include "os/vdso.h"

enum { STACK_BYTES = 16 * 1024 };

HAK_AT_START struct os_facts os_facts;
struct os_counters os_counters;

/* Relaxed: a counter. */
#define COUNT_CALL(name) \
	((void)(HAK_STATS && __atomic_fetch_add(&os_counters.name, 1, __ATOMIC_RELAXED)))

static bool failed(long ret) {
	return ret < 0 && ret >= -4095;
}

/* The rounds of SipHash: libc has secrets of its own from the same bytes, which must not follow from ours. */
HAK_EVERYDAY static void stir(uint64_t random[2], const unsigned char *bytes) {
	__builtin_memcpy(random, bytes, 16);
	uint64_t a = random[0] ^ 0x736f6d6570736575, b = random[1] ^ 0x646f72616e646f6d;
	uint64_t c = random[0] ^ 0x6c7967656e657261, d = random[1] ^ 0x7465646279746573;
	for (int i = 0; i < 8; i++) {
		a += b, c += d;
		b = (b << 13 | b >> 51) ^ a;
		d = (d << 16 | d >> 48) ^ c;
		a = a << 32 | a >> 32;
		a += d, c += b;
		d = (d << 21 | d >> 43) ^ a;
		b = (b << 17 | b >> 47) ^ c;
		c = c << 32 | c >> 32;
	}
	random[0] = a ^ b;
	random[1] = c ^ d;
}

/* The kernel lays the auxiliary vector behind the environment, and whoever has taken variables out of that leaves one
   NULL more for each. To call getauxval would cost a small process a page fault: it needs nothing else near it in libc. */
HAK_EVERYDAY static const ElfW(auxv_t) *vector_behind(char *const *env) {
	while (*env++ != NULL)
		;
	while (*env == NULL)
		env++;
	return (const void *)env;
}

/* `v`: NULL: not known where it lies. Where something else does, nothing is found. */
HAK_EVERYDAY HAK_NOINLINE static unsigned long fact(const ElfW(auxv_t) *v, unsigned long type) {
	for (; v != NULL && v->a_type != AT_NULL; v++)
		if (v->a_type == type)
			return v->a_un.a_val;
	return getauxval(type);
}

HAK_EVERYDAY void os_init(char *const *env) {
	const ElfW(auxv_t) *v = env != NULL ? vector_behind(env) : NULL;
	os_facts.page_size = fact(v, AT_PAGESZ);
	os_facts.secure = fact(v, AT_SECURE) != 0;
	os_facts.privileged = os_facts.secure || fact(v, AT_EUID) == 0;
	os_facts.started_as = (const char *)fact(v, AT_EXECFN);
	const unsigned char *r = (const unsigned char *)fact(v, AT_RANDOM);
	if (r != NULL)
		stir(os_facts.random, r);
}

/* ---- address space, and the limit on it ---- */

static _Atomic size_t mapped; /* bytes that os_map and os_map_aligned gave and os_unmap did not take */

/* Relaxed throughout: a sum that guards no other data. */
static void uncharge(size_t size) {
	atomic_fetch_sub_explicit(&mapped, size, memory_order_relaxed);
}

/* Counts `size` bytes more, unless that makes too many: then it counts nothing even for a moment, in which other
   threads' requests would fail, too. */
HAK_EVERYDAY static bool charge(size_t size) {
	size_t now = atomic_load_explicit(&mapped, memory_order_relaxed), limit = hak_settings.limit;
	do {
		if (limit != 0 && now + size > limit) {
			HAK_PROBE1(limit_hit, size);
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(&mapped, &now, now + size, memory_order_relaxed,
	                                                memory_order_relaxed));
	return true;
}

/* What became of `size` bytes that were charged. */
HAK_EVERYDAY static bool settle_charge(size_t size, bool done) {
	if (!done) {
		uncharge(size);
		return false;
	}
	/* Racing threads may miss a peak by what they map at once. */
	size_t now = atomic_load_explicit(&mapped, memory_order_relaxed);
	if (now > __atomic_load_n(&os_counters.mapped_most, __ATOMIC_RELAXED))
		__atomic_store_n(&os_counters.mapped_most, now, __ATOMIC_RELAXED);
	return true;
}

HAK_EVERYDAY size_t os_mapped(void) {
	return atomic_load_explicit(&mapped, memory_order_relaxed);
}

enum { EARLY = 6 };

/* Mappings made before the settings hold. Mostly there is one thread then; where nobody loads settings there
   may be more, and each takes a place of its own. */
HAK_AT_START static struct {
	bool over;
	_Atomic unsigned count; /* places asked for; relaxed: read when the process is alone */
	struct {
		void *addr;
		size_t size;
	} map[EARLY];
} early;

/* Advice: kernels without names refuse. */
static void set_name(const void *addr, size_t size) {
	enum { SET_VMA = 0x53564d41, SET_VMA_ANON_NAME = 0 };
	raw6(SYS_prctl, SET_VMA, SET_VMA_ANON_NAME, (long)addr, (long)size, (long)"hakmem", 0);
}

HAK_EVERYDAY static void name_map(void *addr, size_t size) {
	if (HAK_UNLIKELY(hak_settings.name_maps)) {
		set_name(addr, size);
	} else if (HAK_UNLIKELY(!early.over) &&
	           atomic_load_explicit(&early.count, memory_order_relaxed) < EARLY) {
		unsigned i = atomic_fetch_add_explicit(&early.count, 1, memory_order_relaxed);
		if (i < EARLY) {
			early.map[i].addr = addr;
			early.map[i].size = size;
		}
	}
}

HAK_EVERYDAY void os_name_early_maps(void) {
	early.over = true;
	unsigned count = atomic_load_explicit(&early.count, memory_order_relaxed);
	for (unsigned i = 0; hak_settings.name_maps && i < count && i < EARLY; i++)
		set_name(early.map[i].addr, early.map[i].size);
}

HAK_EVERYDAY const void *os_mapped_at(void) {
	return &mapped;
}

/* What was done in a range before it was unmapped is done when the range is mapped again: the kernel orders
   it, which race detectors must be told. */
static void kernel_orders(void) {
#if defined(__SANITIZE_THREAD__)
	static atomic_uint changes;
	atomic_fetch_add_explicit(&changes, 1, memory_order_acq_rel);
#endif
}

/* With PROT_NONE only addresses: the system reserves no memory for them. */
HAK_EVERYDAY static void *map(void *hint, size_t size, long prot) {
	COUNT_CALL(mmap);
	long ret = raw6(SYS_mmap, (long)hint, (long)size, prot,
	                MAP_PRIVATE | MAP_ANONYMOUS | (prot == PROT_NONE ? MAP_NORESERVE : 0), -1, 0);
	if (failed(ret))
		return NULL;
	kernel_orders();
	HAK_PROBE2(mmap, ret, size);
	name_map((void *)ret, size);
	return (void *)ret;
}

HAK_EVERYDAY static bool unmap(void *addr, size_t size) {
	COUNT_CALL(munmap);
	kernel_orders();
	return !failed(raw3(SYS_munmap, (long)addr, (long)size, 0));
}

/* Maps more than asked and trims both ends. */
static void *map_and_trim(size_t size, size_t align, long prot) {
	size_t extra = align - os_facts.page_size;
	if (size + extra < size)
		return NULL;
	char *raw = map(NULL, size + extra, prot);
	if (raw == NULL)
		return NULL;
	char *start = (char *)align_up((uintptr_t)raw, align);
	size_t head = (size_t)(start - raw);
	/* An end that cannot be trimmed stays mapped and untouched: address space only. */
	if (head != 0)
		unmap(raw, head);
	if (extra - head != 0)
		unmap(start + size, extra - head);
	return start;
}

/* The kernel places mappings downwards, so just below the last one is mostly free and one call does. By
   alignment, since the many small mappings leave holes that the larger, well aligned ones do not fit.
   Relaxed: a stale hint costs a retry, nothing else. */
static _Atomic uintptr_t last_fine, last_coarse;
enum { FINE = 64 * 1024, COARSE = 2 * 1024 * 1024 };

static void raise_to(_Atomic uintptr_t *last, uintptr_t end) {
	if (end > atomic_load_explicit(last, memory_order_relaxed))
		atomic_store_explicit(last, end, memory_order_relaxed);
}

/* A hole above the last mapping is used again: else addresses would wander down for ever as mappings come and
   go, and with them what describes them. */
HAK_EVERYDAY static void note_hole(uintptr_t start, uintptr_t end) {
	raise_to(&last_fine, end);
	if (end - start >= COARSE)
		raise_to(&last_coarse, end);
}

/* Of a mapping that is shorter than COARSE its hole raises the fine one alone. If it is aligned to more than that, none is
   lowered: it lies apart. */
static void *map_aligned(size_t size, size_t align, long prot) {
	_Atomic uintptr_t *last = align <= FINE || size < COARSE ? &last_fine : &last_coarse;
	uintptr_t hint = atomic_load_explicit(last, memory_order_relaxed);
	hint = hint > size ? align_down(hint - size, align) : 0;
	char *p = map((void *)hint, size, prot);
	if (p == NULL)
		return NULL;
	if (((uintptr_t)p & (align - 1)) != 0) {
		unmap(p, size);
		p = map_and_trim(size, align, prot);
	}
	if (size >= COARSE || align <= COARSE)
		atomic_store_explicit(last, (uintptr_t)p, memory_order_relaxed);
	return p;
}

HAK_EVERYDAY void *os_map(void *hint, size_t size) {
	if (!charge(size))
		return NULL;
	void *p = map(hint, size, PROT_READ | PROT_WRITE);
	return settle_charge(size, p != NULL) ? p : NULL;
}

HAK_EVERYDAY static void *map_charged(size_t size, size_t align, size_t charged, long prot) {
	if (!charge(charged))
		return NULL;
	void *p = map_aligned(size, align, prot);
	return settle_charge(charged, p != NULL) ? p : NULL;
}

HAK_COLD void *os_map_target(size_t size, size_t align, size_t old_size) {
	return map_charged(size, align, size - old_size, PROT_NONE);
}

HAK_COLD void os_target_stays(size_t old_size) {
	uncharge(-old_size);
}

HAK_EVERYDAY void *os_map_aligned(size_t size, size_t align) {
	return map_charged(size, align, size, PROT_READ | PROT_WRITE);
}

HAK_EVERYDAY bool os_unmap(void *addr, size_t size) {
	if (!unmap(addr, size))
		return false;
	uncharge(size);
	note_hole((uintptr_t)addr, (uintptr_t)addr + size);
	return true;
}

HAK_EVERYDAY bool os_purge(void *addr, size_t size) {
	HAK_PROBE2(purge, addr, size);
	COUNT_CALL(madvise);
	return !failed(raw3(SYS_madvise, (long)addr, (long)size, MADV_DONTNEED));
}

HAK_EVERYDAY bool os_protect(void *addr, size_t size, bool accessible) {
	long prot = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
	return !failed(raw3(SYS_mprotect, (long)addr, (long)size, prot));
}

HAK_EVERYDAY void os_forbid_writes(void *addr, size_t size) {
	raw3(SYS_mprotect, (long)addr, (long)size, PROT_READ);
}

void os_advise_huge(void *addr, size_t size, bool wanted) {
	COUNT_CALL(madvise);
	raw3(SYS_madvise, (long)addr, (long)size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

HAK_EVERYDAY bool os_map_apart(void *addr, size_t size) {
	COUNT_CALL(mmap);
	/* Mappings that differ in MAP_NORESERVE stay apart, but where all memory is reserved; since Linux 6.7 those for stacks
	   get no huge pages, either. Unlike madvise, every sandbox allows this. */
	long ret = raw6(SYS_mmap, (long)addr, (long)size, PROT_READ | PROT_WRITE,
	                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (!failed(ret))
		name_map(addr, size);
	return ret != -ENOMEM; /* other refusals come before anything is done */
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14 */
#endif

bool os_populate(void *addr, size_t size) {
	static bool is_refused;
	/* Relaxed: a thread that does not see it yet asks once more. */
	if (__atomic_load_n(&is_refused, __ATOMIC_RELAXED))
		return false;
	COUNT_CALL(madvise);
	long ret = raw3(SYS_madvise, (long)addr, (long)size, MADV_POPULATE_WRITE);
	bool refused = ret == -EINVAL || ret == -ENOSYS || ret == -EPERM;
	if (refused)
		__atomic_store_n(&is_refused, true, __ATOMIC_RELAXED);
	return !refused;
}

enum os_growth os_grow(void *addr, size_t old_size, size_t new_size) {
	if (!charge(new_size - old_size))
		return GROWTH_NO_ROOM;
	COUNT_CALL(mremap);
	kernel_orders();
	long ret = raw4(SYS_mremap, (long)addr, (long)old_size, (long)new_size, 0);
	kernel_orders();
	if (settle_charge(new_size - old_size, !failed(ret)))
		return GROWTH_DONE;
	return ret == -ENOMEM ? GROWTH_NO_ROOM : GROWTH_REFUSED;
}

enum { MOVE_WAIT = 1000, MOVE_WAIT_MOST = 60 * MOVE_WAIT };

/* Not inlined: valgrind is told of it by its name (tests/memcheck.c). */
HAK_NOINLINE enum os_move_result os_move(void *addr, size_t old_size, size_t new_size, void *target, bool must) {
	/* Whether the target was unmapped before the call failed depends on the kernel and the error. It cannot be asked
	   for: the addresses may be another thread's by then. So they are lost, and the next try for as much waits, longer
	   each time until one succeeds: what refused it, too little memory or too many mappings, may pass. */
	static _Atomic uint64_t wait, until; /* ms; relaxed: two threads at once may lose two */
	static _Atomic size_t refused;
	if (!must && new_size >= atomic_load_explicit(&refused, memory_order_relaxed) &&
	    os_now_ms() < atomic_load_explicit(&until, memory_order_relaxed))
		return MOVE_REFUSED;
	COUNT_CALL(mremap);
	kernel_orders();
	long ret = raw6(SYS_mremap, (long)addr, (long)old_size, (long)new_size,
	                MREMAP_MAYMOVE | MREMAP_FIXED, (long)target, 0);
	if (!failed(ret)) {
		note_hole((uintptr_t)addr, (uintptr_t)addr + old_size);
		atomic_store_explicit(&wait, 0, memory_order_relaxed);
		return MOVE_DONE;
	}
	/* These are found out before the kernel makes room at the target. */
	if (ret == -EPERM || ret == -ENOSYS || ret == -EINVAL)
		return MOVE_REFUSED;
	uint64_t next = min_size(2 * atomic_load_explicit(&wait, memory_order_relaxed) + MOVE_WAIT, MOVE_WAIT_MOST);
	atomic_store_explicit(&refused, new_size, memory_order_relaxed);
	atomic_store_explicit(&wait, next, memory_order_relaxed);
	atomic_store_explicit(&until, os_now_ms() + next, memory_order_relaxed);
	uncharge(new_size - old_size);
	return MOVE_TARGET_LOST;
}

typedef int clock_fn(clockid_t clock, struct timespec *ts);

HAK_EVERYDAY static int ask_kernel(clockid_t clock, struct timespec *ts) {
	return (int)raw3(SYS_clock_gettime, clock, (long)ts, 0);
}

static clock_fn *find_clock(void) {
	clock_fn *fn;
	HAK_EVERYDAY_CONST static const char name[] = "__vdso_clock_gettime", on_arm[] = "__kernel_clock_gettime";
	*(void **)&fn = vdso_find(name);
	if (fn == NULL)
		*(void **)&fn = vdso_find(on_arm);
	return fn != NULL ? fn : ask_kernel;
}

HAK_EVERYDAY uint64_t os_now_ms(void) {
	/* Found when first needed, which in most processes is never. Relaxed: all find the same. */
	static _Atomic(clock_fn *) cached;
	clock_fn *fn = atomic_load_explicit(&cached, memory_order_relaxed);
	if (fn == NULL) {
		fn = find_clock();
		atomic_store_explicit(&cached, fn, memory_order_relaxed);
	}
	struct timespec ts = { 0, 0 };
	fn(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

HAK_NOINLINE HAK_EVERYDAY void os_wait(const void *word, uint32_t value) {
	raw4(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, (long)value, 0);
}

void os_wait_ms(const void *word, uint32_t value, uint64_t ms) {
	struct timespec ts = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };
	raw4(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, (long)value, (long)&ts);
}

HAK_NOINLINE HAK_EVERYDAY void os_wake(const void *word) {
	raw3(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, 1);
}

/* Of the file at `path`, or of `fd` if that is "". */
HAK_NOINLINE HAK_EVERYDAY static bool stat_of(int fd, const char *path, struct stat *st) {
#if defined(__x86_64__) || defined(__aarch64__)
	/* libc has the kernel's layout. */
	return !failed(raw4(SYS_newfstatat, fd, (long)path, (long)st, AT_EMPTY_PATH));
#else
	int saved = errno;
	bool known = fstatat(fd, path, st, AT_EMPTY_PATH) == 0;
	errno = saved;
	return known;
#endif
}

HAK_EVERYDAY struct os_file os_file_open(const char *path) {
	/* O_NONBLOCK: a FIFO must not hold up every program on the machine. */
	long fd = raw3(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (failed(fd))
		return (struct os_file){ .fd = -1, .absent = fd == -ENOENT };
	struct stat st;
	bool known = stat_of((int)fd, "", &st);
	mode_t distrusted = os_facts.privileged ? S_IWGRP | S_IWOTH : S_IWOTH;
	return (struct os_file){
		.fd = (int)fd,
		.regular = known && S_ISREG(st.st_mode),
		.trusted = known && (st.st_mode & distrusted) == 0 && (st.st_uid == 0 || !os_facts.privileged),
	};
}

HAK_NOINLINE HAK_EVERYDAY void os_file_close(int fd) {
	raw3(SYS_close, fd, 0, 0);
}

size_t os_file_read(int fd, char *buf, size_t size, size_t offset) {
	long n = raw4(SYS_pread64, fd, (long)buf, (long)size, (long)offset);
	return failed(n) ? 0 : (size_t)n;
}

/* To be written. `flags`: besides those that both have. */
static int open_output(const char *path, int flags, int mode) {
	/* Where links are the system's, such as /dev/stdout; but what that leads to is the caller's. */
	bool trusted = !os_facts.secure && !begins_with(path, "/dev/shm/") &&
		(begins_with(path, "/dev/") || begins_with(path, "/proc/"));
	flags |= O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | (trusted ? 0 : O_NOFOLLOW | O_NONBLOCK);
	return (int)raw4(SYS_openat, AT_FDCWD, (long)path, flags, mode);
}

HAK_COLD int os_file_create(const char *path) {
	return open_output(path, O_TRUNC, os_facts.secure ? 0644 : 0666);
}

HAK_COLD int os_file_append(const char *path) {
	return open_output(path, O_APPEND, 0644);
}

int os_file_keep(int fd) {
	enum { FROM = 200 };
	return (int)raw3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FROM);
}

uint64_t os_file_identity(int fd) {
	struct stat st;
	return stat_of(fd, "", &st) ? ((uint64_t)st.st_dev << 40 ^ (uint64_t)st.st_ino) + 1 : 0;
}

size_t os_executable(char *buf, size_t size) {
	long n = raw4(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)buf, (long)size);
	return failed(n) || (size_t)n >= size ? 0 : (size_t)n;
}

HAK_EVERYDAY size_t os_memory(void) {
	static const int kinds[] = { RLIMIT_AS, RLIMIT_DATA };
	struct sysinfo info = { 0 };
	if (failed(raw3(SYS_sysinfo, (long)&info, 0, 0)))
		return 0;
	size_t least = (size_t)info.totalram * info.mem_unit;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct rlimit limit;
		long ret = raw4(SYS_prlimit64, 0, kinds[i], 0, (long)&limit);
		if (!failed(ret) && limit.rlim_cur != RLIM_INFINITY)
			least = min_size(least, limit.rlim_cur);
	}
	return os_facts.memory = least;
}

/* ---- a thread of our own ---- */

HAK_AT_START const char *hak_alone, *hak_libc_alone;
HAK_AT_START static char is_not_alone; /* always 0; here, and no constant, since every process reads it */

HAK_EVERYDAY void os_ask_libc(void) {
	if (hak_alone != NULL)
		return;
	const char *word = os_libc_alone();
	hak_alone = hak_libc_alone = word != NULL ? word : &is_not_alone;
}

HAK_COLD void os_expect_thread(void) {
	__atomic_store_n(&hak_alone, &is_not_alone, __ATOMIC_RELAXED); /* as it is read */
}

/* A program that gives privileges up with the C library's help does so for the threads it knows: this one must have none
   to begin with, nor get some by executing a program. */
static void drop_privileges(void) {
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };
	raw6(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0);
	if (os_facts.privileged) /* else a sandbox may mind */
		raw3(SYS_capset, (long)&header, (long)none, 0);
}

static int run_thread(void *arg) {
	struct os_thread *thread = arg;
	__atomic_store_n(&thread->id, os_thread_id(), __ATOMIC_RELAXED);
	raw3(SYS_prctl, PR_SET_NAME, (long)thread->name, 0);
	drop_privileges();
	thread->run();
	return 0;
}

HAK_COLD uint64_t os_block_signals(void) {
	const uint64_t all = ~(uint64_t)0;
	uint64_t before = 0;
	raw4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof all);
	return before;
}

HAK_COLD void os_restore_signals(uint64_t before) {
	raw4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before);
}

HAK_COLD bool os_thread_start(struct os_thread *thread) {
	size_t guard = os_facts.page_size, size = guard + max_size(STACK_BYTES, guard);
	if (thread->stack == NULL)
		thread->stack = os_map(NULL, size);
	if (thread->stack == NULL)
		return false;
	os_protect(thread->stack, guard, false);
	os_expect_thread();
	int saved = errno;
	int id = clone(run_thread, thread->stack + size, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
	               CLONE_SYSVSEM, thread);
	errno = saved;
	return id > 0;
}

HAK_NOINLINE HAK_EVERYDAY int os_thread_id(void) {
	return (int)raw3(SYS_gettid, 0, 0, 0);
}

int os_process_id(void) {
	return (int)raw3(SYS_getpid, 0, 0, 0);
}

HAK_NOINLINE void os_raise(int signal) {
	raw3(SYS_tgkill, os_process_id(), os_thread_id(), signal);
}

void os_abort_process(void) {
	static const uint32_t nobody_changes;
	raw3(SYS_kill, os_process_id(), SIGABRT, 0);
	os_wait_ms(&nobody_changes, 0, 1000);
}

void os_handle_signal(int number, void (*handle)(int number)) {
	enum { SETXID = 33 }; /* of libc's own: who changes the ids of all threads must not wait for this one */
	const uint64_t all = ~((uint64_t)1 << (SETXID - 1));
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART | SA_ONSTACK };
	__builtin_memcpy(&action.sa_mask, &all, sizeof all); /* as much of it as the system looks at */
	sigaction(number, &action, NULL);
}

HAK_COLD unsigned os_thread_count(void) {
	enum { LINKS = 2 }; /* of the folder itself; each thread adds one */
	struct stat st;
	bool known = stat_of(AT_FDCWD, "/proc/self/task", &st) && st.st_nlink > LINKS;
	return known ? (unsigned)st.st_nlink - LINKS : 0;
}

/* By a call that sandboxes allow: the futex's word is compared, and then nobody is woken and nobody moved to
   the other one. (mincore takes inaccessible pages for mapped; process_vm_readv is what sandboxes kill for.)
   Not inlined: valgrind is told of it by its name (tests/valgrind.supp). */
HAK_NOINLINE bool os_is_readable(const void *addr) {
	uint32_t other;
	uintptr_t word = align_down((uintptr_t)addr, sizeof other);
	/* Only EFAULT says that it cannot; a sandbox may say anything else. */
	return raw6(SYS_futex, (long)word, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, (long)&other, 0) != -EFAULT;
}
