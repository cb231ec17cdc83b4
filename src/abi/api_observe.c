/* SPDX-License-Identifier: MIT */
/* The hak_* functions that look inside. What they promise stands in hakmem.h. */
#include <errno.h>
#include <string.h>

#include "abi/conf_check.h"
#include "abi/fork.h"
#include "abi/lifecycle.h"
#include "base/bits.h"
#include "base/settings.h"
#include "front/background.h"
#include "hakmem.h"
#include "observe/check.h"
#include "observe/profile.h"
#include "observe/sample.h"
#include "observe/stats.h"
#include "observe/visit.h"

#define API HAK_EXPORT

/* Who asks before the first allocation learns that there is nothing. */
static void begin(void) {
	lifecycle_init();
	fork_repair_if_due();
}

API int hak_stats_get(struct hak_stats *stats, size_t size) {
	if (size < offsetof(struct hak_stats, committed)) {
		errno = EINVAL;
		return -1;
	}
	begin();
	size = min_size(size, sizeof *stats);
	memcpy(stats, stats_take(true), size);
	stats_put_back();
	stats->size = size;
	return 0;
}

API int hak_stats_write(const struct hak_stats *stats, enum hak_stats_format format,
                        void (*put)(void *arg, const char *text, size_t length), void *arg) {
	struct hak_stats st = { 0 };
	memcpy(&st, stats, min_size(stats->size, sizeof st));
	switch (format) {
	case HAK_STATS_TEXT: write_text(&st, true, put, arg); return 0;
	case HAK_STATS_JSON: write_json(&st, put, arg); return 0;
	case HAK_STATS_OPENMETRICS: write_openmetrics(&(struct metric_source){ &st, "" }, 1, put, arg); return 0;
	}
	errno = EINVAL;
	return -1;
}

struct text_buffer {
	char *at;
	size_t room, length;
};

static void put_buffer(void *arg, const char *text, size_t length) {
	struct text_buffer *b = arg;
	size_t n = b->length < b->room ? min_size(length, b->room - b->length) : 0;
	if (n != 0)
		memcpy(b->at + b->length, text, n);
	b->length += length;
}

API size_t hak_stats_json(char *buffer, size_t size) {
	struct text_buffer b = { .at = buffer, .room = size != 0 ? size - 1 : 0 };
	begin();
	stats_take(true);
	stats_write_json(put_buffer, &b);
	stats_put_back();
	if (size != 0)
		buffer[min_size(b.length, b.room)] = '\0';
	return b.length;
}

API int hak_heap_visit(int (*visit)(const struct hak_area *area, void *arg), void *arg) {
	begin();
	background_hold(BACKGROUND_PATIENT);
	int result = visit_heap(visit, arg);
	background_release();
	return result;
}

API int hak_check(void) {
	begin();
	background_hold(BACKGROUND_PATIENT);
	int result = check_heap();
	background_release();
	return result;
}

API int hak_conf_check(const char *path,
                       void (*say)(void *arg, unsigned line, const char *text, const char *why), void *arg) {
	begin();
	return conf_check(path, say, arg);
}

API int hak_profile_start(size_t mean) {
	if (mean == 0 || mean > HAK_GIB)
		return EINVAL;
	begin();
	if (hak_settings.secure != 0 || hak_settings.disable)
		return ENOTSUP;
	int saved = errno;
	/* What was asked for before comes first: loading the unwinder would begin it amid this. */
	if (profile_is_due())
		profile_begin(NULL);
	bool done = sample_start(mean, NULL);
	errno = saved;
	return done ? 0 : sample_is_on() ? EBUSY : ENOMEM;
}

API void hak_profile_stop(void) {
	begin();
	sample_stop();
}

API int hak_profile_write(const char *path) {
	return profile_write(path);
}
