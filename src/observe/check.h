/* SPDX-License-Identifier: MIT */
/* The checker: does all that is written down about memory agree? */
#ifndef HAK_OBSERVE_CHECK_H
#define HAK_OBSERVE_CHECK_H

/* As hak_check in hakmem.h. */
int check_heap(void);

#endif
