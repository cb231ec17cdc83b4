/* SPDX-License-Identifier: MIT */
#include "base/settings.h"

#include "build_options.h"

struct settings hak_settings = {
	.wrap_tiny = HAK_TINY_WRAP,
	.use_superslab = HAK_SUPERSLAB,
	.adopt = true,
	.empty_reuse = true,
	.ready = true,
	.bind_c7 = 2,
	.bigcache_l25 = HAK_BIGCACHE_L25,
	.bigcache_max = BIGCACHE_AUTO,
	.purge_delay_ms = 1000,
	.sample_file = "hakmem.%p.heap",
	.stats_file = "stderr",
};
