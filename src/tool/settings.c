/* SPDX-License-Identifier: MIT */
#include "tool/settings.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hakmem.h"
#include "tool/tool.h"

#define SETTING_BUILD(option) "as built"
#define SETTING(name, kind, field, low, high, words, initial, meaning) { #name, #kind, words, initial, meaning },
const struct setting_info settings[] = {
#include "abi/conf_table.def"
	{ NULL, NULL, NULL, NULL, NULL },
};
#undef SETTING

#define PROFILE(name, lines) { #name, lines },
const struct profile_info profiles[] = {
#include "abi/conf_table.def"
	{ NULL, NULL },
};
#undef PROFILE

struct doubt {
	const char *command, *name, *value;
};

static void say(void *arg, unsigned line, const char *text, const char *why) {
	const struct doubt *d = arg;
	misused("%s: '%s=%s' %s", d->command, d->name, d->value, why);
}

bool settings_are_valid(const char *command, const char *name, const char *value) {
	struct doubt doubt = { command, name, value };
	char path[32];
	if (strpbrk(name, "#[\n") != NULL || strpbrk(value, "#\n") != NULL) {
		misused("%s: '%s=%s' is no setting", command, name, value);
		return false;
	}
	int fd = memfd_create("hakmem.conf", MFD_CLOEXEC), bad = -1;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (fd >= 0 && dprintf(fd, "%s = %s\n", name, value) > 0)
		bad = hak_conf_check(path, say, &doubt);
	if (bad < 0)
		complain("%s: '%s=%s' cannot be checked, is /proc mounted?", command, name, value);
	if (fd >= 0)
		close(fd);
	return bad <= 0;
}
