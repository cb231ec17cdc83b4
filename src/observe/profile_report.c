/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <string.h>

#include "base/bits.h"
#include "base/report.h"
#include "base/settings.h"
#include "observe/profile.h"
#include "observe/sample.h"
#include "os/os.h"

#pragma weak dladdr

enum { SHOWN = 10, NAME_SHOWN = 40, FRAME_ROOM = 100 }; /* the last: for a frame and the end of a line */

/* Sites that differ in size alone. */
struct origin {
	const struct site *site; /* one of them; NULL: none */
	double blocks, bytes;    /* estimates */
};

/* exp(-x), x >= 0: by the series of x / 2^20, squared again. */
static double exp_minus(double x) {
	double y = x * 0x1p-20, e = 1 - y * (1 - y / 2 * (1 - y / 3));
	if (x > 100)
		return 0;
	for (int i = 0; i < 20; i++)
		e *= e;
	return e;
}

static bool same_stack(const struct site *a, const struct site *b) {
	return a->depth == b->depth && memcmp(a->frame, b->frame, a->depth * sizeof *a->frame) == 0;
}

/* What is sampled with probability p stands for 1 / p blocks. */
static void add(struct origin *table, size_t size, const struct site *s) {
	size_t i = s->depth != 0 ? (s->frame[0] ^ s->frame[s->depth / 2]) * 0x9e3779b97f4a7c15 >> 20 : 0;
	for (i &= size - 1; table[i].site != NULL && !same_stack(table[i].site, s);)
		i = (i + 1) & (size - 1);
	double blocks = (double)s->live / (1 - exp_minus((double)max_size(s->size, 1) / (double)sample_mean()));
	table[i].site = s;
	table[i].blocks += blocks;
	table[i].bytes += blocks * (double)s->size;
}

/* `*modulep`: the file that the frame before is told by, which is not repeated. */
static void line_frame(struct line *l, uintptr_t frame, const void **modulep) {
	Dl_info info;
	const void *at = (const void *)(frame - 1); /* in the call, not behind it */
	if (dladdr == NULL || dladdr(at, &info) == 0) {
		line_ptr(l, at);
		return;
	}
	const char *file = info.dli_fname != NULL ? info.dli_fname : "?";
	/* Names of C++ are so long that the callers would be cut off. */
	bool named = info.dli_sname != NULL && strlen(info.dli_sname) <= NAME_SHOWN;
	if (named || info.dli_fbase != *modulep)
		line_str(l, named ? info.dli_sname : report_file_name(file));
	*modulep = named ? NULL : info.dli_fbase;
	line_str(l, "+");
	line_ptr(l, (const void *)((uintptr_t)at - (uintptr_t)(named ? info.dli_saddr : info.dli_fbase)));
}

static void line_estimate(struct line *l, const struct origin *o) {
	line_begin(l);
	line_str(l, "not freed: about ");
	line_dec(l, (uint64_t)o->bytes);
	line_str(l, " bytes in ");
	line_dec(l, (uint64_t)(o->blocks + 0.5));
	line_str(l, " blocks");
}

static void say_all(const struct origin *table, size_t size, size_t samples) {
	struct line l;
	char path[sizeof l.text] = "";
	struct origin all = { NULL, 0, 0 };
	for (size_t i = 0; i < size; i++) {
		all.blocks += table[i].blocks;
		all.bytes += table[i].bytes;
	}
	line_estimate(&l, &all);
	line_str(&l, " in all, by ");
	line_dec(&l, samples);
	line_str(&l, " samples; profile: ");
	report_path(path, sizeof path, hak_settings.sample_file);
	line_str(&l, path);
	line_write(&l);
}

static void say(const struct origin *o) {
	struct line l;
	line_estimate(&l, o);
	const void *module = NULL;
	for (unsigned i = 0; i < o->site->depth && l.len < sizeof l.text - FRAME_ROOM; i++) {
		line_str(&l, i == 0 ? " from " : " < ");
		line_frame(&l, o->site->frame[i], &module);
	}
	line_write(&l);
}

static struct origin *largest(struct origin *table, size_t size) {
	struct origin *most = &table[0];
	for (size_t i = 1; i < size; i++)
		if (table[i].bytes > most->bytes)
			most = &table[i];
	return most->bytes > 0 ? most : NULL;
}

void profile_report(void) {
	size_t count = 0, samples = 0, size;
	for (const struct site *s = sample_sites(); s != NULL; s = s->next)
		count += s->live != 0;
	size = next_pow2(max_size(2 * count, 1024)); /* whole pages */
	struct origin *table = os_map(NULL, size * sizeof *table);
	if (table == NULL)
		return;
	/* Other threads may make more of them live meanwhile: the table has no room for those. */
	for (const struct site *s = sample_sites(); s != NULL && count > 0; s = s->next)
		if (s->live != 0) {
			add(table, size, s);
			samples += s->live;
			count--;
		}
	say_all(table, size, samples);
	struct origin *o;
	for (int i = 0; i < SHOWN && (o = largest(table, size)) != NULL; i++) {
		say(o);
		o->bytes = 0;
	}
	os_unmap(table, size * sizeof *table);
}
