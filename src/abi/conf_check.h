/* SPDX-License-Identifier: MIT */
/* Looking a file of settings over, without effect. */
#ifndef HAK_ABI_CONF_CHECK_H
#define HAK_ABI_CONF_CHECK_H

/* As hak_conf_check in hakmem.h. */
int conf_check(const char *path, void (*say)(void *arg, unsigned line, const char *text, const char *why),
               void *arg);

#endif
