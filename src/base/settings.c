/* SPDX-License-Identifier: MIT */
#include "base/settings.h"

#include "build_options.h"

struct settings hak_settings;

HAK_EVERYDAY_SMALL void settings_init(void) {
	hak_settings.wrap_tiny = HAK_TINY_WRAP;
	hak_settings.use_superslab = HAK_SUPERSLAB;
	hak_settings.adopt = true;
	hak_settings.empty_reuse = true;
	hak_settings.ready = true;
	hak_settings.bigcache_l25 = HAK_BIGCACHE_L25;
	hak_settings.bind_c7 = 2;
	hak_settings.bigcache_max = BIGCACHE_AUTO;
	hak_settings.purge_delay_ms = 1000;
	__builtin_memcpy(hak_settings.sample_file, "hakmem.%p.heap", sizeof "hakmem.%p.heap");
	__builtin_memcpy(hak_settings.stats_file, "stderr", sizeof "stderr");
}
