/* SPDX-License-Identifier: MIT */
/* The walk over slabs and live blocks. */
#ifndef HAK_OBSERVE_VISIT_H
#define HAK_OBSERVE_VISIT_H

#include "hakmem.h"

/* As hak_heap_visit in hakmem.h. */
int visit_heap(int (*visit)(const struct hak_area *area, void *arg), void *arg);

#endif
