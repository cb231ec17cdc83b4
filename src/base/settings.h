/* SPDX-License-Identifier: MIT */
/*
 * The settings that hold in this process. Written once, by abi/conf.c before the first block is
 * handed out; read-only afterwards, so readers need no lock.
 */
#ifndef HAK_BASE_SETTINGS_H
#define HAK_BASE_SETTINGS_H

#include "base/compiler.h"

enum thp_mode { THP_AUTO, THP_ALWAYS, THP_NEVER };
enum on_error { ERROR_ABORT, ERROR_REPORT, ERROR_IGNORE };
enum stats_mode { STATS_OFF, STATS_TEXT, STATS_JSON, STATS_OPS };

/* Bytes of a setting that is text, with the NUL. */
#define SETTING_TEXT 200
enum tiny_profile { TINY_FULL, TINY_LARSON_GUARD };
enum policy_profile { POLICY_AUTO, POLICY_LEGACY, POLICY_C5_7_ONLY, POLICY_TINYPLUS_ALL };

#define LIMIT_CGROUP ((size_t)1)    /* `limit`, until abi/conf.c has asked what it is */
#define BIGCACHE_AUTO ((size_t)-1)  /* `bigcache_max`: by the memory there is */

struct settings {
	bool disable;           /* every request goes to libc */
	bool wrap_tiny;         /* requests up to 1 KiB are ours; false: libc's */
	bool use_superslab;     /* false: each slab is mapped alone */
	bool adopt;             /* slabs of dead threads are published and adopted */
	bool empty_reuse;       /* an emptied slab may serve any class; false: its own until purged */
	bool ready;             /* slabs with free blocks are found in a list of their own */
	bool bigcache_l25;      /* keep freed 512 KiB..2 MiB spans */
	enum tiny_profile tiny_profile; /* TINY_LARSON_GUARD: threads keep within a budget */
	enum policy_profile policy;
	uint32_t bind_c7;       /* 0: shared pool first; 1: blocks are carved one by one; 2: by the bin */
	uint32_t prefault;      /* percent of a new SuperSlab that are faulted in at once */
	uint32_t profile;       /* its place in abi/conf_table.def */
	enum thp_mode thp;
	uint32_t cache_blocks;  /* fixed bin capacity; 0: adapts per class */
	size_t bigcache_max;    /* bytes BigCache may keep, or BIGCACHE_AUTO */
	size_t limit;           /* bytes that may be mapped; 0: as many as the system gives */
	int64_t purge_delay_ms; /* 0: at once; -1: never */
	uint32_t secure;        /* level 0..3; front/secure.h */
	enum on_error on_error; /* what follows a misuse */
	uint32_t guard_rate;    /* one allocation in so many gets guarded pages; 0: none */
	bool background;        /* a thread of ours gives back on time */
	bool policy_log, warm_log, pagebox_log;
	enum stats_mode stats;  /* a report at exit, and what else */
	bool warm_pool_stats;   /* the report tells of the warm pool, too */
	uint32_t stats_signal;  /* writes a report; 0: none */
	bool verbose;
	bool crash_report;
	bool name_maps;         /* our mappings bear names in /proc/PID/maps */
	bool sample_totals;     /* of what was allocated in all the profiler takes a better sample */
	uint32_t sample_signal; /* switches the heap profiler; 0: none */
	size_t sample;          /* mean bytes between the profiler's samples; 0: off */
	char sample_file[SETTING_TEXT]; /* pattern of the path */
	char stats_file[SETTING_TEXT]; /* pattern of the path, or "stderr" */
};

extern HAK_HIDDEN struct settings hak_settings;

/* The defaults, before anything else. They are not the variable's initial value: no data has one, so that a process
   has no page of its own copied from the file, nor a mapping split between what is read-only and what is not. */
void settings_init(void);

#endif
