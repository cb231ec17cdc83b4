/* SPDX-License-Identifier: MIT */
/* Settings: from /etc/hakmem.conf, profiles and the environment into hak_settings. */
#ifndef HAK_ABI_CONF_H
#define HAK_ABI_CONF_H

#include "abi/conf_table.h"

/*
 * Reads the file, then the environment `env` (not in secure execution), each winning over the one before.
 * A profile wins over an earlier source, and the settings given beside it in its own source win over it;
 * only the last one named counts. What is not understood is ignored, and said if the setting `verbose` is
 * on. Once, before threads. Allocates nothing; opens this file, and for `limit = cgroup`
 * those of the process's groups.
 */
void conf_load(char *const *env);

/* The same with another file. */
void conf_load_from(const char *path, char *const *env);

/* Takes our variables out of the environment, as the loader does with its own in secure execution: what such a program
   starts may have its rights, and not know where the variables come from. */
void conf_hide(char **env);

/* What is wrong with a line, to be said behind it. */
const char *conf_reason(enum conf_verdict verdict);

#endif
