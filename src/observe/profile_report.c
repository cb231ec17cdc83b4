/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <string.h>

#include "base/bits.h"
#include "base/report.h"
#include "base/settings.h"
#include "base/text.h"
#include "observe/profile.h"
#include "observe/sample.h"
#include "os/trace.h"

enum { SHOWN = 10, NAME_SHOWN = 40, FRAME_ROOM = 100 }; /* the last: for a frame and the end of a line */

/* `*modulep`: the file that the frame before is told by, which is not repeated. */
static void line_frame(struct line *l, uintptr_t frame, const void **modulep) {
	Dl_info info;
	const void *at = (const void *)(frame - 1); /* in the call, not behind it */
	if (!trace_object(at, &info)) {
		line_ptr(l, at);
		return;
	}
	const char *file = info.dli_fname != NULL ? info.dli_fname : "?";
	/* Names of C++ are so long that the callers would be cut off. */
	bool named = info.dli_sname != NULL && text_length(info.dli_sname) <= NAME_SHOWN;
	if (named || info.dli_fbase != *modulep)
		line_str(l, named ? info.dli_sname : report_file_name(file));
	*modulep = named ? NULL : info.dli_fbase;
	line_str(l, "+");
	uintptr_t offset = named ? (uintptr_t)at - (uintptr_t)info.dli_saddr : trace_in_file((uintptr_t)at, &info);
	line_ptr(l, (const void *)offset);
}

static void line_estimate(struct line *l, const struct estimate *e) {
	line_begin(l);
	line_str(l, "not freed: about ");
	line_dec(l, real_to_size(e->bytes));
	line_str(l, " bytes in ");
	line_dec(l, real_to_size(e->blocks + 0.5));
	line_str(l, " blocks");
}

static void say_all(bool is_written) {
	struct line l;
	char path[sizeof l.text] = "";
	struct estimate all = { 0, 0 };
	size_t samples = 0;
	for (const struct site *s = sample_sites(); s != NULL; s = s->next) {
		samples += s->samples;
		all.blocks += s->live.blocks;
		all.bytes += s->live.bytes;
	}
	line_estimate(&l, &all);
	line_str(&l, " in all, by ");
	line_dec(&l, samples);
	line_str(&l, " samples");
	if (is_written && report_path(path, sizeof path, hak_settings.sample_file)) {
		line_str(&l, "; profile: ");
		line_str(&l, path);
	}
	line_write(&l);
}

static void say(const struct site *s) {
	struct line l;
	line_estimate(&l, &s->live);
	const void *module = NULL;
	for (unsigned i = 0; i < s->depth && l.len < sizeof l.text - FRAME_ROOM; i++) {
		line_str(&l, i == 0 ? " from " : " < ");
		line_frame(&l, s->frame[i], &module);
	}
	line_write(&l);
}

static double bytes_of(const struct site *s) {
	return s != NULL ? s->live.bytes : 0;
}

void profile_report(bool is_written) {
	const struct site *top[SHOWN + 1] = { NULL }; /* by bytes, and what drops out */
	say_all(is_written);
	for (const struct site *s = sample_sites(); s != NULL; s = s->next) {
		int i = SHOWN;
		for (; i > 0 && bytes_of(top[i - 1]) < bytes_of(s); i--)
			top[i] = top[i - 1];
		top[i] = s;
	}
	for (int i = 0; i < SHOWN && bytes_of(top[i]) > 0; i++)
		say(top[i]);
}
