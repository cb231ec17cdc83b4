/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/bits.h"
#include "base/report.h"
#include "front/sampling.h"
#include "observe/profile.h"
#include "observe/sample.h"
#include "os/os.h"

/* Lives on the stack of a signal handler, which may be little. */
struct out {
	int fd;
	int error;
	size_t len;
	char text[1024];
};

static void flush(struct out *o) {
	if (o->error == 0)
		o->error = report_write(o->fd, o->text, o->len);
	o->len = 0;
}

static void put(struct out *o, const char *text, size_t len) {
	for (size_t i = 0; i < len; i++) {
		if (o->len == sizeof o->text)
			flush(o);
		o->text[o->len++] = text[i];
	}
}

static void put_line(struct out *o, struct line *l) {
	put(o, l->text, l->len);
	l->len = 0;
}

/* ---- the sample ---- */

struct counts {
	size_t live, live_bytes, total, total_bytes;
};

/* Some readers take each block for sampled where the mean is 1, though of blocks of one byte two in three are. */
static size_t stated_mean(void) {
	return max_size(sample_mean(), 2);
}

/* Readers take all blocks of a line for as large as the mean one, and divide by that one's chance. So we multiply by
   it: of blocks of one size that gives the samples there are, of several more. */
static void add_estimate(size_t *blocksp, size_t *bytesp, const struct estimate *e) {
	double blocks, bytes;
	__atomic_load(&e->blocks, &blocks, __ATOMIC_RELAXED);
	__atomic_load(&e->bytes, &bytes, __ATOMIC_RELAXED);
	if (blocks < 0.5) /* a sample stands for one at least: this is what rounding left of some that are gone */
		return;
	double chance = sampling_chance(bytes / blocks / size_to_real(stated_mean()));
	*blocksp += real_to_size(blocks * chance + 0.5);
	*bytesp += real_to_size(bytes * chance + 0.5);
}

/* What lives is read first: it is part of the total, though either has a mean size, and so a scale, of its own. */
static void add_site(struct counts *c, const struct site *s) {
	add_estimate(&c->live, &c->live_bytes, &s->live);
	add_estimate(&c->total, &c->total_bytes, &s->total);
}

static void line_counts(struct line *l, const struct counts *c) {
	line_dec(l, c->live);
	line_str(l, ": ");
	line_dec(l, c->live_bytes);
	line_str(l, " [");
	line_dec(l, c->total);
	line_str(l, ": ");
	line_dec(l, c->total_bytes);
	line_str(l, "] @");
}

static void write_heading(struct out *o) {
	struct counts all = { 0 };
	for (const struct site *s = sample_sites(); s != NULL; s = s->next)
		add_site(&all, s);
	struct line l = { .len = 0 };
	line_str(&l, "heap profile: ");
	line_counts(&l, &all);
	line_str(&l, " heap_v2/");
	line_dec(&l, stated_mean());
	line_str(&l, "\n");
	put_line(o, &l);
}

static void write_site(struct out *o, const struct site *s) {
	struct counts c = { 0 };
	struct line l = { .len = 0 };
	add_site(&c, s);
	if (c.total == 0)
		return;
	line_counts(&l, &c);
	if (s->depth == 0)
		line_str(&l, " 0x0"); /* google-pprof passes over what has no address */
	for (unsigned i = 0; i < s->depth; i++) {
		put_line(o, &l);
		line_str(&l, " ");
		line_ptr(&l, (const void *)(s->frame[i] - (i == 0))); /* readers see return addresses in all but the first */
	}
	line_str(&l, "\n");
	put_line(o, &l);
}

static void write_mappings(struct out *o) {
	static const char heading[] = "\nMAPPED_LIBRARIES:\n";
	put(o, heading, sizeof heading - 1);
	flush(o);
	int fd = os_file_open("/proc/self/maps").fd;
	if (fd < 0)
		return;
	for (size_t at = 0; (o->len = os_file_read(fd, o->text, sizeof o->text, at)) != 0; flush(o))
		at += o->len;
	os_file_close(fd);
}

/* A descriptor, or a negative error. */
HAK_NOINLINE static int create(const char *pattern) {
	char path[512];
	if (report_path(path, sizeof path, pattern))
		return os_file_create(path);
	return pattern[0] != '/' && os_facts.secure ? -EACCES : -ENAMETOOLONG;
}

int profile_write(const char *path) {
	if (sample_mean() == 0)
		return ENODATA;
	struct out o = { .len = 0 };
	o.fd = create(path);
	if (o.fd < 0)
		return -o.fd;
	write_heading(&o);
	for (const struct site *s = sample_sites(); s != NULL; s = s->next)
		write_site(&o, s);
	write_mappings(&o);
	flush(&o);
	os_file_close(o.fd);
	return o.error;
}
