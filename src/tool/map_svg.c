/* SPDX-License-Identifier: MIT */
/* The heap as a drawing: a square per granule, its hue the block size, its filled height how full it is. */
#include <inttypes.h>

#include "tool/map.h"

enum { CELL = 14, GAP = 2, LEFT = 120, TOP = 114, BANDS = 12, LEGEND_WIDTH = 64 };

#define FREE_CLEAN "#ececec"

/* Blue for the smallest blocks to red for the largest, as far apart as the eye sees them. */
static unsigned hue_of(unsigned band) {
	static const uint8_t hues[BANDS] = { 240, 218, 202, 188, 172, 145, 112, 80, 58, 43, 24, 0 };
	return hues[band % BANDS];
}

static void rectangle(FILE *f, int x, int y, int width, int height, const char *fill) {
	fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", x, y, width, height, fill);
}

static void text(FILE *f, int x, int y, const char *class, const char *words) {
	fprintf(f, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, class);
	for (; *words != '\0'; words++)
		if (*words == '<' || *words == '&')
			fprintf(f, "&#%d;", *words);
		else
			fputc(*words, f);
	fputs("</text>\n", f);
}

static void draw_slab(FILE *f, const struct map *m, const struct map_cell *c, int x, int y) {
	char fill[32], back[32];
	unsigned hue = hue_of(map_band(m->class_size[c->sc]));
	int height = (c->percent * CELL + 99) / 100;
	snprintf(back, sizeof back, "hsl(%u,35%%,88%%)", hue);
	snprintf(fill, sizeof fill, "hsl(%u,75%%,%d%%)", hue, c->orphan ? 70 : 45);
	rectangle(f, x, y, CELL, CELL, back);
	if (height != 0)
		rectangle(f, x, y + CELL - height, CELL, height, fill);
}

static void draw_cell(FILE *f, const struct map *m, const struct map_cell *c, int x, int y) {
	switch (c->kind) {
	case MAP_SLAB: draw_slab(f, m, c, x, y); break;
	case MAP_CLEAN: rectangle(f, x, y, CELL, CELL, FREE_CLEAN); break;
	case MAP_DIRTY: rectangle(f, x, y, CELL, CELL, "#bbb"); break;
	case MAP_MOSAIC:
		rectangle(f, x, y, CELL, CELL, "#f7d4f7");
		rectangle(f, x, y + CELL - c->percent * CELL / 100, CELL, c->percent * CELL / 100, "#c030c0");
		break;
	case MAP_LARGE: rectangle(f, x, y, CELL, CELL, "#333"); break;
	case MAP_LARGE_MORE: rectangle(f, x - GAP, y, CELL + GAP, CELL, "#555"); break;
	default: rectangle(f, x, y, CELL, CELL, "#8a7a5a"); break;
	}
}

static void draw_legend(FILE *f) {
	static const struct {
		const char *fill, *words;
	} others[] = { { "#c030c0", "mixed sizes" }, { "#333", "large block" }, { "#8a7a5a", "other" },
	               { "#bbb", "free, dirty" }, { FREE_CLEAN, "free, clean" } };
	for (unsigned band = 0; band < BANDS; band++) {
		char fill[32], words[16];
		int x = LEFT + (int)band * LEGEND_WIDTH;
		snprintf(fill, sizeof fill, "hsl(%u,75%%,45%%)", hue_of(band));
		snprintf(words, sizeof words, "%u", 16u << band);
		rectangle(f, x, 40, CELL, CELL, fill);
		text(f, x + CELL + 4, 51, "s", words);
	}
	for (int i = 0; i < (int)(sizeof others / sizeof *others); i++) {
		rectangle(f, LEFT + i * 2 * LEGEND_WIDTH, 64, CELL, CELL, others[i].fill);
		text(f, LEFT + i * 2 * LEGEND_WIDTH + CELL + 4, 75, "s", others[i].words);
	}
}

void map_write_svg(const struct map *m, FILE *f) {
	enum { ROW = MAP_GRANULES * (CELL + GAP), COLUMN = LEFT + ROW + 60, PER_COLUMN = 64 };
	int columns = (int)((m->rows + PER_COLUMN - 1) / PER_COLUMN);
	int rows = m->rows < PER_COLUMN ? (int)m->rows : PER_COLUMN;
	int width = (columns > 1 ? columns : 1) * COLUMN, height = TOP + rows * (CELL + GAP) + 20;
	if (width < LEFT + BANDS * LEGEND_WIDTH + 20)
		width = LEFT + BANDS * LEGEND_WIDTH + 20;
	fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
	        "<style>text{font:14px sans-serif}.s{font-size:11px}.a{font:11px monospace}</style>\n",
	        width, height, width, height);
	rectangle(f, 0, 0, width, height, "#fff");
	char words[256];
	map_head(m, words, sizeof words);
	text(f, 10, 24, "t", words);
	text(f, 10, 51, "s", "slab, block size to:");
	text(f, 10, 75, "s", "other granules:");
	draw_legend(f);
	text(f, 10, 99, "s", "A square is 64 KiB, filled as far as it is in use; a row is a SuperSlab of 2 MiB; huge: it asked for "
	     "huge pages.");
	for (size_t i = 0; i < m->rows; i++) {
		int x = (int)(i / PER_COLUMN) * COLUMN, y = TOP + (int)(i % PER_COLUMN) * (CELL + GAP);
		snprintf(words, sizeof words, "%012" PRIx64, m->row[i].base);
		text(f, x + 10, y + 11, "a", words);
		for (int g = 0; g < MAP_GRANULES; g++)
			draw_cell(f, m, &m->row[i].cell[g], x + LEFT + g * (CELL + GAP), y);
		if (m->row[i].huge)
			text(f, x + LEFT + ROW + 4, y + 11, "a", "huge");
	}
	fputs("</svg>\n", f);
}
