/* SPDX-License-Identifier: MIT */
#include "abi/conf.h"

#include "abi/conf_file.h"
#include "abi/conf_table.h"
#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"

enum { SAID_MOST = 20 }; /* lines about what was not understood: a file may be anything */

/* One reading of all sources. Where a row's value comes from is a bit in one of the sets; of several the
   environment's counts, then the profile's. */
struct reading {
	const char *path;
	uint64_t file, profile, env;
	bool is_saying;
	unsigned said;
};

static uint64_t bit_of(enum conf_row row) {
	return (uint64_t)1 << row;
}

/* ---- saying ---- */

const char *conf_reason(enum conf_verdict verdict) {
	switch (verdict) {
	case CONF_TAKEN: break;
	case CONF_NO_EQUALS: return "has no '='";
	case CONF_UNKNOWN_NAME: return "names no setting";
	case CONF_BAD_VALUE: return "has a value of the wrong kind";
	case CONF_OUT_OF_BOUNDS: return "is out of bounds";
	case CONF_BAD_SECTION: return "is no [exe:PROGRAM]";
	case CONF_LINE_TOO_LONG: return "is the end of too long a line";
	}
	return "";
}

/* A line number of 0 stands for a variable of the environment. */
static void say_ignored(struct reading *r, unsigned number, enum conf_verdict verdict, struct text what) {
	enum { WHAT_MOST = 60 };
	if (!r->is_saying || ++r->said > SAID_MOST)
		return;
	struct line l;
	line_begin(&l);
	if (r->said == SAID_MOST) {
		line_str(&l, "more is ignored");
	} else {
		line_str(&l, "ignored: ");
		if (number != 0) {
			line_str(&l, r->path);
			line_str(&l, ":");
			line_dec(&l, number);
			line_str(&l, ": ");
		}
		line_str(&l, number != 0 ? "'" : "'HAKMEM_");
		line_text(&l, what.at, what.len < WHAT_MOST ? what.len : WHAT_MOST);
		line_str(&l, what.len <= WHAT_MOST ? "' " : "...' ");
		line_str(&l, conf_reason(verdict));
	}
	line_write(&l);
}

static void say_file_ignored(struct reading *r, const char *why) {
	struct line l;
	if (!r->is_saying)
		return;
	line_begin(&l);
	line_str(&l, "ignored: ");
	line_str(&l, r->path);
	line_str(&l, why);
	line_write(&l);
}

static const char *origin(const struct reading *r, enum conf_row row) {
	if ((r->env & bit_of(row)) != 0)
		return " (environment)";
	if ((r->profile & bit_of(row)) != 0)
		return " (profile)";
	return (r->file & bit_of(row)) != 0 ? " (file)" : " (default)";
}

static void say_settings(const struct reading *r) {
	for (unsigned row = 0; row < CONF_ROWS; row++) {
		struct line l;
		line_begin(&l);
		conf_print_name(&l, (enum conf_row)row);
		line_str(&l, " = ");
		conf_print_value(&l, (enum conf_row)row, &hak_settings);
		line_str(&l, origin(r, (enum conf_row)row));
		line_write(&l);
	}
}

/* ---- sources ---- */

static void take_file_line(void *arg, unsigned number, enum conf_verdict verdict, struct text line) {
	struct reading *r = arg;
	enum conf_row row;
	if (verdict == CONF_TAKEN)
		verdict = conf_assign(&hak_settings, line, &row);
	if (verdict == CONF_TAKEN)
		r->file |= bit_of(row);
	else
		say_ignored(r, number, verdict, line);
}

static void read_file(struct reading *r, struct os_file file) {
	if (file.fd < 0) {
		if (!file.absent)
			say_file_ignored(r, " cannot be read");
	} else if (!file.regular) {
		say_file_ignored(r, " is no file");
	} else if (!file.trusted) {
		say_file_ignored(r, " may be written by others");
	} else {
		conf_file_read(file.fd, take_file_line, r);
	}
}

static void read_environment(struct reading *r, char *const *env) {
	HAK_EVERYDAY_CONST static const char prefix[] = "HAKMEM_";
	for (; *env != NULL; env++) {
		if (!begins_with(*env, prefix))
			continue;
		struct text assignment = text_of(*env + sizeof prefix - 1);
		enum conf_row row;
		enum conf_verdict verdict = conf_assign(&hak_settings, assignment, &row);
		if (verdict == CONF_TAKEN)
			r->env |= bit_of(row);
		else
			say_ignored(r, 0, verdict, assignment);
	}
}

/* Fills in, after the fact, what the profile says and its own source or a later one does not. */
HAK_EVERYDAY static void apply_profile(struct reading *r) {
	if (hak_settings.profile == 0)
		return; /* it says nothing */
	bool by_env = (r->env & bit_of(CONF_profile)) != 0;
	uint64_t explicit = by_env ? r->env : r->env | r->file;
	struct settings wanted = hak_settings;
	struct text rest = conf_profile_lines(hak_settings.profile), line;
	while (text_next(&rest, '\n', &line)) {
		enum conf_row row;
		struct settings with = wanted;
		if (conf_assign(&with, line, &row) != CONF_TAKEN || (explicit & bit_of(row)) != 0)
			continue;
		wanted = with;
		r->profile |= bit_of(row);
	}
	hak_settings = wanted;
}

HAK_EVERYDAY static void read_all(struct reading *r, struct os_file file, char *const *env) {
	read_file(r, file);
	if (env != NULL && !os_facts.secure)
		read_environment(r, env);
	apply_profile(r);
}

/* Now, since later a sandbox may forbid to open anything. */
static void ask_for_limit(bool say) {
	size_t bytes = os_cgroup_limit("/proc/self/cgroup", "/sys/fs/cgroup");
	hak_settings.limit = bytes != 0 ? max_size(bytes - bytes / 20, 4 * HAK_MIB) : 0;
	if (!say)
		return;
	struct line l;
	line_begin(&l);
	line_str(&l, bytes != 0 ? "the control group's limit is " : "the control group has no limit");
	if (bytes != 0)
		line_dec(&l, bytes);
	line_write(&l);
}

HAK_EVERYDAY void conf_load_from(const char *path, char *const *env) {
	struct settings defaults = hak_settings;
	struct os_file file = os_file_open(path);
	struct reading r = { .path = path };
	read_all(&r, file, env);
	if (hak_settings.verbose) {
		/* Only now is it known that there is something to say. */
		hak_settings = defaults;
		r = (struct reading){ .path = path, .is_saying = true };
		read_all(&r, file, env);
		say_settings(&r);
	}
	if (file.fd >= 0)
		os_file_close(file.fd);
	if (hak_settings.limit == LIMIT_CGROUP)
		ask_for_limit(hak_settings.verbose);
}

HAK_COLD void conf_hide(char **env) {
	char **kept = env;
	if (env == NULL)
		return;
	for (; *env != NULL; env++)
		if (!begins_with(*env, "HAKMEM_"))
			*kept++ = *env;
	/* All that is left over: the Go run time takes what follows the first NULL for the auxiliary vector. */
	do
		*kept = NULL;
	while (kept++ != env);
}

HAK_EVERYDAY void conf_load(char *const *env) {
	HAK_EVERYDAY_CONST static const char path[] = "/etc/hakmem.conf";
	conf_load_from(path, env);
}
