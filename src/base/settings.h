/* SPDX-License-Identifier: MIT */
/*
 * The settings that hold in this process. Written once, by abi/conf.c before the first block is
 * handed out; read-only afterwards, so readers need no lock.
 */
#ifndef HAK_BASE_SETTINGS_H
#define HAK_BASE_SETTINGS_H

#include "base/compiler.h"

enum thp_mode { THP_AUTO, THP_ALWAYS, THP_NEVER };
enum stats_mode { STATS_OFF, STATS_TEXT, STATS_JSON, STATS_OPS };

/* Bytes of a setting that is text, with the NUL. */
#define SETTING_TEXT 200

struct settings {
	bool disable;           /* every request goes to libc */
	bool wrap_tiny;         /* requests up to 1 KiB are ours; false: libc's */
	bool use_superslab;     /* false: each slab is mapped alone */
	bool adopt;             /* slabs of dead threads are published and adopted */
	bool bigcache_l25;      /* keep freed 512 KiB..2 MiB spans */
	uint32_t profile;       /* its place in abi/conf_table.def */
	enum thp_mode thp;
	uint32_t cache_blocks;  /* fixed bin capacity; 0: adapts per class */
	size_t bigcache_max;    /* bytes BigCache may keep */
	size_t limit;           /* bytes that may be mapped; 0: as many as the system gives */
	int64_t purge_delay_ms; /* 0: at once; -1: never */
	enum stats_mode stats;  /* a report at exit, and what else */
	bool warm_pool_stats;   /* the report tells of the warm pool, too */
	uint32_t stats_signal;  /* writes a report; 0: none */
	bool verbose;
	char stats_file[SETTING_TEXT]; /* pattern of the path, or "stderr" */
};

extern struct settings hak_settings;

#endif
