/* SPDX-License-Identifier: MIT */
/*
 * Faults: an access to memory that hardening made inaccessible ends in a report instead of a bare SIGSEGV.
 * Other faults go to whom they went before: the handler that was there, or the default. A handler that the
 * program installs later replaces ours, and then sees the fault alone.
 */
#ifndef HAK_FRONT_FAULT_H
#define HAK_FRONT_FAULT_H

#include "base/compiler.h"

/* The code of a SIGSEGV that comes when the access has been done, which does not fault again (SEGV_MTEAERR, which not
   every libc has). */
enum { FAULT_LATE = 8 };

/* Installs the handler. Once, in the constructor. */
void fault_watch(void);

#endif
