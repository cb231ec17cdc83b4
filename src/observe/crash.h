/* SPDX-License-Identifier: MIT */
/*
 * The crash report: on SIGSEGV, SIGBUS and SIGABRT a paragraph on standard error that says what the faulting
 * address is to the allocator, and what the thread last had it do; then the signal takes its course: the
 * program's own handler, if it had one before ours was installed, else the default action.
 *
 * Runs in a signal handler, maybe amid any function of ours: it takes no lock, changes nothing, waits a second
 * at most for another report, and guesses where others are at work. On the alternate stack of the thread if it has one.
 */
#ifndef HAK_OBSERVE_CRASH_H
#define HAK_OBSERVE_CRASH_H

#include "base/compiler.h"

/* Installs the handler if the settings say so. */
void crash_init(void);

#endif
