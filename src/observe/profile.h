/* SPDX-License-Identifier: MIT */
/*
 * When the heap profiler runs and what becomes of its sample: from the start of the process, or from and to
 * signals that the user chose; the report at exit; the file.
 *
 * The file is what pprof calls the legacy heap format: counts that pprof scales by the mean in the heading and the
 * mean size of a line, and comes close to our estimates; and what is mapped, for the names.
 */
#ifndef HAK_OBSERVE_PROFILE_H
#define HAK_OBSERVE_PROFILE_H

#include "base/compiler.h"

/* Does as the settings say, as soon as it can: the constructor that calls this runs before libc's own, and
   loading the unwinder needs that. */
void profile_init(void);

/* Whether that is still to be done; and does it, if a library may be loaded, amid an allocation that returns to
   `caller`, or NULL: where it surely may, before a thread begins or a library is loaded. */
extern HAK_HIDDEN bool hak_profile_due;
HAK_INLINE bool profile_is_due(void) {
	return HAK_UNLIKELY(__atomic_load_n(&hak_profile_due, __ATOMIC_RELAXED));
}
void profile_begin(const void *caller);

/* Writes the file and the report that are due when the process ends. */
void profile_end(void);

/* Writes the profile there is. 0, ENODATA if there is none, or why the file could not be written.
   Async-signal-safe. */
int profile_write(const char *path);

/* Says on standard error how much is not freed, where most of that came from and, if it is written, where the
   profile is. */
void profile_report(bool is_written);

#endif
