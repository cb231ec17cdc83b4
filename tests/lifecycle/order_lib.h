/* SPDX-License-Identifier: MIT */
/* A library whose constructor and destructor stand outside those of the program order.c. */
#ifndef TESTS_ORDER_LIB_H
#define TESTS_ORDER_LIB_H

/* Frees what the library's constructor took. */
void order_lib_release(void);

/* Has the library's destructor work too, once more after the program's last. */
void order_lib_expect_end(void);

#endif
