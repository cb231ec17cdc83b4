/* SPDX-License-Identifier: MIT */
/* Settings: from /etc/hakmem.conf and the environment into hak_settings. */
#ifndef HAK_ABI_CONF_H
#define HAK_ABI_CONF_H

/* Reads the file, then the environment `env` (not in secure execution). Once, before threads. What
   is not understood is ignored. Allocates nothing, opens one file at most. */
void conf_load(char *const *env);

#endif
