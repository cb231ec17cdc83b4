/* SPDX-License-Identifier: MIT */
/*
 * `hakmem map`: a picture of a process's heap. What is known of each granule is collected first, then drawn: as
 * text, a line per SuperSlab and a character per granule, or as SVG.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tool/commands.h"
#include "tool/map.h"
#include "tool/process.h"
#include "tool/screen.h"

/* ---- collecting ---- */

static struct map_row *row_of(struct map *m, uint64_t address) {
	size_t low = 0, high = m->rows;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (address < m->row[middle].base)
			high = middle;
		else if (address - m->row[middle].base >= MAP_GRANULES << MAP_GRANULE_SHIFT)
			low = middle + 1;
		else
			return &m->row[middle];
	}
	return NULL;
}

static void add_row(void *arg, const struct reading_superslab *s) {
	struct map *m = arg;
	if (m->rows == m->room) {
		size_t room = m->room != 0 ? 2 * m->room : 64;
		struct map_row *more = realloc(m->row, room * sizeof *more);
		if (more == NULL)
			return;
		m->row = more;
		m->room = room;
	}
	struct map_row *r = &m->row[m->rows++];
	*r = (struct map_row){ .base = s->base, .huge = s->huge };
	for (unsigned i = 0; i < MAP_GRANULES; i++)
		r->cell[i].kind = (s->free >> i & 1) == 0 ? MAP_OTHER : (s->zero >> i & 1) != 0 ? MAP_CLEAN : MAP_DIRTY;
}

static void add_slab(void *arg, const struct reading_slab *s) {
	struct map *m = arg;
	struct map_row *r = row_of(m, s->base);
	unsigned percent = s->capacity != 0 ? (unsigned)(s->live * 100 / s->capacity) : 0;
	if (r == NULL) {
		m->alone++;
		return;
	}
	r->cell[(s->base - r->base) >> MAP_GRANULE_SHIFT] = (struct map_cell){
		.kind = s->sc == 0 ? MAP_MOSAIC : MAP_SLAB, .sc = (uint8_t)s->sc,
		.percent = (uint8_t)(percent > 100 ? 100 : percent), .orphan = s->is_orphan,
	};
}

static void add_large(void *arg, const struct reading_large *l) {
	struct map *m = arg;
	struct map_row *r = l->in_superslab ? row_of(m, l->base) : NULL;
	uint64_t bytes = l->granules << MAP_GRANULE_SHIFT;
	if (r == NULL || !l->is_live) {
		*(l->is_live ? &m->big : &m->kept) += 1;
		*(l->is_live ? &m->big_bytes : &m->kept_bytes) += bytes;
	}
	if (r == NULL)
		return;
	size_t first = (l->base - r->base) >> MAP_GRANULE_SHIFT;
	for (size_t i = first; i < first + l->granules && i < MAP_GRANULES; i++)
		r->cell[i] = (struct map_cell){
			.kind = !l->is_live ? MAP_DIRTY : i == first ? MAP_LARGE : MAP_LARGE_MORE,
			.percent = bytes != 0 ? (uint8_t)(l->usable * 100 / bytes) : 0,
		};
}

static int by_base(const void *a, const void *b) {
	const struct map_row *x = a, *y = b;
	return (x->base > y->base) - (x->base < y->base);
}

static enum tool_exit collect(struct map *m, struct process *p) {
	const struct reading *r = &p->reading;
	enum reading_result result = reading_superslabs(r, add_row, m);
	if (m->rows != 0)
		qsort(m->row, m->rows, sizeof *m->row, by_base);
	if (result == READING_OK)
		result = reading_slabs(r, add_slab, m);
	if (result == READING_OK)
		result = reading_larges(r, add_large, m);
	for (unsigned sc = 1; sc < MAP_CLASSES; sc++)
		m->class_size[sc] = reading_class_size(r, sc);
	snprintf(m->title, sizeof m->title, "%s[%d]", p->name, (int)p->pid);
	return process_why(p, result);
}

/* ---- as text ---- */

/* Sizes up to 16, 32, 64, ... 32768 bytes. */
unsigned map_band(uint64_t size) {
	unsigned band = 0;
	for (uint64_t end = 16; end < size; end *= 2)
		band++;
	return band;
}

static const char band_letters[] = "abcdefghijkl";

static char letter_of(const struct map *m, const struct map_cell *c) {
	switch (c->kind) {
	case MAP_CLEAN: return '.';
	case MAP_DIRTY: return ':';
	case MAP_LARGE: return '[';
	case MAP_LARGE_MORE: return '=';
	case MAP_MOSAIC: return '%';
	case MAP_OTHER: return '+';
	case MAP_SLAB: break;
	}
	char letter = band_letters[map_band(m->class_size[c->sc]) % (sizeof band_letters - 1)];
	return c->percent >= 50 ? (char)(letter - 'a' + 'A') : letter;
}

/* Of a terminal of 256 colours, which may be black or white; by band. */
static const uint8_t band_hues[] = { 63, 27, 33, 39, 45, 49, 40, 112, 184, 220, 208, 196 };

static int hue_of(const struct map *m, const struct map_cell *c) {
	switch (c->kind) {
	case MAP_SLAB: return band_hues[map_band(m->class_size[c->sc]) % sizeof band_hues];
	case MAP_CLEAN: return 240;
	case MAP_DIRTY: return 245;
	case MAP_MOSAIC: return 201;
	default: return 0; /* the terminal's own */
	}
}

static void print_letter(char letter, const char *weight, int hue, bool colours) {
	if (colours && hue != 0)
		printf("\033[%s38;5;%dm%c\033[0m", weight, hue, letter);
	else
		putchar(letter);
}

/* The colour is that of the size, how full it is the weight. */
static void print_cell(const struct map *m, const struct map_cell *c, bool colours) {
	const char *weight = c->kind != MAP_SLAB || c->percent < 50 ? "" : c->percent < 90 ? "1;" : "1;7;";
	print_letter(letter_of(m, c), weight, hue_of(m, c), colours);
}

void map_head(const struct map *m, char *to, size_t size) {
	snprintf(to, size, "%s, SuperSlabs: %zu; large blocks beside: %" PRIu64 " (%s), kept: %" PRIu64 " (%s)",
	         m->title, m->rows, m->big, amount_of(m->big_bytes).text, m->kept, amount_of(m->kept_bytes).text);
}

static void print_legend(bool colours) {
	printf("64 KiB each: a slab, by its block size; capitals: half full%s\n", colours ? "; reversed: 90 %" : "");
	for (unsigned band = 0; band < sizeof band_hues; band++) {
		fputs("  ", stdout);
		print_letter(band_letters[band], "", band_hues[band], colours);
		printf(band < 6 ? " %u" : " %uK", 16U << band >> (band < 6 ? 0 : 10));
	}
	puts("\n  % mixed sizes  [== large  + other  : free, may be resident  . free, no memory\n"
	     "behind an address a SuperSlab of 2 MiB; huge: it asked for huge pages");
}

/* How many SuperSlabs a line takes: one where a program may read it. */
static size_t per_line(void) {
	enum { WIDTH = 12 + 1 + MAP_GRANULES + 5 + 2 };
	unsigned rows, columns;
	screen_size(&rows, &columns);
	return screen_is_terminal() && columns >= 2 * WIDTH - 2 ? (columns + 2) / WIDTH : 1;
}

static void print_text(const struct map *m) {
	bool colours = screen_has_colour();
	char head[256];
	map_head(m, head, sizeof head);
	puts(head);
	if (m->alone != 0)
		printf("%zu slabs lie outside of SuperSlabs\n", m->alone);
	print_legend(colours);
	for (size_t i = 0; i < m->rows; i++) {
		bool last = (i + 1) % per_line() == 0 || i + 1 == m->rows;
		printf("%012" PRIx64 " ", m->row[i].base);
		for (unsigned g = 0; g < MAP_GRANULES; g++)
			print_cell(m, &m->row[i].cell[g], colours);
		printf("%s%s", m->row[i].huge ? " huge" : last ? "" : "     ", last ? "\n" : "  ");
	}
}

/* ---- the command ---- */

static int draw(const struct map *m, const char *svg) {
	if (svg == NULL) {
		print_text(m);
		return TOOL_OK;
	}
	FILE *file = strcmp(svg, "-") == 0 ? stdout : fopen(svg, "we");
	if (file == NULL) {
		complain("%s: %m", svg);
		return TOOL_FAILED;
	}
	map_write_svg(m, file);
	if (file == stdout) /* main looks whether it took all */
		return TOOL_OK;
	bool is_whole = fflush(file) == 0 && !ferror(file);
	if (fclose(file) == 0 && is_whole)
		return TOOL_OK;
	complain("%s: %m", svg);
	return TOOL_FAILED;
}

static int run(int argc, char **argv) {
	const char *svg = NULL;
	pid_t pid = 0;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--svg") == 0) {
			if (i + 1 == argc)
				return misused("map: --svg needs a file, or - for standard output");
			svg = argv[++i];
		} else if (pid != 0) {
			return misused("map: one process at a time");
		} else if (!process_parse("map", argv[i], &pid)) {
			return TOOL_USAGE;
		}
	}
	if (pid == 0)
		return misused("map: which process?");
	struct process p;
	struct map m = { 0 };
	enum tool_exit why = process_open(&p, pid);
	if (why == TOOL_OK)
		why = collect(&m, &p);
	int code = why == TOOL_OK ? draw(&m, svg) : (int)process_complain(&p, why);
	free(m.row);
	return code;
}

const struct command command_map = {
	.name = "map",
	.summary = "a picture of a process's heap",
	.usage = "usage: hakmem map PID [--svg FILE]\n"
	         "\n"
	         "Draws the heap of a running process: a line per SuperSlab of 2 MiB, a character per granule of\n"
	         "64 KiB, by what it holds and how full it is.\n"
	         "\n"
	         "  --svg FILE   as a drawing; - is standard output\n",
	.run = run,
};
