/* SPDX-License-Identifier: MIT */
/*
 * Reports that settings ask for, at exit and on a signal, and whether the heap profile's last words are heard.
 *
 * Many programs close standard error before they end, so a descriptor for it is kept from the start. What it
 * leads to is compared before it is written to: a program that closes all descriptors may have opened
 * something else under that number.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/report.h"
#include "base/settings.h"
#include "base/text.h"
#include "observe/stats.h"
#include "os/os.h"

static struct {
	uint64_t identity; /* of standard error; 0: not asked for */
	int fd;            /* for it, kept; negative: not */
} kept;

static bool goes_to_stderr(void) {
	return is_same_text(hak_settings.stats_file, "stderr");
}

/* ---- where to ---- */

static bool leads_there(int fd) {
	return kept.identity != 0 && os_file_identity(fd) == kept.identity;
}

bool stats_stderr_is_there(void) {
	return leads_there(STDERR_FILENO);
}

/* Negative: nowhere. */
static int target(void) {
	if (!goes_to_stderr()) {
		char path[SETTING_TEXT + 300];
		return report_path(path, sizeof path, hak_settings.stats_file) ? os_file_append(path) : -1;
	}
	if (kept.fd >= 0 && leads_there(kept.fd))
		return kept.fd;
	return leads_there(STDERR_FILENO) ? STDERR_FILENO : -1;
}

/* ---- what ---- */

/* A report, as far as it is not written yet. Other processes may append theirs to the same file: what is appended by one
   call stays together. Whoever has taken the statistics has this. */
HAK_LATE_IN_BSS static struct {
	int fd;
	size_t len;
	char text[64 * 1024]; /* more than there is to say */
} gathered;

/* Only if asked to talk: the file may be one for all programs of a machine, of users who may not write there. */
static void say_not_written(void) {
	struct line l;
	if (!hak_settings.verbose || goes_to_stderr())
		return;
	line_begin(&l);
	line_str(&l, "cannot write statistics to ");
	line_str(&l, hak_settings.stats_file);
	line_write(&l);
}

static void flush(void) {
	if (report_write(gathered.fd, gathered.text, gathered.len) != 0)
		say_not_written();
	gathered.len = 0;
}

static void put(void *arg, const char *text, size_t length) {
	if (length > sizeof gathered.text - gathered.len)
		flush();
	memcpy(gathered.text + gathered.len, text, length);
	gathered.len += length;
}

static void put_head(void) {
	struct line l;
	line_begin(&l);
	line_str(&l, "statistics of ");
	line_process(&l);
	l.text[l.len++] = '\n';
	put(NULL, l.text, l.len);
}

static void write_report(int fd) {
	gathered.fd = fd;
	gathered.len = 0; /* a fork child may find some that is not its own */
	if (hak_settings.stats == STATS_JSON) {
		stats_write_json(put, NULL);
	} else {
		put_head();
		stats_write_text(hak_settings.warm_pool_stats, put, NULL);
	}
	flush();
}

/* Not `wait`: none, if the last is still being written. */
static void report(bool wait) {
	int fd = target();
	if (fd < 0) {
		say_not_written();
		return;
	}
	if (stats_take(wait) != NULL) {
		write_report(fd);
		stats_put_back();
	}
	if (!goes_to_stderr())
		os_file_close(fd);
}

static void on_signal(int number) {
	int saved = errno;
	report(false);
	errno = saved;
}

HAK_COLD static void begin(bool reports) {
	kept.identity = os_file_identity(STDERR_FILENO);
	/* Not for the heap profile alone: whoever reads what the program writes may wait until it closes that. */
	kept.fd = reports && goes_to_stderr() ? os_file_keep(STDERR_FILENO) : -1;
	if (hak_settings.stats_signal != 0)
		os_handle_signal((int)hak_settings.stats_signal, on_signal);
}

HAK_EVERYDAY void stats_begin(void) {
	bool reports = hak_settings.stats != STATS_OFF || hak_settings.stats_signal != 0;
	if (reports || hak_settings.sample != 0 || hak_settings.sample_signal != 0)
		begin(reports);
}

void stats_end(void) {
	report(true);
}
