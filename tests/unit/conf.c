/* SPDX-License-Identifier: MIT */
/* Expectations are relative to what the file, if this machine has one, and the defaults say. */
#include "abi/conf.h"

#include <string.h>

#include "base/settings.h"
#include "common.h"
#include "os/os.h"

static struct settings base;

static int load_base(void **state)
{
	char *none[] = {NULL};

	unit_setup(state);
	conf_load(none);
	base = hak_settings;
	return 0;
}

/* Settings under an environment with this one variable in it. */
static const struct settings *with(const char *variable)
{
	char text[128], path[] = "PATH=/bin";
	char *env[] = {path, text, NULL};

	strncpy(text, variable, sizeof text - 1);
	text[sizeof text - 1] = '\0';
	hak_settings = base;
	conf_load(env);
	return &hak_settings;
}

static bool is_ignored(const char *variable)
{
	return memcmp(with(variable), &base, sizeof base) == 0;
}

static void bool_any_spelling_understood(void **state)
{
	static const char *const yes[] = {"1", "yes", "on", "true", "TRUE", "Yes", " 1 ", "on\r"};
	static const char *const no[] = {"0", "no", "off", "false", "OFF", "\t0"};
	char variable[64];

	for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
		strcpy(variable, "HAKMEM_DISABLE=");
		base.disable = false;
		assert_true(with(strcat(variable, yes[i]))->disable);
	}
	for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
		strcpy(variable, "HAKMEM_TINY_SS_ADOPT=");
		base.adopt = true;
		assert_false(with(strcat(variable, no[i]))->adopt);
	}
}

static void bool_each_name_sets_its_own(void **state)
{
	base.wrap_tiny = base.use_superslab = base.bigcache_l25 = true;
	assert_false(with("HAKMEM_WRAP_TINY=0")->wrap_tiny);
	assert_true(hak_settings.use_superslab && hak_settings.bigcache_l25);
	assert_false(with("HAKMEM_TINY_USE_SUPERSLAB=0")->use_superslab);
	assert_true(hak_settings.wrap_tiny && hak_settings.bigcache_l25);
	assert_false(with("HAKMEM_BIGCACHE_L25=0")->bigcache_l25);
	assert_true(hak_settings.wrap_tiny && hak_settings.use_superslab);
}

static void size_any_suffix_scaled(void **state)
{
	assert_true(with("HAKMEM_BIGCACHE_MAX=12345")->bigcache_max == 12345);
	assert_true(with("HAKMEM_BIGCACHE_MAX=Auto")->bigcache_max == BIGCACHE_AUTO);
	assert_true(with("HAKMEM_BIGCACHE_MAX=0")->bigcache_max == 0);
	assert_true(with("HAKMEM_BIGCACHE_MAX=3k")->bigcache_max == 3 * HAK_KIB);
	assert_true(with("HAKMEM_BIGCACHE_MAX=5M")->bigcache_max == 5 * HAK_MIB);
	assert_true(with("HAKMEM_BIGCACHE_MAX=7g")->bigcache_max == 7 * HAK_GIB);
	assert_true(with("HAKMEM_BIGCACHE_MAX=9223372036854775807")->bigcache_max == INT64_MAX);
}

static void delay_any_unit_scaled(void **state)
{
	assert_true(with("HAKMEM_PURGE_DELAY=250")->purge_delay_ms == 250);
	assert_true(with("HAKMEM_PURGE_DELAY=3s")->purge_delay_ms == 3000);
	assert_true(with("HAKMEM_PURGE_DELAY=0")->purge_delay_ms == 0);
	assert_true(with("HAKMEM_PURGE_DELAY=-1")->purge_delay_ms == -1);
}

static void cache_in_range_taken(void **state)
{
	assert_int_equal(with("HAKMEM_TINY_CACHE=8")->cache_blocks, 8);
	assert_int_equal(with("HAKMEM_TINY_CACHE=4096")->cache_blocks, 4096);
	base.cache_blocks = 77;
	assert_int_equal(with("HAKMEM_TINY_CACHE=auto")->cache_blocks, 0);
	assert_true(is_ignored("HAKMEM_TINY_CACHE=7"));
	assert_true(is_ignored("HAKMEM_TINY_CACHE=4097"));
	base.cache_blocks = 0;
}

static void thp_any_mode_understood(void **state)
{
	assert_int_equal(with("HAKMEM_THP=always")->thp, THP_ALWAYS);
	assert_int_equal(with("HAKMEM_THP=Never")->thp, THP_NEVER);
	base.thp = THP_NEVER;
	assert_int_equal(with("HAKMEM_THP=auto")->thp, THP_AUTO);
	assert_true(is_ignored("HAKMEM_THP=sometimes"));
}

static void value_not_understood_ignored(void **state)
{
	static const char *const bad[] = {
		"HAKMEM_DISABLE=", "HAKMEM_DISABLE=2", "HAKMEM_DISABLE=yess", "HAKMEM_DISABLE=ye",
		"HAKMEM_BIGCACHE_MAX=", "HAKMEM_BIGCACHE_MAX=k", "HAKMEM_BIGCACHE_MAX=1kk",
		"HAKMEM_BIGCACHE_MAX=1t", "HAKMEM_BIGCACHE_MAX=-1", "HAKMEM_BIGCACHE_MAX=0x10",
		"HAKMEM_BIGCACHE_MAX=1 2", "HAKMEM_BIGCACHE_MAX=9223372036854775808",
		"HAKMEM_BIGCACHE_MAX=18446744073709551616", "HAKMEM_BIGCACHE_MAX=17179869184g",
		"HAKMEM_PURGE_DELAY=-2", "HAKMEM_PURGE_DELAY=1m", "HAKMEM_PURGE_DELAY=9223372036854775807s",
		"HAKMEM_TINY_CACHE=many", "HAKMEM_TINY_CACHE=4294967304",
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_true(is_ignored(bad[i]));
}

static void name_not_understood_ignored(void **state)
{
	assert_true(is_ignored("HAKMEM_"));
	assert_true(is_ignored("HAKMEM_=1"));
	assert_true(is_ignored("HAKMEM_DISABL=1"));
	assert_true(is_ignored("HAKMEM_DISABLED=1"));
	assert_true(is_ignored("DISABLE=1"));
	assert_true(is_ignored("HAKMEM_DISABLE"));
	assert_true(is_ignored("XHAKMEM_DISABLE=1"));
}

static void environment_not_trusted_ignored(void **state)
{
	bool secure = os_facts.secure;

	os_facts.secure = true;
	assert_true(is_ignored("HAKMEM_BIGCACHE_MAX=4321"));
	os_facts.secure = secure;
	assert_true(secure || !is_ignored("HAKMEM_BIGCACHE_MAX=4321"));
	hak_settings = base;
	conf_load(NULL);
	assert_memory_equal(&hak_settings, &base, sizeof base);
}

static void variables_are_hidden(void **state)
{
	static char stats[] = "HAKMEM_STATS=1", path[] = "PATH=/bin", word[] = "HAKMEM=1", none[] = "HAKMEM_", x[] = "XHAKMEM_=1";
	char *env[] = { stats, path, word, none, x, NULL };

	conf_hide(env);
	assert_string_equal(env[0], "PATH=/bin");
	assert_string_equal(env[1], "HAKMEM=1");
	assert_string_equal(env[2], "XHAKMEM_=1");
	for (int i = 3; i < 6; i++) /* nor is anything left behind the end */
		assert_null(env[i]);
	conf_hide(NULL); /* a program may clear its environment before it opens the library */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bool_any_spelling_understood),
		cmocka_unit_test(bool_each_name_sets_its_own),
		cmocka_unit_test(size_any_suffix_scaled),
		cmocka_unit_test(delay_any_unit_scaled),
		cmocka_unit_test(cache_in_range_taken),
		cmocka_unit_test(thp_any_mode_understood),
		cmocka_unit_test(value_not_understood_ignored),
		cmocka_unit_test(name_not_understood_ignored),
		cmocka_unit_test(environment_not_trusted_ignored),
		cmocka_unit_test(variables_are_hidden),
	};

	return cmocka_run_group_tests(tests, load_base, NULL);
}
