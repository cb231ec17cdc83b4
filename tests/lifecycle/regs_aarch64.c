/* SPDX-License-Identifier: MIT */
#include "regs.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

/* The kernel keeps the number of the call apart from x8. */
static long access_call(int request, pid_t thread, int number)
{
	struct iovec part = {&number, sizeof number};

	ptrace(request, thread, NT_ARM_SYSTEM_CALL, &part);
	return number;
}

long regs_get_call(pid_t thread)
{
	return access_call(PTRACE_GETREGSET, thread, -1);
}

void regs_skip_call(pid_t thread)
{
	access_call(PTRACE_SETREGSET, thread, -1);
}

void regs_set_result(pid_t thread, long result)
{
	struct user_regs_struct regs;
	struct iovec part = {&regs, sizeof regs};

	ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &part);
	regs.regs[0] = (unsigned long)result;
	ptrace(PTRACE_SETREGSET, thread, NT_PRSTATUS, &part);
}
