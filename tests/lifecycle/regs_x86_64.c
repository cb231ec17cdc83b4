/* SPDX-License-Identifier: MIT */
#include "regs.h"

#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>

static const size_t call = offsetof(struct user, regs.orig_rax);
static const size_t result_at = offsetof(struct user, regs.rax);

long regs_get_call(pid_t thread)
{
	return ptrace(PTRACE_PEEKUSER, thread, call, NULL);
}

void regs_skip_call(pid_t thread)
{
	ptrace(PTRACE_POKEUSER, thread, call, -1L);
}

void regs_set_result(pid_t thread, long result)
{
	ptrace(PTRACE_POKEUSER, thread, result_at, result);
}
