/* SPDX-License-Identifier: MIT */
/*
 * The platform contract on Linux: raw system calls, so that neither errno nor a library that
 * interposes libc's wrappers (a fake clock, an mmap tracer) is involved.
 *
 * After the constructor only mmap, munmap, mremap, madvise, futex and clock_gettime are used, and mincore on the
 * way to a report:
 * sandboxes that permit what libc's malloc needs permit us.
 */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/settings.h"
#include "build_options.h"

struct os_facts os_facts;
struct os_counters os_counters;

/* Relaxed: a counter. */
#define COUNT_CALL(name) \
	((void)(HAK_STATS && __atomic_fetch_add(&os_counters.name, 1, __ATOMIC_RELAXED)))

/* Result as the kernel gives it: -4095..-1 is an error number. */
#if defined(__x86_64__)
static long raw6(long nr, long a, long b, long c, long d, long e, long f) {
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
	                 : "=a"(ret)
	                 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
	                 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static long raw6(long nr, long a, long b, long c, long d, long e, long f) {
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0"
	                 : "+r"(x0)
	                 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
	                 : "memory");
	return x0;
}
#else
static long raw6(long nr, long a, long b, long c, long d, long e, long f) {
	int saved = errno;
	long ret = syscall(nr, a, b, c, d, e, f);
	if (ret == -1)
		ret = -errno;
	errno = saved;
	return ret;
}
#endif

static bool failed(long ret) {
	return ret < 0 && ret >= -4095;
}

void os_init(void) {
	os_facts.page_size = getauxval(AT_PAGESZ);
	os_facts.secure = getauxval(AT_SECURE) != 0;
	os_facts.privileged = os_facts.secure || getauxval(AT_EUID) == 0;
	os_facts.started_as = (const char *)getauxval(AT_EXECFN);
	const unsigned char *r = (const unsigned char *)getauxval(AT_RANDOM);
	if (r != NULL)
		__builtin_memcpy(os_facts.random, r, sizeof os_facts.random);
}

/* ---- address space, and the limit on it ---- */

static _Atomic size_t mapped; /* bytes that os_map and os_map_aligned gave and os_unmap did not take */

/* Relaxed throughout: a sum that guards no other data. */
static void uncharge(size_t size) {
	atomic_fetch_sub_explicit(&mapped, size, memory_order_relaxed);
}

/* Counts `size` bytes more, unless that makes too many even when `soon_gone` of them are not looked at. */
static bool charge(size_t size, size_t soon_gone) {
	size_t now = atomic_fetch_add_explicit(&mapped, size, memory_order_relaxed) + size;
	if (hak_settings.limit == 0 || now <= hak_settings.limit || now - hak_settings.limit <= soon_gone) {
		/* Racing threads may miss a peak by what they map at once. */
		if (now > __atomic_load_n(&os_counters.mapped_most, __ATOMIC_RELAXED))
			__atomic_store_n(&os_counters.mapped_most, now, __ATOMIC_RELAXED);
		return true;
	}
	uncharge(size);
	return false;
}

size_t os_mapped(void) {
	return atomic_load_explicit(&mapped, memory_order_relaxed);
}

const void *os_mapped_at(void) {
	return &mapped;
}

static void *map(void *hint, size_t size) {
	COUNT_CALL(mmap);
	long ret = raw6(SYS_mmap, (long)hint, (long)size, PROT_READ | PROT_WRITE,
	                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return failed(ret) ? NULL : (void *)ret;
}

static bool unmap(void *addr, size_t size) {
	COUNT_CALL(munmap);
	return !failed(raw6(SYS_munmap, (long)addr, (long)size, 0, 0, 0, 0));
}

/* Maps more than asked and trims both ends. */
static void *map_and_trim(size_t size, size_t align) {
	size_t extra = align - os_facts.page_size;
	if (size + extra < size)
		return NULL;
	char *raw = map(NULL, size + extra);
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

static void *map_aligned(size_t size, size_t align) {
	/* The kernel places mappings downwards, so just below the last one is mostly free and one call
	   does. Relaxed: a stale hint costs a retry, nothing else. */
	static _Atomic uintptr_t last;
	uintptr_t hint = atomic_load_explicit(&last, memory_order_relaxed);
	hint = hint > size ? align_down(hint - size, align) : 0;
	char *p = map((void *)hint, size);
	if (p == NULL)
		return NULL;
	if (((uintptr_t)p & (align - 1)) != 0) {
		unmap(p, size);
		p = map_and_trim(size, align);
	}
	atomic_store_explicit(&last, (uintptr_t)p, memory_order_relaxed);
	return p;
}

void *os_map(void *hint, size_t size) {
	if (!charge(size, 0))
		return NULL;
	void *p = map(hint, size);
	if (p == NULL)
		uncharge(size);
	return p;
}

void *os_map_target(size_t size, size_t align, size_t old_size) {
	if (!charge(size, old_size))
		return NULL;
	void *p = map_aligned(size, align);
	if (p == NULL)
		uncharge(size);
	return p;
}

void *os_map_aligned(size_t size, size_t align) {
	return os_map_target(size, align, 0);
}

bool os_unmap(void *addr, size_t size) {
	if (!unmap(addr, size))
		return false;
	uncharge(size);
	return true;
}

bool os_purge(void *addr, size_t size) {
	COUNT_CALL(madvise);
	return !failed(raw6(SYS_madvise, (long)addr, (long)size, MADV_DONTNEED, 0, 0, 0));
}

void os_advise_huge(void *addr, size_t size) {
	COUNT_CALL(madvise);
	raw6(SYS_madvise, (long)addr, (long)size, MADV_HUGEPAGE, 0, 0, 0);
}

bool os_resize(void *addr, size_t old_size, size_t new_size) {
	size_t more = new_size > old_size ? new_size - old_size : 0;
	if (!charge(more, 0))
		return false;
	COUNT_CALL(mremap);
	bool done = !failed(raw6(SYS_mremap, (long)addr, (long)old_size, (long)new_size, 0, 0, 0));
	uncharge(!done ? more : new_size < old_size ? old_size - new_size : 0);
	return done;
}

enum os_move_result os_move(void *addr, size_t old_size, size_t new_size, void *target) {
	COUNT_CALL(mremap);
	long ret = raw6(SYS_mremap, (long)addr, (long)old_size, (long)new_size,
	                MREMAP_MAYMOVE | MREMAP_FIXED, (long)target, 0);
	if (!failed(ret)) {
		uncharge(old_size);
		return MOVE_DONE;
	}
	/* These are found out before the kernel makes room at the target. */
	if (ret == -EPERM || ret == -ENOSYS || ret == -EINVAL)
		return MOVE_REFUSED;
	uncharge(new_size);
	return MOVE_TARGET_LOST;
}

uint64_t os_now_ms(void) {
	struct timespec ts = { 0, 0 };
	raw6(SYS_clock_gettime, CLOCK_MONOTONIC_COARSE, (long)&ts, 0, 0, 0, 0);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void os_wait(const void *word, uint32_t value) {
	raw6(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, (long)value, 0, 0, 0);
}

void os_wake(const void *word) {
	raw6(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

void os_pause(void) {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

struct os_file os_file_open(const char *path) {
	/* O_NONBLOCK: a FIFO must not hold up every program on the machine. */
	long fd = raw6(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
	               0, 0, 0);
	if (failed(fd))
		return (struct os_file){ .fd = -1, .absent = fd == -ENOENT };
	struct stat st;
	int saved = errno;
	bool known = fstat((int)fd, &st) == 0;
	errno = saved;
	return (struct os_file){
		.fd = (int)fd,
		.regular = known && S_ISREG(st.st_mode),
		.trusted = known && (st.st_mode & S_IWOTH) == 0 && (st.st_uid == 0 || !os_facts.privileged),
	};
}

void os_file_close(int fd) {
	raw6(SYS_close, fd, 0, 0, 0, 0, 0);
}

size_t os_file_read(int fd, char *buf, size_t size, size_t offset) {
	long n = raw6(SYS_pread64, fd, (long)buf, (long)size, (long)offset, 0, 0);
	return failed(n) ? 0 : (size_t)n;
}

int os_file_append(const char *path) {
	return (int)raw6(SYS_openat, AT_FDCWD, (long)path,
	                 O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0644, 0, 0);
}

int os_file_keep(int fd) {
	enum { FROM = 200 };
	return (int)raw6(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FROM, 0, 0, 0);
}

uint64_t os_file_identity(int fd) {
	struct stat st;
	int saved = errno;
	bool known = fstat(fd, &st) == 0;
	errno = saved;
	return known ? ((uint64_t)st.st_dev << 40 ^ (uint64_t)st.st_ino) | 1 : 0;
}

void os_file_write(int fd, const char *text, size_t size) {
	while (size > 0) {
		long n = raw6(SYS_write, fd, (long)text, (long)size, 0, 0, 0);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return; /* nobody is listening; nothing better can be done */
		text += n;
		size -= (size_t)n;
	}
}

size_t os_executable(char *buf, size_t size) {
	long n = raw6(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)buf, (long)size, 0, 0);
	return failed(n) || (size_t)n >= size ? 0 : (size_t)n;
}

int os_thread_id(void) {
	return (int)raw6(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

bool os_is_mapped(const void *addr) {
	uintptr_t page = align_down((uintptr_t)addr, os_facts.page_size);
	unsigned char resident;
	/* Only ENOMEM says that there is nothing; a sandbox may say anything else. */
	return raw6(SYS_mincore, (long)page, (long)os_facts.page_size, (long)&resident, 0, 0, 0) != -ENOMEM;
}
