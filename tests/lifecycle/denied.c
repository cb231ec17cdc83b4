/* SPDX-License-Identifier: MIT */
/*
 * A sandbox that from some point on refuses the allocator's system calls, one kind or all of them,
 * for good. What is served is up to the library; a crash, a hang or a damaged block is not.
 */
#include "work.h"
#include "../death/cases.h"
#include "../random.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 512, ROUNDS = 15000 };

static struct slot {
	void *ptr;
	size_t size;
} slots[SLOTS];

static uint64_t seed = 88172645463325252;

/* Every order of magnitude up to 8 MiB. */
static size_t next_size(void)
{
	uint64_t r = next_random(&seed);

	return 1 + r / 32 % ((size_t)16 << r % 20);
}

static void fill(struct slot *slot, void *ptr, size_t size)
{
	CHECK(ptr || errno == ENOMEM);
	*slot = (struct slot){ptr, size};
	if (ptr)
		work_mark(ptr, size);
}

static void resize(struct slot *slot, size_t size)
{
	void *ptr = realloc(slot->ptr, size);

	CHECK(ptr || errno == ENOMEM);
	if (ptr)
		fill(slot, ptr, size);
}

static void step(void)
{
	struct slot *slot = &slots[next_random(&seed) % SLOTS];
	size_t size = next_size();

	errno = 0;
	if (!slot->ptr) {
		fill(slot, next_random(&seed) % 2 ? malloc(size) : calloc(1, size), size);
		return;
	}
	CHECK(work_is_marked(slot->ptr, slot->size));
	if (next_random(&seed) % 4 == 0) {
		resize(slot, size);
		return;
	}
	free(slot->ptr);
	CHECK(errno == 0);
	slot->ptr = NULL;
}

static void *churn(void *unused)
{
	for (int i = 0; i < ROUNDS; i++)
		step();
	return NULL;
}

static void finish(void)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (slots[i].ptr) {
			work_give(slots[i].ptr, slots[i].size);
			slots[i].ptr = NULL;
		}
}

/* From here on the system calls numbered `first` and up to three more fail with `error`. */
static void deny(int error, const long numbers[4])
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)numbers[0], 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)numbers[1], 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)numbers[2], 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)numbers[3], 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
	};
	struct sock_fprog filter = {sizeof program / sizeof *program, program};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		case_skip();
}

/* Denied at first use, or amid the work. */
static void churn_denied(int error, const long numbers[4], bool amid)
{
	pthread_t thread;

	if (amid)
		churn(NULL);
	deny(error, numbers);
	churn(NULL);
	if (pthread_create(&thread, NULL, churn, NULL) == 0)
		CHECK(pthread_join(thread, NULL) == 0);
	finish();
	churn(NULL);
	finish();
}

/* Of a program of one thread, amid a call of its own. */
static volatile sig_atomic_t forked;

static void set_next_interrupt(void)
{
	CHECK(setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 100 + forked * 37 % 800}}, NULL) == 0);
}

/* So many that locks are taken, and no large ones, for which more would be found out than for these. */
static void allocate_small(void)
{
	enum { BLOCKS = 512, LARGEST = 30000, STEP = 3000 };
	static void *blocks[BLOCKS];

	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i] = malloc(LARGEST - i % 8 * STEP);
	for (size_t i = 0; i < BLOCKS; i++)
		free(blocks[i]);
}

static void fork_in_handler(int signal)
{
	int saved = errno, status;
	sigset_t nothing;

	sigemptyset(&nothing);
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		CHECK(sigaction(SIGALRM, &(struct sigaction){.sa_handler = SIG_DFL}, NULL) == 0);
		sigprocmask(SIG_SETMASK, &nothing, NULL); /* that of the handler holds it off */
		alarm(20);
		for (size_t i = 0; i < 100; i++)
			CHECK(malloc(i < 50 ? 16 + i * 400 : 30000) != NULL);
		_exit(0);
	}
	while (waitpid(child, &status, 0) < 0)
		CHECK(errno == EINTR);
	CHECK(status == 0);
	forked++;
	set_next_interrupt();
	errno = saved;
}

/* As where /proc is missing. */
static void fork_in_handler_without_stat(void)
{
	static const long stats[] = {SYS_newfstatat, SYS_statx, SYS_statx, SYS_statx};
	struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
	enum { FORKS = 300 };

	deny(ENOENT, stats);
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	set_next_interrupt();
	while (forked < FORKS)
		allocate_small();
	_exit(0); /* interrupts go on */
}

static const long only_mmap[] = {SYS_mmap, SYS_mmap, SYS_mmap, SYS_mmap};
static const long only_munmap[] = {SYS_munmap, SYS_munmap, SYS_munmap, SYS_munmap};
static const long only_mremap[] = {SYS_mremap, SYS_mremap, SYS_mremap, SYS_mremap};
static const long only_madvise[] = {SYS_madvise, SYS_madvise, SYS_madvise, SYS_madvise};
static const long only_mprotect[] = {SYS_mprotect, SYS_mprotect, SYS_mprotect, SYS_mprotect};
static const long releasing[] = {SYS_munmap, SYS_madvise, SYS_mremap, SYS_mprotect};
static const long acquiring[] = {SYS_mmap, SYS_mremap, SYS_mprotect, SYS_mprotect};

static void without_mmap(void)
{
	churn_denied(ENOMEM, only_mmap, true);
}

static void without_munmap(void)
{
	churn_denied(ENOMEM, only_munmap, true);
}

static void without_mremap(void)
{
	churn_denied(ENOMEM, only_mremap, true);
}

static void without_madvise(void)
{
	churn_denied(ENOMEM, only_madvise, true);
}

static void without_mprotect(void)
{
	churn_denied(ENOMEM, only_mprotect, true);
}

static void madvise_forbidden(void)
{
	churn_denied(EPERM, only_madvise, false);
}

static void madvise_unknown(void)
{
	churn_denied(ENOSYS, only_madvise, true);
}

static void madvise_busy(void)
{
	churn_denied(EAGAIN, only_madvise, true);
}

static void mremap_forbidden(void)
{
	churn_denied(EPERM, only_mremap, false);
}

static void without_release(void)
{
	churn_denied(ENOMEM, releasing, true);
}

static void without_supply(void)
{
	churn_denied(ENOMEM, acquiring, true);
}

static void without_supply_from_first(void)
{
	churn_denied(ENOMEM, acquiring, false);
}

/* Whoever tries again and again when told so would never come back. */
static void supply_busy(void)
{
	churn_denied(EAGAIN, acquiring, true);
}

/* In a sandbox that knows no such call; where freed blocks would be inaccessible for a while, too. */
static void mprotect_forbidden(void)
{
	enum { BLOCK = 200000, BLOCKS = 20000, MOST = 1 << 30 };
	struct rlimit most;

	CHECK(getrlimit(RLIMIT_AS, &most) == 0);
	if (most.rlim_max < MOST)
		case_skip();
	most.rlim_cur = MOST;
	churn(NULL);
	deny(EPERM, only_mprotect);
	churn(NULL);
	finish();
	CHECK(setrlimit(RLIMIT_AS, &most) == 0);
	for (int i = 0; i < BLOCKS; i++) {
		void *ptr = malloc(BLOCK);
		CHECK(ptr);
		work_mark(ptr, BLOCK);
		work_give(ptr, BLOCK);
	}
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"stat_denied_fork_in_handler_gives_whole_child", fork_in_handler_without_stat},
		{"mmap_denied_degrades", without_mmap},
		{"munmap_denied_degrades", without_munmap},
		{"mremap_denied_degrades", without_mremap},
		{"madvise_denied_degrades", without_madvise},
		{"mprotect_denied_degrades", without_mprotect},
		{"mprotect_forbidden_degrades", mprotect_forbidden},
		{"madvise_forbidden_degrades", madvise_forbidden},
		{"madvise_unknown_degrades", madvise_unknown},
		{"madvise_busy_degrades", madvise_busy},
		{"mremap_forbidden_degrades", mremap_forbidden},
		{"releasing_calls_denied_degrade", without_release},
		{"acquiring_calls_denied_degrade", without_supply},
		{"acquiring_calls_denied_from_first_degrade", without_supply_from_first},
		{"acquiring_calls_busy_degrade", supply_busy},
		{NULL, NULL},
	};

	return cases_main(argc, argv, cases);
}
