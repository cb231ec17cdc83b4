/* SPDX-License-Identifier: MIT */
#include "observe/write.h"

#include <string.h>

#include "base/text.h"

enum kind { GAUGE, COUNTER, GROUP };
enum unit { BYTES, NUMBER };

/* Text lies beside the rows, all in one: pointers to it would have to be relocated in every process. */
#define AT_LINE(line) AT_LINE_(line)
#define AT_LINE_(line) line_##line
#define STAT(field, kind, unit, help) char AT_LINE(__LINE__)[sizeof #field "\0" help];
#define STAT_GROUP(title) char AT_LINE(__LINE__)[sizeof "\0" title];
struct stat_texts {
#include "observe/stats.def"
};
#undef STAT
#undef STAT_GROUP

/* A name, and help behind its end. */
#define STAT(field, kind, unit, help) #field "\0" help,
#define STAT_GROUP(title) "\0" title,
static const struct stat_texts texts = {
#include "observe/stats.def"
};
#undef STAT
#undef STAT_GROUP

struct stat_row {
	uint16_t text, offset;
	uint8_t kind, unit;
};

#define STAT(field, kind, unit, help) \
	{ offsetof(struct stat_texts, AT_LINE(__LINE__)), offsetof(struct hak_stats, field), kind, unit },
#define STAT_GROUP(title) { offsetof(struct stat_texts, AT_LINE(__LINE__)), 0, GROUP, 0 },
static const struct stat_row rows[] = {
#include "observe/stats.def"
};
#undef STAT
#undef STAT_GROUP
enum { ROWS = sizeof rows / sizeof *rows };

static const char *name_of(const struct stat_row *row) {
	return (const char *)&texts + row->text;
}

static const char *help_of(const struct stat_row *row) {
	const char *name = name_of(row);
	return name + text_length(name) + 1;
}

static uint64_t value_of(const struct hak_stats *st, const struct stat_row *row) {
	uint64_t value;
	memcpy(&value, (const char *)st + row->offset, sizeof value);
	return value;
}

/* ---- pieces ---- */

struct out {
	put_fn *put;
	void *arg;
	size_t used;
	char buf[512];
};

static void flush(struct out *o) {
	if (o->used != 0)
		o->put(o->arg, o->buf, o->used);
	o->used = 0;
}

static void put_str(struct out *o, const char *s) {
	for (; *s != '\0'; s++) {
		if (o->used == sizeof o->buf)
			flush(o);
		o->buf[o->used++] = *s;
	}
}

struct digits {
	char text[32];
};

static struct digits decimal(uint64_t value) {
	struct digits d;
	char *at = d.text + sizeof d.text - 1;
	*at = '\0';
	do
		*--at = (char)('0' + value % 10);
	while ((value /= 10) != 0);
	memmove(d.text, at, text_length(at) + 1);
	return d;
}

/* Bytes with a unit of which there are less than 1024, and one decimal: "1.5 MiB". */
static struct digits readable(uint64_t bytes) {
	static const char units[][4] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned unit = 0;
	uint64_t tenths = 0;
	while (bytes >= 1024) {
		tenths = bytes % 1024 * 10 / 1024;
		bytes /= 1024;
		unit++;
	}
	struct digits d = decimal(bytes);
	char *end = d.text + text_length(d.text);
	if (unit != 0) {
		*end++ = '.';
		*end++ = (char)('0' + tenths);
	}
	*end++ = ' ';
	memcpy(end, units[unit], sizeof units[unit]);
	return d;
}

static void put_dec(struct out *o, uint64_t value) {
	put_str(o, decimal(value).text);
}

static void pad(struct out *o, size_t from, size_t to) {
	for (; from < to; from++)
		put_str(o, " ");
}

static void put_right(struct out *o, const char *s, size_t width) {
	pad(o, text_length(s), width);
	put_str(o, s);
}

/* ---- for people ---- */

static bool is_op(const struct stat_row *row) {
	return row->offset >= offsetof(struct hak_stats, allocs) && row->offset <= offsetof(struct hak_stats, requested);
}

static bool is_shown(const struct hak_stats *st, const struct stat_row *row) {
	return !is_op(row) || st->has_ops != 0;
}

static void text_row(struct out *o, const struct hak_stats *st, const struct stat_row *row) {
	uint64_t value = value_of(st, row);
	if (!is_shown(st, row))
		return;
	put_str(o, "  ");
	put_str(o, name_of(row));
	pad(o, text_length(name_of(row)), 20);
	put_right(o, (row->unit == BYTES ? readable(value) : decimal(value)).text, 12);
	put_str(o, "   ");
	put_str(o, help_of(row));
	put_str(o, "\n");
}

/* A number too wide for its column moves the rest of its line. */
static void put_column(struct out *o, const char *s, size_t width) {
	put_str(o, " ");
	put_right(o, s, width - 1);
}

static bool has_blocks(const struct hak_stats_class *c) {
	return c->slabs + c->live + c->cached != 0;
}

static void text_classes(struct out *o, const struct hak_stats *st) {
	static const struct {
		char head[11];
		uint8_t width;
	} columns[] = { { "size", 6 }, { "slabs", 7 }, { "live", 10 }, { "cached", 8 }, { "free", 8 }, { "fresh", 8 },
	                { "live bytes", 11 }, { "unused", 11 }, { "idle", 11 } };
	enum { COLUMNS = sizeof columns / sizeof *columns, FIRST_BYTES = 6 };
	put_str(o, "size classes\n");
	for (size_t i = 0; i < COLUMNS; i++)
		put_column(o, columns[i].head, columns[i].width);
	put_str(o, "\n");
	for (size_t sc = 1; sc < st->classes; sc++) {
		const struct hak_stats_class *c = &st->by_class[sc];
		const uint64_t values[COLUMNS] = { c->size, c->slabs, c->live, c->cached, c->free, c->fresh,
		                                   c->live * c->size, c->unused, (c->cached + c->free) * c->size };
		if (!has_blocks(c))
			continue;
		for (size_t i = 0; i < COLUMNS; i++)
			put_column(o, (i < FIRST_BYTES ? decimal(values[i]) : readable(values[i])).text, columns[i].width);
		put_str(o, "\n");
	}
}

static uint64_t band_end(size_t band) {
	return (uint64_t)8 << band;
}
enum { LAST_BAND = 8 };

static void text_warm(struct out *o, const struct hak_stats *st) {
	put_str(o, "warm pool\n");
	put_str(o, "    band       up to        hits      misses    prefills\n");
	for (size_t band = 1; band <= LAST_BAND; band++) {
		const struct hak_stats_band *b = &st->by_band[band];
		put_str(o, "      C");
		put_dec(o, band);
		put_right(o, band < LAST_BAND ? decimal(band_end(band)).text : "more", 12);
		put_right(o, decimal(b->hits).text, 12);
		put_right(o, decimal(b->misses).text, 12);
		put_right(o, decimal(b->prefills).text, 12);
		put_str(o, "\n");
	}
}

void write_text(const struct hak_stats *st, bool warm, put_fn *put, void *arg) {
	struct out o = { .put = put, .arg = arg };
	for (size_t i = 0; i < ROWS; i++) {
		if (rows[i].kind != GROUP) {
			text_row(&o, st, &rows[i]);
		} else if (i != ROWS - 4 || st->has_ops != 0) { /* the last group has three rows */
			put_str(&o, help_of(&rows[i]));
			put_str(&o, "\n");
		}
	}
	text_classes(&o, st);
	if (warm)
		text_warm(&o, st);
	if (st->has_counters == 0)
		put_str(&o, "counters of the slow paths are not built in and read 0\n");
	if (st->is_partial != 0)
		put_str(&o, "caches of other threads could not be read: what is in them counts as live\n");
	flush(&o);
}

/* ---- by heap ---- */

/* Counters of a heap are the rows from the first of these to the last. */
static bool is_by_heap(const struct stat_row *row) {
	return row->kind == COUNTER && row->offset >= offsetof(struct hak_stats, bin_misses) &&
		row->offset <= offsetof(struct hak_stats, slabs_deleted);
}

void write_text_heaps(put_fn *put, void *arg) {
	static const char heads[][8] = { "cached", "misses", "own", "carve", "ready", "inbox", "adopt",
	                                 "hole", "fresh", "full", "home", "remote", "batches", "drained" };
	struct out o = { .put = put, .arg = arg };
	put_str(&o, "heap is      ");
	for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
		put_right(&o, heads[i], 9);
	put_str(&o, "\n");
	flush(&o);
}

void write_text_heap(const struct reading_heap *h, put_fn *put, void *arg) {
	struct out o = { .put = put, .arg = arg };
	put_right(&o, decimal(h->number).text, 4);
	put_str(&o, h->is_locked ? " locked" : h->has_thread ? " thread" : " idle  ");
	put_right(&o, readable(h->counts.cached).text, 11);
	for (size_t i = 0; i < ROWS; i++)
		if (is_by_heap(&rows[i]) && rows[i].offset <= offsetof(struct hak_stats, drained_blocks))
			put_right(&o, decimal(value_of(&h->counts, &rows[i])).text, 9);
	put_str(&o, "\n");
	flush(&o);
}

/* ---- JSON ---- */

static void json_member(struct out *o, const char *name, uint64_t value, bool first) {
	put_str(o, first ? "\"" : ",\"");
	put_str(o, name);
	put_str(o, "\":");
	put_dec(o, value);
}

static void json_bool(struct out *o, const char *name, bool value) {
	put_str(o, ",\"");
	put_str(o, name);
	put_str(o, value ? "\":true" : "\":false");
}

static void json_class(struct out *o, const struct hak_stats *st, const struct hak_stats_class *c) {
	put_str(o, "{");
	json_member(o, "size", c->size, true);
	json_member(o, "slabs", c->slabs, false);
	json_member(o, "live", c->live, false);
	json_member(o, "cached", c->cached, false);
	json_member(o, "free", c->free, false);
	json_member(o, "fresh", c->fresh, false);
	json_member(o, "unused", c->unused, false);
	if (st->has_ops != 0) {
		json_member(o, "allocs", c->allocs, false);
		json_member(o, "frees", c->frees, false);
	}
	put_str(o, "}");
}

static void json_band(struct out *o, size_t band, const struct hak_stats_band *b) {
	put_str(o, band == 1 ? "{" : ",{");
	json_member(o, "band", band, true);
	json_member(o, "hits", b->hits, false);
	json_member(o, "misses", b->misses, false);
	json_member(o, "prefills", b->prefills, false);
	put_str(o, "}");
}

static void json_stats(const struct hak_stats *st, put_fn *put, void *arg) {
	struct out o = { .put = put, .arg = arg };
	put_str(&o, "{\"hakmem_stats\":1");
	json_bool(&o, "has_counters", st->has_counters != 0);
	json_bool(&o, "has_ops", st->has_ops != 0);
	json_bool(&o, "is_partial", st->is_partial != 0);
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].kind != GROUP && is_shown(st, &rows[i]))
			json_member(&o, name_of(&rows[i]), value_of(st, &rows[i]), false);
	put_str(&o, ",\"classes\":[");
	for (size_t sc = 1; sc < st->classes; sc++) {
		put_str(&o, sc == 1 ? "" : ",");
		json_class(&o, st, &st->by_class[sc]);
	}
	put_str(&o, "],\"warm_pool\":[");
	for (size_t band = 1; band <= LAST_BAND; band++)
		json_band(&o, band, &st->by_band[band]);
	put_str(&o, "]");
	flush(&o);
}

void write_json(const struct hak_stats *st, put_fn *put, void *arg) {
	json_stats(st, put, arg);
	put(arg, "}\n", 2);
}

void write_json_open(const struct hak_stats *st, put_fn *put, void *arg) {
	json_stats(st, put, arg);
	put(arg, ",\"by_heap\":[", 12);
}

void write_json_heap(const struct reading_heap *h, put_fn *put, void *arg) {
	struct out o = { .put = put, .arg = arg };
	const struct hak_stats *c = &h->counts;
	put_str(&o, h->index == 0 ? "{" : ",{");
	json_member(&o, "heap", h->number, true);
	json_bool(&o, "has_thread", h->has_thread);
	json_bool(&o, "is_locked", h->is_locked);
	json_member(&o, "cached", c->cached, false);
	json_member(&o, "cached_blocks", c->cached_blocks, false);
	for (size_t i = 0; i < ROWS; i++)
		if (is_by_heap(&rows[i]) || (is_op(&rows[i]) && c->has_ops != 0))
			json_member(&o, name_of(&rows[i]), value_of(c, &rows[i]), false);
	put_str(&o, "}");
	flush(&o);
}

void write_json_close(put_fn *put, void *arg) {
	put(arg, "]}", 2);
}

/* ---- OpenMetrics ---- */

static void metric_head(struct out *o, const char *name, const char *unit, const char *kind, const char *help) {
	static const char words[][16] = { "# TYPE hakmem_", "# UNIT hakmem_", "# HELP hakmem_" };
	const char *const values[] = { kind, unit, help };
	for (int i = 0; i < 3; i++) {
		if (i == 1 && unit[0] == '\0')
			continue;
		put_str(o, words[i]);
		put_str(o, name);
		put_str(o, unit[0] != '\0' ? "_" : "");
		put_str(o, unit);
		put_str(o, " ");
		put_str(o, values[i]);
		put_str(o, "\n");
	}
}

/* `size`: of a class; 0: none. */
static void metric_value(struct out *o, const char *name, const char *suffix, const char *labels, uint64_t size,
                         uint64_t value) {
	put_str(o, "hakmem_");
	put_str(o, name);
	put_str(o, suffix);
	bool labelled = labels[0] != '\0';
	put_str(o, labelled || size != 0 ? "{" : "");
	put_str(o, labels);
	if (size != 0) {
		put_str(o, labelled ? ",size=\"" : "size=\"");
		put_dec(o, size);
		put_str(o, "\"");
	}
	put_str(o, labelled || size != 0 ? "} " : " ");
	put_dec(o, value);
	put_str(o, "\n");
}

static void metric_row(struct out *o, const struct metric_source *s, size_t n, const struct stat_row *row) {
	bool counter = row->kind == COUNTER, bytes = row->unit == BYTES;
	const char *suffix = counter ? bytes ? "_bytes_total" : "_total" : bytes ? "_bytes" : "";
	bool begun = false;
	for (size_t i = 0; i < n; i++) {
		if (!is_shown(s[i].stats, row))
			continue;
		if (!begun)
			metric_head(o, name_of(row), bytes ? "bytes" : "", counter ? "counter" : "gauge", help_of(row));
		begun = true;
		metric_value(o, name_of(row), suffix, s[i].labels, 0, value_of(s[i].stats, row));
	}
}

static void metric_classes(struct out *o, const struct metric_source *s, size_t n) {
	static const struct {
		char name[13];
		uint8_t unit, offset;
	} parts[] = {
#define PART(member, unit) { "class_" #member, unit, offsetof(struct hak_stats_class, member) }
		PART(slabs, NUMBER), PART(live, NUMBER), PART(cached, NUMBER), PART(free, NUMBER), PART(fresh, NUMBER),
		PART(unused, BYTES),
#undef PART
	};
	for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
		bool bytes = parts[part].unit == BYTES;
		metric_head(o, parts[part].name, bytes ? "bytes" : "", "gauge", "of blocks of a size");
		for (size_t i = 0; i < n; i++)
			for (size_t sc = 1; sc < s[i].stats->classes; sc++) {
				const struct hak_stats_class *c = &s[i].stats->by_class[sc];
				uint64_t value;
				memcpy(&value, (const char *)c + parts[part].offset, sizeof value);
				metric_value(o, parts[part].name, bytes ? "_bytes" : "", s[i].labels, c->size, value);
			}
	}
}

void write_openmetrics(const struct metric_source *sources, size_t n, put_fn *put, void *arg) {
	struct out o = { .put = put, .arg = arg };
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].kind != GROUP)
			metric_row(&o, sources, n, &rows[i]);
	metric_classes(&o, sources, n);
	put_str(&o, "# EOF\n");
	flush(&o);
}

/* ---- malloc_info ---- */

void write_xml(const struct hak_stats *st, put_fn *put, void *arg) {
	struct out o = { .put = put, .arg = arg };
	put_str(&o, "<malloc version=\"hakmem-1\">\n<sizes>\n");
	for (size_t sc = 1; sc < st->classes; sc++) {
		const struct hak_stats_class *c = &st->by_class[sc];
		if (!has_blocks(c))
			continue;
		put_str(&o, "<size class=\"");
		put_dec(&o, c->size);
		put_str(&o, "\" live=\"");
		put_dec(&o, c->live);
		put_str(&o, "\" cached=\"");
		put_dec(&o, c->cached);
		put_str(&o, "\" free=\"");
		put_dec(&o, c->free);
		put_str(&o, "\"/>\n");
	}
	put_str(&o, "</sizes>\n");
	for (size_t i = 0; i < ROWS; i++) {
		if (rows[i].kind == GROUP || !is_shown(st, &rows[i]))
			continue;
		put_str(&o, "<total type=\"");
		put_str(&o, name_of(&rows[i]));
		put_str(&o, rows[i].unit == BYTES ? "\" size=\"" : "\" count=\"");
		put_dec(&o, value_of(st, &rows[i]));
		put_str(&o, "\"/>\n");
	}
	put_str(&o, "</malloc>\n");
	flush(&o);
}
