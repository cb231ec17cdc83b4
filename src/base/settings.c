/* SPDX-License-Identifier: MIT */
#include "base/settings.h"

#include "build_options.h"

struct settings hak_settings = {
	.wrap_tiny = HAK_TINY_WRAP,
	.use_superslab = HAK_SUPERSLAB,
	.adopt = true,
	.bigcache_l25 = HAK_BIGCACHE_L25,
	.bigcache_max = 512 * HAK_MIB,
	.purge_delay_ms = 1000,
	.stats_file = "stderr",
};
