/* SPDX-License-Identifier: MIT */
#include "filter.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef SECCOMP_RET_KILL_PROCESS
#define SECCOMP_RET_KILL_PROCESS 0x80000000u
#endif

void filter_add(struct filter_calls *calls, long number)
{
	for (size_t i = 0; i < calls->count; i++)
		if (calls->numbers[i] == number)
			return;
	if (calls->count < sizeof calls->numbers / sizeof *calls->numbers)
		calls->numbers[calls->count++] = number;
}

static void add_all(struct filter_calls *calls, const long *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		filter_add(calls, numbers[i]);
}

void filter_add_malloc(struct filter_calls *calls)
{
	static const long numbers[] = {SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect,
		SYS_futex, SYS_getrandom};

	add_all(calls, numbers, sizeof numbers / sizeof *numbers);
}

void filter_add_basic(struct filter_calls *calls)
{
	static const long numbers[] = {SYS_write, SYS_exit, SYS_exit_group, SYS_rt_sigreturn,
		SYS_restart_syscall};

	add_all(calls, numbers, sizeof numbers / sizeof *numbers);
}

static struct sock_filter load(size_t offset)
{
	return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset);
}

static struct sock_filter give(unsigned verdict)
{
	return (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict);
}

/* mmap and mprotect: the third argument's low word, which lies first on all machines we know. */
static size_t deny_executable(struct sock_filter *at, long number)
{
	at[0] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 4);
	at[1] = load(offsetof(struct seccomp_data, args[2]));
	at[2] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1);
	at[3] = give(SECCOMP_RET_KILL_PROCESS);
	at[4] = load(offsetof(struct seccomp_data, nr));
	return 5;
}

bool filter_install(const struct filter_calls *calls, bool strict)
{
	static struct sock_filter code[2 * 256 + 16];
	struct sock_fprog program = {.filter = code};
	size_t n = 0;

	code[n++] = load(offsetof(struct seccomp_data, nr));
	if (strict) {
		n += deny_executable(code + n, SYS_mmap);
		n += deny_executable(code + n, SYS_mprotect);
	}
	for (size_t i = 0; i < calls->count; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			(unsigned)calls->numbers[i], 0, 1);
		code[n++] = give(SECCOMP_RET_ALLOW);
	}
	code[n++] = give(SECCOMP_RET_KILL_PROCESS);
	program.len = (unsigned short)n;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
