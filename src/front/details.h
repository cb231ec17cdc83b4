/* SPDX-License-Identifier: MIT */
/* The second paragraph of a report: what is known of the memory at an address. For a process that is in
   trouble: takes no lock once trace_prepare was called, allocates nothing, and takes nothing it reads for granted. */
#ifndef HAK_FRONT_DETAILS_H
#define HAK_FRONT_DETAILS_H

#include "base/settings.h"

HAK_INLINE bool details_are_told(void) {
	return hak_settings.verbose || hak_settings.secure >= 2;
}

HAK_COLD void details_write(uintptr_t addr);

#endif
